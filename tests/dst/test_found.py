"""What simulation has found, each in the smallest form that shows it."""

from __future__ import annotations

from typing import Any

import pytest
from support import at, bash, dag, empty
from tidemill.activities.holders import Holders
from tidemill.model.dag.backfill_request import BackfillRequest, ReprocessBehavior
from tidemill.model.dag.backfill_walk import BackfillBatch
from tidemill.model.dag.state import DagState
from tidemill.model.pool.state import LeaseRequest, PoolSettings, PoolState
from tidemill.model.run.identity import TriggerRequest, manual_run
from tidemill.model.run.messages import DagUpdate, RunReport
from tidemill.model.run.planner import RunPlan
from tidemill.model.run.revisions import RunMark
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
