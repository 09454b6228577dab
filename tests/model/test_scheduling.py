"""Which task next: decided without a server."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from strategies import dags, outcomes
from support import bash, dag, empty
from tidemill.model.run.planner import RunEnd, RunPlan
from tidemill.model.run.trigger_rules import Upstreams, Verdict, judge
from tidemill.model.spec.dag import DagSpec, read_dag
from tidemill.model.spec.trigger_rule import TriggerRule
from tidemill.model.states import RunState, TaskState, check_transition

NONE, SCHEDULED, QUEUED, SUCCESS, FAILED = (
    TaskState.NONE,
    TaskState.SCHEDULED,
    TaskState.QUEUED,
    TaskState.SUCCESS,
    TaskState.FAILED,
)


def new_plan(spec: DagSpec) -> RunPlan:
    return RunPlan(spec, {task.task_id: NONE for task in spec.tasks})


def play(spec: DagSpec, ends: dict[str, TaskState], order: Random) -> tuple[dict[str, TaskState], RunEnd]:
    """Runs *spec* to its end: each task that is started ends as *ends* says, in a random order."""
    plan, busy, seen = new_plan(spec), [], dict.fromkeys(ends, NONE)
    for _ in range(10 * len(spec.tasks) + 10):
        for decision in plan.decide():
            check_transition(decision.key, seen[decision.key], decision.state)
            seen[decision.key] = decision.state
            if decision.state is QUEUED:
                busy.append(decision.key)
        assert len(busy) <= spec.max_active_tasks
        end = plan.end()
        if end is not None:
            return plan.states, end
        task_id = busy.pop(order.randrange(len(busy)))
        seen[task_id] = ends[task_id]
        plan.record(task_id, ends[task_id])
    raise AssertionError("the run does not end")


@given(st.data(), st.randoms())
def test_every_run_ends(data: st.DataObject, order: Random) -> None:
    spec = data.draw(dags())
    states, end = play(spec, data.draw(outcomes(spec)), order)
    assert end.state.finished
    assert all(state.finished for state in states.values()) or "deadlock" in end.reason


# all_success and the rules that react to a first bad upstream can end as either of two bad states.
ORDERLESS = [rule for rule in TriggerRule if rule is not TriggerRule.ALL_SUCCESS]


@given(st.data(), st.randoms(), st.randoms())
def test_the_order_in_which_tasks_finish_does_not_change_how_the_run_ends(
    data: st.DataObject, one: Random, other: Random
) -> None:
    spec = data.draw(dags(ORDERLESS))
    ends = data.draw(outcomes(spec))
    first, second = play(spec, ends, one), play(spec, ends, other)
    # A rule satisfied before all upstreams have ended lets a task run early: never otherwise.
    assert first[0] == second[0]
    assert first[1].state == second[1].state


@given(st.data(), st.randoms())
def test_what_a_plan_remembers_can_be_made_again_from_the_states(data: st.DataObject, order: Random) -> None:
    """As after continue-as-new: a plan made of the states alone goes on as the old one would have."""
    spec = data.draw(dags())
    ends = data.draw(outcomes(spec))
    plan, busy = new_plan(spec), []
    for _ in range(order.randrange(len(spec.tasks) + 1)):
        busy += [d.key for d in plan.decide() if d.state is QUEUED]
        if not busy:
            break
        task_id = busy.pop(order.randrange(len(busy)))
        plan.record(task_id, ends[task_id])
    again = RunPlan(spec, plan.states)
    assert {d.key: d.state for d in plan.decide()} == {d.key: d.state for d in again.decide()}
    assert plan.end() == again.end()


@given(st.sampled_from(TriggerRule), st.lists(st.sampled_from([*TaskState]), max_size=6), st.randoms())
def test_a_rule_looks_at_counts_alone(rule: TriggerRule, states: list[TaskState], order: Random) -> None:
    shuffled = order.sample(states, len(states))
    assert judge(rule, Upstreams.of(states)) is judge(rule, Upstreams.of(shuffled))


def test_counting_up_and_down_agrees_with_counting_anew() -> None:
    counts = Upstreams.of([SUCCESS, NONE])
    counts.add(NONE, -1)
    counts.add(TaskState.UPSTREAM_FAILED, 1)
    assert counts == Upstreams.of([SUCCESS, TaskState.UPSTREAM_FAILED])


def test_no_more_tasks_start_than_the_limit_lets_in() -> None:
    spec = dag("wide", [empty(f"t{i}") for i in range(5)], max_active_tasks=2)
    plan = new_plan(spec)
    assert [d.key for d in plan.decide() if d.state is QUEUED] == ["t0", "t1"]
    assert plan.why("t2") == "max_active_tasks = 2 is reached: 2 tasks of this run are queued or running"
    plan.record("t0", SUCCESS)
    assert [d.key for d in plan.decide()] == ["t2"]


def test_a_failure_goes_down_the_graph() -> None:
    plan = new_plan(dag("chain", [bash("a", "false"), empty("b", "a"), empty("c", "b")]))
    plan.decide()
    plan.record("a", FAILED)
    decisions = {d.key: (d.state, d.reason) for d in plan.decide()}
    assert decisions == {
        "b": (TaskState.UPSTREAM_FAILED, "trigger_rule all_success: a is failed"),
        "c": (TaskState.UPSTREAM_FAILED, "trigger_rule all_success: b is upstream_failed"),
    }
    assert plan.end() == RunEnd(RunState.FAILED, "a failed")


def test_a_failed_task_whose_downstream_succeeds_does_not_fail_the_run() -> None:
    plan = new_plan(dag("mended", [bash("a", "false"), empty("b", "a", trigger_rule="all_done")]))
    plan.decide()
    plan.record("a", FAILED)
    assert [d.key for d in plan.decide() if d.state is QUEUED] == ["b"]
    plan.record("b", SUCCESS)
    end = plan.end()
    assert end is not None
    assert end.state is RunState.SUCCESS


def test_a_run_that_can_never_go_on_fails_and_says_why() -> None:
    """all_skipped with a removed upstream waits for ever, as in Airflow: a deadlock."""
    spec = dag("stuck", [empty("a"), empty("b", "a", trigger_rule="all_skipped")])
    plan = RunPlan(spec, {"a": TaskState.REMOVED, "b": NONE})
    assert plan.decide() == []
    assert plan.end() == RunEnd(RunState.FAILED, "deadlock: nothing can start b")


def test_a_task_waits_while_its_upstreams_run() -> None:
    plan = new_plan(dag("waits", [bash("a", "x"), bash("b", "x"), empty("c", "a", "b")]))
    plan.decide()
    assert plan.why("c") == "trigger_rule all_success: a, b are queued"
    assert judge(TriggerRule.ALL_SUCCESS, Upstreams.of([SUCCESS, QUEUED])) is Verdict.WAIT


def test_an_empty_dag_succeeds() -> None:
    end = new_plan(dag("nothing", [])).end()
    assert end is not None
    assert end.state is RunState.SUCCESS


# Mapped tasks, limits and what can be made again


@st.composite
def mapped_dags(draw: st.DrawFn) -> tuple[DagSpec, dict[str, int]]:
    """A random DAG in which some tasks are mapped, and how many instances each of those has (0: none)."""
    spec = draw(dags(most=8))
    lengths = {}
    tasks = []
    for task in spec.tasks:
        fields = {
            "kind": "empty",
            "task_id": task.task_id,
            "upstream": task.upstream,
            "trigger_rule": task.trigger_rule,
        }
        if draw(st.booleans()):
            lengths[task.task_id] = n = draw(st.integers(0, 4))
            fields["expand"] = {"by": {"pool_slots": list(range(1, n + 1))}, "into": "fields"}
        if draw(st.booleans()):
            fields["max_active_tis_per_dagrun"] = draw(st.integers(1, 2))
        if draw(st.booleans()):
            fields["pool"] = "shared"
        tasks.append(fields)
    return read_dag({"dag_id": "mapped", "tasks": tasks, "max_active_tasks": spec.max_active_tasks}), lengths


class Played:
    """A run of a DAG, played step by step, with every rule checked on the way."""

    def __init__(self, spec: DagSpec, lengths: dict[str, int]) -> None:
        self.spec, self.lengths = spec, lengths
        self.plan = new_plan(spec)
        self.states = dict(self.plan.states)
        self.busy: list[str] = []

    def take(self, key: str, state: TaskState) -> None:
        check_transition(key, self.states[key], state)
        self.states[key] = state

    def decide(self) -> None:
        while True:
            expanded = self.plan.mappable()
            for task_id in expanded:
                self.expand(task_id)
            decisions = self.plan.decide()
            for decision in decisions:
                self.take(decision.key, decision.state)
                self.busy += [decision.key] if decision.state is QUEUED else []
            asked = [*self.plan.wanted_leases]
            self.plan.wanted_leases.clear()
            for key in asked:
                self.plan.grant(key)
            if not (expanded or decisions or asked):
                break
        assert self.plan.states == self.states
        assert len(self.busy) <= self.spec.max_active_tasks
        for task in self.spec.tasks:
            running = [key for key in self.busy if key.split("[")[0] == task.task_id]
            assert len(running) <= (task.max_active_tis_per_dagrun or 99)

    def expand(self, task_id: str) -> None:
        n = self.lengths[task_id]
        if not n:
            self.take(task_id, TaskState.SKIPPED)
            self.plan.record(task_id, TaskState.SKIPPED)
            return
        self.plan.expand([task_id], n)
        del self.states[task_id]
        self.states |= {f"{task_id}[{i}]": NONE for i in range(n)}

    def finish(self, key: str, state: TaskState) -> None:
        self.busy.remove(key)
        self.take(key, state)
        self.plan.record(key, state)

    def made_again(self) -> None:
        """What a worker does that takes the run over: a plan of the states alone."""
        self.plan = RunPlan(self.spec, self.states)


@given(st.data(), st.randoms())
def test_runs_with_mapped_tasks_end_within_their_limits_wherever_they_are_taken_over(
    data: st.DataObject, order: Random
) -> None:
    spec, lengths = data.draw(mapped_dags())
    run = Played(spec, lengths)
    for _ in range(200):
        run.decide()
        if order.random() < 0.2:
            run.made_again()
            run.decide()
        if (end := run.plan.end()) is not None:
            break
        run.finish(order.choice(run.busy), order.choice([SUCCESS, SUCCESS, FAILED, TaskState.SKIPPED]))
    assert end is not None
    assert all(state.finished for state in run.states.values()) or "deadlock" in end.reason
    for task_id, n in lengths.items():
        mine = [key for key in run.states if key.split("[")[0] == task_id]
        assert len(mine) == max(1, n) or run.states.get(task_id) in (
            TaskState.UPSTREAM_FAILED,
            TaskState.SKIPPED,
            NONE,
        )


def test_a_lease_that_cannot_be_used_is_given_back() -> None:
    """A granted slot of a pool is not held by a task that waits for max_active_tasks."""
    tasks = [empty("a", pool="p", priority_weight=1), empty("b", priority_weight=5)]
    plan = new_plan(dag("leases", tasks, max_active_tasks=1))
    assert [d.key for d in plan.decide() if d.state is QUEUED] == ["b"]
    assert plan.wanted_leases == []
    plan.record("b", SUCCESS)
    plan.decide()
    assert plan.wanted_leases == ["a"]
    assert plan.grant("a")
    assert [d.key for d in plan.decide()] == ["a"]


def test_heavier_tasks_go_first() -> None:
    tasks = [empty("light"), empty("heavy", priority_weight=10), empty("long"), empty("tail", "long")]
    plan = new_plan(dag("weights", tasks, max_active_tasks=1))
    first = [d.key for d in plan.decide() if d.state is QUEUED]
    plan.record("heavy", SUCCESS)
    assert (first, [d.key for d in plan.decide()]) == (["heavy"], ["long"])
