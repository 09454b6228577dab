"""What simulation has found, each in the smallest form that shows it."""

from __future__ import annotations

from typing import Any

import pytest
from support import at, bash, dag, empty
from temporalio.api.failure.v1 import Failure
from tidemill.activities.holders import Holders
from tidemill.activities.names import JUST_ENDED
from tidemill.model.dag.backfill_request import BackfillRequest, ReprocessBehavior
from tidemill.model.dag.backfill_walk import BackfillBatch
from tidemill.model.dag.state import DagState
from tidemill.model.dag.ticks import Ticks, TimetableQuery, coming_runs
from tidemill.model.pool.state import LeaseRequest, PoolSettings, PoolState
from tidemill.model.run.identity import TriggerRequest, manual_run, scheduled_run
from tidemill.model.run.messages import DagUpdate, RunReport
from tidemill.model.run.planner import RunPlan
from tidemill.model.run.revisions import ClearRequest, Revision, RunMark
from tidemill.model.run.state import DagRunState
from tidemill.model.run.task_instances import TaskInstance
from tidemill.model.run.views import why
from tidemill.model.spec.timetables import DagRunInfo, DataInterval
from tidemill.model.states import RunState, TaskState

from dst.clock import SECOND, microseconds
from dst.history import Activity, Execution
from dst.releases import this_release
from dst.world import SimulatedWorker, World

START = at("2026-01-01")


@pytest.fixture
def world() -> World:
    return World(1, microseconds(START), releases=[this_release(None)], perform=_nobody_holds, workers=1)


def _nobody_holds(world: World, worker: SimulatedWorker, execution: Execution, activity: Activity) -> None:
    """Answers pools that nobody holds anything; tasks never end by themselves."""
    key = (execution.run_id, activity.scheduled_id, activity.attempt)
    if activity.kind == "tidemill.holders":
        [payload] = world.to_payloads(Holders())
        world.later(1_000, lambda: world.service.complete_activity(*key, payload) and None)
    worker.cancels[key] = lambda: world.service.acknowledge_cancel(*key) and None


def _signals(execution: Execution) -> list[Any]:
    return [e.data["name"] for e in execution.events if e.kind == "SignalExternalWorkflowExecutionInitiated"]


def test_a_task_that_is_stopped_in_the_step_that_begins_it_ends(world: World) -> None:
    """It was cancelled before its first line, so that nothing told of its end: shutdown, for ever."""
    spec = dag("d", [bash("a", "x")])
    run = manual_run("d", spec.schedule, TriggerRequest(), START)
    state = DagRunState(run=run, spec=spec, is_paused=True)
    execution = world.service.start("DagRun", run.workflow_id, world.to_payloads(state))
    assert execution is not None
    world.run_until(world.now + SECOND)
    world.service.signal(run.workflow_id, "news", world.to_payloads(DagUpdate(number=1, is_paused=False)))
    world.update(run.workflow_id, "set_state", RunMark(state=TaskState.SUCCESS), answered=lambda *_: None)
    world.run_until(world.now + 60 * SECOND)
    assert not world.violations
    assert str(execution.status) == "Completed"


def test_a_slot_that_is_given_back_before_it_is_asked_for_is_not_given(world: World) -> None:
    """Two messages of one step may arrive in either order: the slot was held by nobody, until somebody waited."""
    state = PoolState(name="p", settings=PoolSettings(slots=1))
    execution = world.service.start("Pool", "pool:p", world.to_payloads(state))
    assert execution is not None
    world.run_until(world.now + SECOND)
    request = LeaseRequest(lease_id="run:d:1#1", holder="run:d:1", key="a", date=START)
    world.service.signal("pool:p", "give_back", world.to_payloads([request.lease_id]))
    world.run_until(world.now + SECOND)
    world.service.signal("pool:p", "ask", world.to_payloads([request]))
    world.run_until(world.now + SECOND)
    assert "granted" not in _signals(execution)
    assert world.query(execution, "describe")["occupied_slots"] == 0


def test_a_task_that_returns_its_slot_and_asks_again_in_one_step_is_let_in(world: World) -> None:
    """It returned the slot that it had just asked for, and waited for ever, where a task without work ran before it."""
    pool = PoolState(name="p", settings=PoolSettings(slots=3))
    assert world.service.start("Pool", "pool:p", world.to_payloads(pool)) is not None
    world.run_until(world.now + SECOND)
    spec = dag("d", [empty("first", pool="p"), bash("second", "x", pool="p")], max_active_tasks=1)
    run = manual_run("d", spec.schedule, TriggerRequest(), START)
    state = DagRunState(run=run, spec=spec)
    execution = world.service.start("DagRun", run.workflow_id, world.to_payloads(state))
    assert execution is not None
    world.run_until(world.now + 60 * SECOND)
    assert not world.violations
    assert [e.kind for e in execution.events].count("ActivityTaskScheduled") == 1


def test_a_run_that_a_backfill_runs_again_is_listed_once() -> None:
    """It was both under way and among those that had ended, so that every list showed it twice."""
    spec = dag("d", [], schedule="@daily", start_date="2026-01-01T00:00:00Z", catchup=False)
    state, now = DagState(spec=spec, registered_at=START), at("2026-01-02")
    interval = DataInterval(start=START, end=at("2026-01-02"))
    info = DagRunInfo(run_after=at("2026-01-02"), data_interval=interval)
    request = BackfillRequest(from_date=START, to_date=START, reprocess_behavior=ReprocessBehavior.COMPLETED)
    state.add_backfill(spec, request, BackfillBatch(total=1, infos=(info,)), now)
    state.create_backfill_runs(now)
    [key] = state.runs
    state.start(state.runs[key], now)
    state.finish(RunReport(key=key, state=RunState.FAILED, ended_at=now, reason="a failed", past={}))
    state.add_backfill(spec, request, BackfillBatch(total=1, infos=(info,)), now)
    state.create_backfill_runs(now)
    assert [*state.runs] == [key]
    assert state.ledger == []
    assert state.runs[key].again


def test_a_task_that_is_ended_while_it_waits_for_its_next_try_forgets_the_time() -> None:
    instance = TaskInstance(task_id="a", state=TaskState.UP_FOR_RETRY, retry_at=START, wake_at=START)
    instance.move(TaskState.SKIPPED, "the run was marked failed")
    assert (instance.retry_at, instance.wake_at) == (None, None)


def test_an_approval_without_a_subject_has_a_reason() -> None:
    spec = dag("d", [{"kind": "approval", "task_id": "a"}])
    instance = TaskInstance(task_id="a", state=TaskState.AWAITING_INPUT, reason="")
    assert why(RunPlan(spec, {"a": TaskState.AWAITING_INPUT}), instance) == "is awaiting_input"


def test_a_change_that_comes_while_the_end_of_a_run_is_told_is_refused(world: World) -> None:
    """It was answered, and lost with the run: now whoever asked finds the run ended, and has it run again."""
    spec = dag("d", [empty("a")])
    run = manual_run("d", spec.schedule, TriggerRequest(), START)
    execution = world.service.start("DagRun", run.workflow_id, world.to_payloads(DagRunState(run=run, spec=spec)))
    assert execution is not None
    while "run_finished" not in _signals(execution):
        world.run_until(world.now + SECOND // 1_000)
    refused: list[str] = []
    clear = ClearRequest(tasks=("a",))
    world.update(run.workflow_id, "clear_tasks", clear, answered=lambda _, failure: refused.append(_kind(failure)))
    world.run_until(world.now + 60 * SECOND)
    assert not world.violations
    assert refused in ([JUST_ENDED], ["Closed"])
    assert str(execution.status) == "Completed"


def test_a_run_that_waits_for_a_pool_that_is_missing_goes_on_as_new() -> None:
    """It asked every fifteen seconds in one history, which a service ends after a day and a half."""
    world = World(1, microseconds(START), releases=[this_release(None)], perform=_nobody_holds, suggests_from=40)
    spec = dag("d", [bash("a", "x", pool="missing")])
    run = manual_run("d", spec.schedule, TriggerRequest(), START)
    assert world.service.start("DagRun", run.workflow_id, world.to_payloads(DagRunState(run=run, spec=spec)))
    world.run_until(world.now + 3_600 * SECOND)
    assert not world.violations
    lengths = [len(each.events) for each in world.service.executions.values()]
    assert len(lengths) > 5
    assert max(lengths) < 120


def test_a_slot_that_was_given_back_once_can_be_asked_for_again(world: World) -> None:
    """A run that was reset uses its numbers again: it waited for ever, taken for one that wants nothing any more."""
    state = PoolState(name="p", settings=PoolSettings(slots=1))
    execution = world.service.start("Pool", "pool:p", world.to_payloads(state))
    assert execution is not None
    request = LeaseRequest(lease_id="run:d:1#1", holder="run:d:1", key="a", date=START)
    for name, argument in (("give_back", request.lease_id), ("ask", request), ("ask", request)):
        world.run_until(world.now + SECOND)
        world.service.signal("pool:p", name, world.to_payloads([argument]))
    world.run_until(world.now + SECOND)
    assert _signals(execution) == ["granted"]


def _broken_calendar(world: World, worker: SimulatedWorker, execution: Execution, activity: Activity) -> None:
    key = (execution.run_id, activity.scheduled_id, activity.attempt)
    [payload] = world.to_payloads(Ticks(error="OSError: the calendar is away"))
    world.counts[activity.kind] += 1
    world.later(1_000, lambda: world.service.complete_activity(*key, payload) and None)


def test_a_timetable_that_raises_again_is_asked_again() -> None:
    """It was asked once more, and then never: nothing woke the DAG."""
    world = World(1, microseconds(START), releases=[this_release(None)], perform=_broken_calendar)
    spec = dag("d", [], schedule="@daily", start_date="2026-01-01T00:00:00Z")
    assert world.service.start("Dag", "dag:d", world.to_payloads(spec)) is not None
    world.run_until(world.now + 3 * 3_600 * SECOND)
    assert not world.violations
    assert world.counts["tidemill.coming_runs"] >= 6


def test_a_dag_that_is_canceled_while_it_asks_ends() -> None:
    """The question was cancelled with it, which it took for a defect: it was broken, and went on."""
    world = World(1, microseconds(START), releases=[this_release(None)], perform=lambda *_: None)
    spec = dag("d", [], schedule="@daily", start_date="2026-01-01T00:00:00Z")
    execution = world.service.start("Dag", "dag:d", world.to_payloads(spec))
    assert execution is not None
    world.run_until(world.now + SECOND)
    world.service.cancel("dag:d")
    world.run_until(world.now + SECOND)
    [activity] = execution.activities.values()
    world.service.acknowledge_cancel(execution.run_id, activity.scheduled_id, 1)
    world.run_until(world.now + SECOND)
    assert str(execution.status) == "Canceled"


def test_a_run_that_is_taken_over_hears_whether_its_dag_is_paused() -> None:
    """Its DAG was ended while it was paused, and began anew: nobody told the run, which waited for ever."""
    world = World(1, microseconds(START), releases=[this_release(None)], perform=_answers_dags)
    spec = dag("d", [bash("a", "x")], schedule="@daily", start_date="2025-12-31T00:00:00Z", catchup=True)
    interval = DataInterval(start=at("2025-12-31"), end=START)
    run = scheduled_run("d", spec.schedule, DagRunInfo(run_after=START, data_interval=interval))
    paused = DagRunState(run=run, spec=spec, is_paused=True, last_update=7)
    execution = world.service.start("DagRun", run.workflow_id, world.to_payloads(paused))
    assert execution is not None
    assert world.service.start("Dag", "dag:d", world.to_payloads(spec)) is not None
    world.run_until(world.now + 60 * SECOND)
    assert not world.violations
    assert [e.kind for e in execution.events].count("ActivityTaskScheduled") == 1


def _answers_dags(world: World, worker: SimulatedWorker, execution: Execution, activity: Activity) -> None:
    """Answers timetables, and that every run goes on; tasks never end by themselves."""
    key = (execution.run_id, activity.scheduled_id, activity.attempt)
    answer: Any = None
    if activity.kind == "tidemill.coming_runs":
        answer = coming_runs(world.value(activity.input[0], TimetableQuery))
    elif activity.kind == "tidemill.ended_runs":
        answer = []
    if answer is not None:
        [payload] = world.to_payloads(answer)
        world.later(1_000, lambda: world.service.complete_activity(*key, payload) and None)


def test_a_task_that_is_cleared_after_its_run_is_not_done_for_the_next_run() -> None:
    """The run before had ended well; its task runs again, and a task that depends on it started beside it."""
    spec = dag("d", [bash("a", "x", depends_on_past=True)], schedule="@daily", start_date="2026-01-01T00:00:00Z")
    state = DagState(spec=spec, registered_at=START)
    first, second = (
        scheduled_run("d", spec.schedule, DagRunInfo(run_after=end, data_interval=DataInterval(start=start, end=end)))
        for start, end in ((START, at("2026-01-02")), (at("2026-01-02"), at("2026-01-03")))
    )
    now = at("2026-01-03")
    state.start(state.create(first, now, ""), now)
    past = {"a": TaskState.SUCCESS}
    state.finish(RunReport(key=first.key, state=RunState.SUCCESS, ended_at=now, reason="", past=past))
    clear = ClearRequest(tasks=("a",))
    state.revise(first, Revision(execution="1", clear=clear), now)
    anew = state.begin_again(state.runs[first.key], ["a"])
    later = state.create(second, now, "")
    known = state.past_of(later)
    assert anew == {"a": TaskState.NONE}
    assert known is not None
    assert known.states == {"a": TaskState.NONE}


def _kind(failure: Failure | None) -> str:
    return "" if failure is None else str(failure.application_failure_info.type)
