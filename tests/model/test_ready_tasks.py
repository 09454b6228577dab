"""Who is next among the tasks of a run that may start, and what each of the others waits for."""

from __future__ import annotations

from typing import Any

from support import bash, dag, empty
from tidemill.model.run.planner import RunPlan
from tidemill.model.states import TaskState

NONE, QUEUED, RUNNING, SUCCESS = TaskState.NONE, TaskState.QUEUED, TaskState.RUNNING, TaskState.SUCCESS


class Run:
    """A plan whose leases are granted by hand."""

    def __init__(self, *tasks: dict[str, Any], parallelism: int | None = None, ahead: int | None = None, **fields: Any):
        self.spec = dag("d", [*tasks], **fields)
        self.plan = RunPlan(self.spec, dict.fromkeys(self.spec.by_id, NONE), parallelism=parallelism)
        if ahead is not None:
            self.plan.ask_ahead(ahead)

    def started(self) -> list[str]:
        """What starts now."""
        return [decision.key for decision in self.plan.decide() if decision.state is QUEUED]

    def wanted(self) -> list[str]:
        """What a lease is asked for now."""
        return self._drained(self.plan.wanted_leases)

    def returned(self) -> list[str]:
        """Whose lease is given back now."""
        return self._drained(self.plan.returned_leases)

    @staticmethod
    def _drained(keys: list[str]) -> list[str]:
        taken = [*keys]
        keys.clear()
        return taken

    def end(self, *keys: str) -> None:
        for key in keys:
            self.plan.record(key, RUNNING)
            self.plan.record(key, SUCCESS)


def test_heaviest_first_then_as_they_stand_in_the_dag_then_by_map_index() -> None:
    mapped = bash("m", "x", expand={"by": {"command": ["1", "2"]}, "into": "fields"})
    run = Run(mapped, empty("b"), empty("heavy", priority_weight=5), max_active_tasks=16)
    run.plan.expand(["m"], 12)
    assert run.started() == ["heavy", *(f"m[{n}]" for n in range(12)), "b"]
    assert run.plan.counts[QUEUED] == 14


def test_a_pool_lets_in_whom_it_was_asked_for() -> None:
    run = Run(bash("a", "x", pool="p"), empty("free"))
    assert (run.started(), run.wanted()) == (["free"], ["a"])
    assert run.plan.grant("a")
    assert (run.started(), run.wanted(), run.returned()) == (["a"], [], [])
    assert not run.plan.grant("a"), "it has started"
    assert not run.plan.grant("free"), "it has asked nobody"


def test_what_was_let_in_is_given_back_where_the_run_is_full() -> None:
    run = Run(bash("a", "x", pool="p"), empty("b", priority_weight=9), empty("c", "b"), max_active_tasks=1)
    assert run.started() == ["b"]
    assert run.wanted() == [], "there is no room for it"
    run.end("b")
    assert run.started() == ["c"], "it was ready first"
    run.end("c")
    assert (run.started(), run.wanted()) == ([], ["a"])
    assert run.plan.grant("a")
    assert run.started() == ["a"]


def test_a_lease_that_comes_while_the_run_is_full_is_given_back_and_asked_for_again() -> None:
    run = Run(bash("a", "x", pool="p"), empty("b"), empty("c"), max_active_tasks=2)
    assert run.started() == ["b", "c"]
    assert run.wanted() == ["a"]
    assert run.plan.grant("a")
    assert (run.started(), run.returned()) == ([], ["a"])
    assert not run.plan.grant("a"), "it does not wait for a lease now"
    assert run.plan.why("a") == "max_active_tasks = 2 is reached: 2 tasks of this run are queued or running"
    run.end("b")
    assert (run.started(), run.wanted()) == ([], ["a"])


def test_a_paused_run_gives_back_what_was_let_in() -> None:
    run = Run(bash("a", "x", pool="p"))
    run.started()
    run.plan.grant("a")
    run.plan.paused = True
    assert (run.started(), run.returned()) == ([], ["a"])
    assert run.plan.why("a") == "the DAG is paused: no task is started"


def test_instances_of_one_task_have_a_limit_in_a_run_and_wait_in_order() -> None:
    mapped = bash("m", "x", expand={"by": {"command": ["1"]}, "into": "fields"}, max_active_tis_per_dagrun=2)
    run = Run(mapped, empty("z"))
    run.plan.expand(["m"], 4)
    assert run.started() == ["m[0]", "m[1]", "z"]
    reason = "max_active_tis_per_dagrun = 2 is reached: 2 instances of m are active in this run"
    assert run.plan.why("m[2]") == reason
    run.plan.record("m[0]", RUNNING)
    run.plan.record("m[0]", TaskState.DEFERRED)
    assert run.started() == [], "one that waits outside of a worker is active, too"
    run.plan.record("m[0]", SUCCESS)
    assert run.started() == ["m[2]"]
    run.end("m[1]")
    assert run.started() == ["m[3]"]


def test_a_lease_is_given_back_where_the_limit_in_the_run_is_reached() -> None:
    mapped = bash("m", "x", expand={"by": {"command": ["1"]}, "into": "fields"}, max_active_tis_per_dagrun=1, pool="p")
    run = Run(mapped)
    run.plan.expand(["m"], 2)
    assert (run.started(), run.wanted()) == ([], ["m[0]", "m[1]"])
    for key in ("m[0]", "m[1]"):
        assert run.plan.grant(key)
    assert (run.started(), run.returned()) == (["m[0]"], ["m[1]"])
    run.end("m[0]")
    assert (run.started(), run.wanted()) == ([], ["m[1]"]), "it asks anew"
    assert run.plan.grant("m[1]")
    assert run.started() == ["m[1]"]


def test_some_of_a_kind_ask_at_a_time_in_order() -> None:
    run = Run(*(bash(f"t{n}", "x", pool="p") for n in range(4)), bash("big", "x", pool="p", pool_slots=2), ahead=2)
    assert (run.started(), run.wanted()) == ([], ["t0", "t1", "big"])
    assert run.plan.why("t3") == "waits for 1 of the slots of pool 'p'"
    assert run.plan.grant("t0")
    assert (run.started(), run.wanted()) == (["t0"], ["t2"])
    run.plan.record("t3", TaskState.SKIPPED)
    run.plan.record("t1", TaskState.SKIPPED)
    assert (run.started(), run.wanted()) == ([], []), "nobody else is left"
    assert run.plan.grant("t2")
    assert run.started() == ["t2"]


def test_who_has_a_limit_over_all_runs_is_of_a_kind_of_its_own() -> None:
    tasks = [bash(f"t{n}", "x", max_active_tis_per_dag=1) for n in range(2)]
    run = Run(*tasks, bash("p", "x", pool="p"), bash("q", "x", pool="q"), ahead=1)
    run.started()
    assert run.wanted() == ["t0", "t1", "p", "q"]


def test_who_asked_before_the_run_went_on_as_new_stays_in_its_place() -> None:
    run = Run(*(bash(f"t{n}", "x", pool="p") for n in range(3)), bash("done", "x", pool="p"), ahead=1)
    run.started()
    states = {**run.plan.states, "done": SUCCESS}
    again = Run(*(bash(f"t{n}", "x", pool="p") for n in range(3)), bash("done", "x", pool="p"))
    again.plan = RunPlan(again.spec, states)
    again.plan.ask_ahead(1)
    again.plan.mark_requested(["t1", "done", "gone"])
    assert (again.started(), again.wanted()) == ([], [])
    assert again.plan.grant("t1")
    assert not again.plan.grant("done")
    assert (again.started(), again.wanted()) == (["t1"], ["t0"])


def test_what_a_task_waits_for_in_the_order_of_what_may_hold_it_up() -> None:
    run = Run(
        bash("pool", "x", pool="p", pool_slots=3, max_active_tis_per_dag=2),
        bash("limit", "x", max_active_tis_per_dag=2),
        bash("all", "x"),
        empty("nothing", priority_weight=9),
        parallelism=7,
        max_active_tasks=1,
    )
    assert run.started() == ["nothing"]
    full = "max_active_tasks = 1 is reached: 1 tasks of this run are queued or running"
    assert {run.plan.why(key) for key in ("pool", "limit", "all")} == {full}, "none has asked"
    run.end("nothing")
    assert (run.started(), run.wanted()) == ([], ["pool", "limit", "all"])
    assert run.plan.why("pool") == "waits for 3 of the slots of pool 'p'"
    assert run.plan.why("limit") == "max_active_tis_per_dag = 2: other runs have as many of limit active"
    assert run.plan.why("all") == "parallelism = 7 is reached: as many tasks of all DAGs are queued or running"
    run.plan.grant("all")
    assert run.started() == ["all"]
    assert run.plan.why("all") == "waits for a worker on the DAG's task queue"
