"""What follows in a run from what happens to it, and in which order a driver is told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tidemill.model.asset.outlets import OutletEvent
from tidemill.model.run.changes import Change, marked, resumed
from tidemill.model.run.engine import DISRUPTION_DELAY, MAX_DISRUPTIONS, PUSHED_LIMIT, RESULTS_LIMIT, RunEngine
from tidemill.model.run.identity import TriggerRequest, manual_run
from tidemill.model.run.past import Past
from tidemill.model.run.planner import RunEnd
from tidemill.model.run.revisions import MarkRequest, RunMark
from tidemill.model.run.state import DagRunState
from tidemill.model.run.task_instances import Failure, Outcome, TaskInstance
from tidemill.model.run.views import task_view
from tidemill.model.spec.dag import read_dag
from tidemill.model.spec.references import XCOM_REFERENCE
from tidemill.model.states import RunState, TaskState

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Driver:
    """Notes what it is told, and starts nothing. Slots are granted at once."""

    def __init__(self, tasks: list[dict[str, Any]], **fields: Any) -> None:
        self.told: list[Any] = []
        self.attempts: list[str] = []
        self.timers: dict[str, datetime] = {}
        self.now = NOW
        spec = read_dag({"dag_id": "it", "tasks": tasks, **fields})
        run = manual_run("it", spec.schedule, TriggerRequest(), NOW)
        self.state = DagRunState(run=run, spec=spec, started_at=NOW)
        self.engine = RunEngine(self.state, self)

    def begin(self) -> RunEngine:
        self.engine.go_on()
        return self.engine

    def comes_to(self, key: str, outcome: Outcome | Failure) -> list[Any]:
        """What the driver is told when the attempt of *key* comes to *outcome*; then all that follows is done."""
        self.told.clear()
        self.attempts.remove(key)
        self.engine.end_attempt(self.state.instances[key], outcome)
        told = [*self.told]
        self.engine.go_on()
        return told

    def wakes(self, key: str) -> None:
        self.now = self.timers.pop(key)
        self.engine.wake(self.state.instances[key])
        self.engine.go_on()

    @property
    def states(self) -> dict[str, str]:
        return {key: str(state) for key, state in self.state.states.items()}

    # RunDriver

    def current_time(self) -> datetime:
        return self.now

    def changed(self) -> None: ...

    def softens_failures(self) -> bool:
        return True

    def tears_down(self) -> bool:
        return True

    def is_under_way(self, key: str) -> bool:
        return key in self.attempts

    def start_attempt(self, instance: TaskInstance) -> None:
        self.attempts.append(instance.key)

    def stop_attempt(self, key: str) -> None:
        self.told.append(("stop", key))

    def set_timer(self, instance: TaskInstance, until: datetime) -> None:
        self.timers[instance.key] = until
        self.told.append(("timer", instance.key, until - self.now))

    def forget_timer(self, key: str) -> None:
        self.timers.pop(key, None)

    def begin_trigger(self, instance: TaskInstance) -> None:
        self.told.append(("trigger", instance.key))

    def stop_trigger(self, key: str) -> None: ...

    def exchange_slots(self, wanted: Sequence[str], returned: Sequence[str]) -> bool:
        self.told += [("returned", key) for key in returned]
        for key in wanted:
            self.engine.plan.grant(key)
        return bool(wanted)

    def return_slots(self, keys: Sequence[str]) -> None:
        self.told += [("returned", key) for key in keys]

    def park_slots(self, key: str) -> None:
        self.told.append(("parked", key))

    def replan(self) -> None: ...

    def tell_of_try(self, instance: TaskInstance) -> None: ...

    def tell_of_end_of_try(
        self, instance: TaskInstance, state: TaskState, outcome: Outcome | Failure, reason: str | None
    ) -> None:
        self.told.append(("try", instance.key, str(state), str(instance.state), reason))

    def tell_of_assets(self, instance: TaskInstance, events: tuple[OutletEvent, ...]) -> None:
        self.told.append(("assets", instance.key))

    def tell_of_end(self, instance: TaskInstance) -> None:
        self.told.append(("end", instance.key, str(instance.state)))


def python(task_id: str, *upstream: str, kind: str = "python", **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "task_id": task_id, "upstream": list(upstream), **fields}


def result(value: Any) -> Outcome:
    return Outcome(xcom={"return_value": value})


FAILED = Failure(error_type="ValueError", message="no")


def test_a_failed_instance_keeps_what_it_calls_itself() -> None:
    driver = Driver([python("a")])
    driver.begin()
    driver.comes_to("a", FAILED.model_copy(update={"map_label": "the third of May"}))
    assert driver.state.instances["a"].map_label == "the third of May"


def test_the_end_of_a_try_is_told_in_one_order() -> None:
    """Slots are free, and assets are told, before the task counts as ended; notices see the try's own end."""
    driver = Driver(
        [python("a", outlets=[{"kind": "asset", "name": "x", "uri": "x"}]), {"kind": "empty", "task_id": "b"}]
    )
    driver.begin()
    assert driver.comes_to("a", result(1)) == [
        ("try", "a", "success", "running", None),
        ("assets", "a"),
        ("returned", "a"),
        ("end", "a", "success"),
    ]
    assert driver.engine.end == RunEnd(RunState.SUCCESS, "every leaf task succeeded or was skipped")


def test_a_task_that_fails_is_tried_again_after_its_delay() -> None:
    driver = Driver([python("a", retries=1, retry_delay=60)])
    driver.begin()
    assert driver.comes_to("a", FAILED) == [
        ("try", "a", "up_for_retry", "running", "ValueError: no"),
        ("returned", "a"),
        ("timer", "a", timedelta(seconds=60)),
    ]
    assert (driver.states, driver.attempts) == ({"a": "up_for_retry"}, [])
    driver.wakes("a")
    assert (driver.states, driver.attempts) == ({"a": "queued"}, ["a"])
    driver.comes_to("a", FAILED)
    assert driver.states == {"a": "failed"}
    assert [attempt.try_number for attempt in driver.state.instances["a"].attempts] == [1, 2]


def test_what_a_failed_try_has_pushed_stays_until_the_next_one() -> None:
    driver = Driver([python("a", retries=1, retry_delay=0)])
    driver.begin()
    driver.comes_to("a", FAILED.model_copy(update={"xcom": {"mine": 1}}))
    instance = driver.state.instances["a"]
    assert instance.xcom == {"mine": 1}
    assert instance.failure is not None
    assert instance.failure.xcom == {}
    driver.wakes("a")
    assert instance.xcom == {}


def test_what_failed_tasks_have_pushed_is_bounded_over_a_run() -> None:
    driver = Driver([python("a", retries=2, retry_delay=0), python("b")])
    driver.begin()
    much = FAILED.model_copy(update={"xcom": {"mine": "x" * (PUSHED_LIMIT - 100)}})
    driver.comes_to("a", much)
    driver.comes_to("b", much)
    kept, dropped = driver.state.instances["a"], driver.state.instances["b"]
    assert kept.xcom == much.xcom
    assert dropped.xcom == {}
    assert dropped.failure is not None
    assert "is not kept" in dropped.failure.message
    for _ in range(2):  # what the next try forgets counts no more
        driver.wakes("a")
        driver.comes_to("a", much)
        assert kept.xcom == much.xcom


def test_without_do_xcom_push_only_what_is_pushed_is_kept() -> None:
    driver = Driver([python("a", do_xcom_push=False)])
    driver.begin()
    driver.comes_to("a", Outcome(xcom={"return_value": 7, "mine": 1}))
    assert driver.state.instances["a"].xcom == {"mine": 1}


@pytest.mark.parametrize("kind", ["branch", "short_circuit"])
def test_a_branch_that_skips_itself_decides_nothing(kind: str) -> None:
    driver = Driver(
        [python("a", kind=kind), {"kind": "empty", "task_id": "b", "upstream": ["a"], "trigger_rule": "all_done"}]
    )
    driver.begin()
    driver.comes_to("a", Outcome(state=TaskState.SKIPPED))
    assert driver.states == {"a": "skipped", "b": "success"}


def test_a_branch_to_nowhere_fails() -> None:
    driver = Driver([python("a", kind="branch"), {"kind": "empty", "task_id": "b", "upstream": ["a"]}])
    driver.begin()
    driver.comes_to("a", result("c"))
    assert driver.states == {"a": "failed", "b": "upstream_failed"}


def test_what_a_sensor_has_pushed_that_gives_up_counts_as_results() -> None:
    sensors = [python(f"s{n}", kind="sensor", soft_fail=True) for n in range(6)]
    driver = Driver(sensors, max_active_tasks=10)
    driver.begin()
    pushed = Failure(error_type="AirflowFailException", message="never", retryable=False, xcom={"x": "y" * 200_000})
    for n in range(6):
        driver.comes_to(f"s{n}", pushed)
    states = [str(instance.state) for instance in driver.state.instances.values()]
    assert states == ["skipped"] * 4 + ["failed"] * 2, "together they have more than a run may have"


@pytest.mark.parametrize(("soft_fail", "state"), [(True, "skipped"), (False, "failed")])
def test_a_sensor_whose_time_is_over(soft_fail: bool, state: str) -> None:
    driver = Driver([python("a", kind="sensor", soft_fail=soft_fail, retries=3)])
    driver.begin()
    driver.comes_to("a", Outcome(state=TaskState.FAILED, note="it took too long"))
    assert driver.states == {"a": state}


def test_a_poke_is_no_try() -> None:
    driver = Driver([python("a", kind="sensor", poke_interval=30)])
    driver.begin()
    for _ in range(3):
        told = driver.comes_to("a", Outcome(state=TaskState.UP_FOR_RESCHEDULE))
        assert ("timer", "a", timedelta(seconds=30)) in told
        assert ("returned", "a") in told
        driver.wakes("a")
    driver.comes_to("a", Outcome())
    instance = driver.state.instances["a"]
    assert (instance.try_number, len(instance.attempts), instance.pokes) == (1, 1, 0)
    assert instance.started_at == NOW


def test_results_that_are_too_large_together_fail_the_task() -> None:
    driver = Driver([python("a"), python("b", "a")])
    driver.begin()
    driver.comes_to("a", result("x" * (RESULTS_LIMIT // 2)))
    driver.comes_to("b", result("x" * (RESULTS_LIMIT // 2)))
    assert driver.states == {"a": "success", "b": "failed"}
    failure = driver.state.instances["b"].failure
    assert failure is not None
    assert failure.error_type == "ResultsTooLarge"


def test_mapped_instances_are_made_when_their_values_are_known() -> None:
    driver = Driver(
        [
            python("a"),
            python("b", "a", expand={"by": {"n": {XCOM_REFERENCE: "a", "key": "return_value"}}, "into": "kwargs"}),
        ]
    )
    driver.begin()
    driver.comes_to("a", result([1, 2]))
    assert driver.attempts == ["b[0]", "b[1]"]
    assert driver.engine.attempt_of(driver.state.instances["b[1]"], "here").map_index == 1


def test_what_is_marked_while_it_runs_takes_its_state_when_it_is_gone() -> None:
    driver = Driver([python("a"), {"kind": "empty", "task_id": "b", "upstream": ["a"]}])
    driver.begin()
    driver.told.clear()
    driver.engine.apply(Change(states={"a": TaskState.SUCCESS}, reason="marked success"))
    assert (driver.told, driver.states["a"]) == ([("stop", "a")], "shutdown")
    driver.comes_to("a", Failure(error_type="Cancelled", message="", retryable=False))
    assert driver.states == {"a": "success", "b": "success"}


def test_what_failed_below_a_marked_task_begins_anew() -> None:
    """As in Airflow: who marks a failed task success wants the run to go on."""
    driver = Driver([python("a"), python("b", "a"), python("c", "b"), python("d", retries=0)])
    driver.begin()
    driver.comes_to("a", FAILED)
    driver.comes_to("d", FAILED)
    assert driver.states == {"a": "failed", "b": "upstream_failed", "c": "upstream_failed", "d": "failed"}
    request = MarkRequest(tasks=("a",), state=TaskState.SUCCESS)
    for change in (marked(driver.state, request), resumed(driver.state, request)):
        driver.engine.apply(change)
    driver.engine.go_on()
    assert (driver.states, driver.attempts) == (
        {"a": "success", "b": "queued", "c": "none", "d": "failed"},
        ["b"],
    )


def test_what_is_cleared_while_it_runs_begins_anew() -> None:
    driver = Driver([python("a")])
    driver.begin()
    driver.engine.apply(Change(states={"a": TaskState.NONE}, reason="cleared"))
    assert driver.states == {"a": "restarting"}
    driver.comes_to("a", Failure(error_type="Cancelled", message="", retryable=False))
    assert (driver.states, driver.attempts, driver.state.instances["a"].try_number) == ({"a": "queued"}, ["a"], 2)


def test_a_run_that_is_marked_stops_what_runs_and_skips_the_rest() -> None:
    driver = Driver([python("a"), python("b", "a")])
    driver.begin()
    driver.engine.mark_run(RunMark(state="success"))
    driver.comes_to("a", Failure(error_type="Cancelled", message="", retryable=False))
    assert driver.engine.end == RunEnd(RunState.SUCCESS, "marked success")
    assert driver.states == {"a": "success", "b": "skipped"}


def test_a_run_that_is_marked_success_keeps_what_has_failed() -> None:
    driver = Driver([python("a"), python("b", "a"), python("c")])
    driver.begin()
    driver.comes_to("a", Failure(error_type="ValueError", message="no", retryable=False))
    driver.engine.mark_run(RunMark(state="success"))
    driver.comes_to("c", Failure(error_type="Cancelled", message="", retryable=False))
    assert driver.states == {"a": "failed", "b": "upstream_failed", "c": "success"}


SPARK = {"task_id": "a", "kind": "spark_sql", "sql": "SELECT 1", "retries": 0}


def test_what_a_cluster_ends_costs_no_retry_until_it_has_done_so_ten_times() -> None:
    taken = Failure(error_type="SparkDriverLost", message="", is_disruption=True)
    driver = Driver([{**SPARK, "retries": 1, "retry_delay": 99}])
    driver.begin()
    instance = driver.state.instances["a"]
    for number in range(1, MAX_DISRUPTIONS + 1):
        driver.comes_to("a", taken)
        assert (instance.state, instance.try_number, instance.tries_spent) == ("up_for_retry", number, 0)
        assert driver.timers["a"] == driver.now + DISRUPTION_DELAY
        assert task_view(driver.state, instance, "").max_tries == 1 + number
        driver.wakes("a")
    driver.comes_to("a", taken)  # from then on it costs one
    assert (instance.state, instance.tries_spent) == ("up_for_retry", 1)
    assert driver.timers["a"] == driver.now + timedelta(seconds=99)
    driver.wakes("a")
    driver.comes_to("a", taken)
    assert (driver.states["a"], instance.try_number) == ("failed", MAX_DISRUPTIONS + 2)
    instance.clear()
    assert (instance.tries_spent, instance.disruptions) == (0, 0)


@pytest.mark.parametrize("fields", [{"retry_only_on": ["E"]}, {"no_retry_on": ["SparkDriverLost"]}])
def test_which_failures_are_retried_is_not_asked_of_those_of_a_cluster(fields: dict[str, Any]) -> None:
    driver = Driver([{**SPARK, **fields}])
    driver.begin()
    driver.comes_to("a", Failure(error_type="SparkDriverLost", message="", is_disruption=True))
    assert driver.states["a"] == "up_for_retry"


def test_only_sparks_clusters_end_tries_at_no_cost() -> None:
    driver = Driver([{"task_id": "a", "kind": "bash", "command": "true"}])
    driver.begin()
    driver.comes_to("a", Failure(error_type="E", message="", is_disruption=True))
    assert (driver.states["a"], driver.state.instances["a"].disruptions) == ("failed", 0)


def test_a_failure_of_its_own_costs_a_retry_beside_those_of_its_cluster() -> None:
    driver = Driver([{**SPARK, "retries": 1}])
    driver.begin()
    for is_disruption in (True, False, True):
        driver.comes_to("a", Failure(error_type="E", message="", is_disruption=is_disruption))
        assert driver.states["a"] == "up_for_retry"
        driver.wakes("a")
    driver.comes_to("a", Failure(error_type="E", message=""))
    assert (driver.states["a"], driver.state.instances["a"].try_number) == ("failed", 4)


SET_UP_AND_WORKED = [
    python("s", is_setup=True),
    python("w", "s"),
    python("after", "w"),
    python("t", "w", "s", is_teardown=True),
    python("alone", "w", is_teardown=True),
]


def working() -> Driver:
    driver = Driver([*SET_UP_AND_WORKED])
    driver.begin()
    driver.comes_to("s", result(None))
    assert driver.attempts == ["w"]
    return driver


@pytest.mark.parametrize(
    ("how", "of_work", "end"),
    [
        ("success", "success", RunEnd(RunState.SUCCESS, "marked success")),
        ("failed", "failed", RunEnd(RunState.FAILED, "marked failed")),
        ("timeout", "skipped", RunEnd(RunState.FAILED, "dagrun_timeout of None was exceeded")),
        ("cancelled", "skipped", RunEnd(RunState.FAILED, "the run was cancelled")),
    ],
)
@pytest.mark.parametrize("paused", [False, True])
def test_a_run_that_ends_early_tears_down_first(how: str, of_work: str, end: RunEnd, paused: bool) -> None:
    driver = working()
    driver.engine.plan.paused = paused
    if how in ("success", "failed"):
        driver.engine.mark_run(RunMark.model_validate({"state": how}))
    elif how == "timeout":
        driver.engine.time_out()
    else:
        driver.engine.end_with(end)
    driver.comes_to("w", Failure(error_type="Cancelled", message="", retryable=False))
    assert driver.engine.end is None
    assert (driver.states["w"], driver.states["after"]) == (of_work, "skipped")
    assert driver.attempts == ["t", "alone"]
    driver.engine.time_out()
    driver.comes_to("t", result(None))
    assert driver.engine.end is None
    driver.comes_to("alone", FAILED)
    assert driver.engine.end == end, "a teardown that fails does not change how the run ends"


def test_a_teardown_that_runs_goes_on_where_its_run_is_marked() -> None:
    driver = working()
    driver.comes_to("w", result(None))
    assert driver.attempts == ["after", "t", "alone"]
    driver.engine.mark_run(RunMark(state="success"))
    assert ("stop", "t") not in driver.told
    assert ("stop", "after") in driver.told


def test_a_teardown_that_is_to_fail_its_run_fails_one_that_was_marked_success() -> None:
    driver = Driver([python("w"), python("t", "w", is_teardown=True, on_failure_fail_dagrun=True)])
    driver.begin()
    driver.engine.mark_run(RunMark(state="success"))
    driver.comes_to("w", Failure(error_type="Cancelled", message="", retryable=False))
    driver.comes_to("t", FAILED)
    assert driver.engine.end == RunEnd(RunState.FAILED, "t failed")


@pytest.mark.parametrize("how", ["mark", "timeout", "cancel"])
def test_a_teardown_that_its_past_holds_runs_when_its_run_is_ended(how: str) -> None:
    """Also one that was found to be held before: a mark, said again and again, had not ended the run."""
    driver = Driver([python("w"), python("t", "w", is_teardown=True, depends_on_past=True)])
    driver.begin()
    driver.engine.plan.look_back(Past(run_id="before", states={"t": TaskState.FAILED}))
    driver.comes_to("w", result(None))
    assert (driver.states["t"], driver.attempts) == ("none", [])
    match how:
        case "mark":
            driver.engine.mark_run(RunMark(state="success"))
        case "timeout":
            driver.engine.time_out()
        case "cancel":
            driver.engine.end_with(RunEnd(RunState.FAILED, "the run was cancelled"))
    driver.engine.go_on()
    assert driver.attempts == ["t"]
    driver.comes_to("t", result(None))
    assert driver.engine.end is not None
    assert driver.engine.end.state is (RunState.SUCCESS if how == "mark" else RunState.FAILED)


def test_a_run_in_which_nothing_can_move_tears_down() -> None:
    tasks = [python("a"), python("b", "a", trigger_rule="all_skipped"), python("t", "b", is_teardown=True)]
    driver = Driver(tasks)
    driver.state.instances["a"].state = TaskState.REMOVED
    driver.engine = RunEngine(driver.state, driver)
    driver.begin()
    assert driver.states == {"a": "removed", "b": "skipped", "t": "queued"}
    driver.comes_to("t", result(None))
    assert driver.engine.end == RunEnd(RunState.FAILED, "deadlock: nothing can start b, t")


@pytest.mark.parametrize(
    "state", [TaskState.UP_FOR_RESCHEDULE, TaskState.DEFERRED, TaskState.AWAITING_INPUT, TaskState.SCHEDULED]
)
def test_a_try_that_waited_when_its_run_was_ended_costs_no_retry(state: TaskState) -> None:
    driver = Driver([python("w", retries=1)])
    driver.begin()
    waiting = driver.state.instances["w"]
    waiting.state, waiting.pokes, waiting.wake_at = state, 3, NOW
    driver.state.settle_ended()
    assert (waiting.state, waiting.try_number, waiting.tries_spent) == (TaskState.NONE, 1, 0)
    assert (waiting.pokes, waiting.wake_at, waiting.retry_at) == (0, None, None)


def test_a_try_that_has_failed_when_its_run_was_ended_is_counted() -> None:
    driver = Driver([python("w", retries=1)])
    driver.begin()
    driver.comes_to("w", FAILED)
    failed = driver.state.instances["w"]
    assert failed.state is TaskState.UP_FOR_RETRY
    driver.state.settle_ended()
    assert (failed.state, failed.tries_spent, failed.retry_at) == (TaskState.NONE, 1, None)
