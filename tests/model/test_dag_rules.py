"""Rules of a DAG's runs: pauses after failures, late reports, timetables that stand still, counters of backfills."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
from support import at, bash, dag
from tidemill.model.bundle.data import DagFileState
from tidemill.model.dag.assignment import Assignment
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.dag.backfill_walk import BackfillBatch
from tidemill.model.dag.data import VERSIONS_KEPT
from tidemill.model.dag.previews import preview
from tidemill.model.dag.records import RunRecord, TrackedRun
from tidemill.model.dag.state import DagState
from tidemill.model.dag.ticks import Ticks
from tidemill.model.dag.views import dag_row, dag_view, run_views
from tidemill.model.errors import InvalidInputError, OtherBundleError
from tidemill.model.run.identity import RunIdentity, TriggerRequest, backfill_run, manual_run
from tidemill.model.run.messages import RunReport
from tidemill.model.run.past import Past
from tidemill.model.run.planner import RunPlan
from tidemill.model.run.revisions import ClearRequest, Revision, RunMark
from tidemill.model.spec.dag import DagSpec
from tidemill.model.spec.timetables import DagRunInfo, DataInterval
from tidemill.model.states import RunState, TaskState

START = at("2026-01-01")
HOUR = timedelta(hours=1)


def state_of(**fields: object) -> DagState:
    spec = dag("d", [], **{"schedule": "@daily", "start_date": START.isoformat(), **fields})
    return DagState(spec=spec, registered_at=START)


def run_ended(state: DagState, n: int, end: RunState) -> str:
    """Has the manual run of hour *n* run and end; its key."""
    now = START + n * HOUR
    run = manual_run("d", state.spec.schedule, TriggerRequest(logical_date=now), now)
    state.start(state.create(run, now, "a test"), now)
    state.finish(RunReport(key=run.key, state=end, ended_at=now, reason="a test"))
    return run.key


def test_a_dag_is_paused_after_as_many_failures_in_a_row_as_it_says() -> None:
    state = state_of(max_consecutive_failed_dag_runs=3)
    for n, end in enumerate("ffsff"):
        run_ended(state, n, RunState.FAILED if end == "f" else RunState.SUCCESS)
        assert not state.is_paused, n
    run_ended(state, 5, RunState.FAILED)
    assert state.is_paused


def test_a_dag_with_too_few_runs_is_not_paused() -> None:
    state = state_of(max_consecutive_failed_dag_runs=3)
    for n in range(2):
        run_ended(state, n, RunState.FAILED)
    assert not state.is_paused


def test_a_report_from_before_a_clear_does_not_end_the_run_that_was_cleared() -> None:
    state = state_of()
    key = run_ended(state, 0, RunState.FAILED)
    cleared_at = START + 2 * HOUR
    run = manual_run("d", state.spec.schedule, TriggerRequest(logical_date=START), START)
    state.revise(run, Revision(execution="1", clear=ClearRequest()), cleared_at)
    late = RunReport(key=key, state=RunState.FAILED, ended_at=START + HOUR, reason="told late")
    assert not state.finish(late)
    assert key in state.runs
    assert state.finish(late.model_copy(update={"ended_at": cleared_at + HOUR}))
    assert key not in state.runs


def test_a_report_from_before_a_mark_does_not_end_the_run_that_keeps_its_times() -> None:
    state = state_of()
    key = run_ended(state, 0, RunState.FAILED)
    before = state.ledger[-1]
    run = manual_run("d", state.spec.schedule, TriggerRequest(logical_date=START), START)
    marked = Revision(execution="1", mark_run=RunMark(state="success"))
    state.revise(run, marked, START + HOUR, keeps_times=True)
    told = RunReport(key=key, state=RunState.FAILED, ended_at=before.ended_at, reported_at=START, reason="told late")
    assert not state.finish(told)
    assert state.finish(told.model_copy(update={"state": RunState.SUCCESS, "reported_at": START + HOUR}))
    [after] = state.ledger
    assert after.state is RunState.SUCCESS
    assert (after.queued_at, after.started_at, after.ended_at) == (before.queued_at, before.started_at, before.ended_at)


def test_the_last_run_is_the_newest_by_run_after_whenever_it_ended() -> None:
    state = state_of()
    run_ended(state, 5, RunState.FAILED)
    run_ended(state, 3, RunState.SUCCESS)  # an older date, run later
    assert dag_row(state).last_state is RunState.FAILED
    newest = dag_view(state, START).newest_run
    assert newest is not None
    assert (newest.state, newest.run_after) == (RunState.FAILED, START + 5 * HOUR)
    now = START + 4 * HOUR
    run = manual_run("d", state.spec.schedule, TriggerRequest(logical_date=now), now)
    state.start(state.create(run, now, "a test"), now)
    assert dag_row(state).last_state is RunState.FAILED
    later = manual_run("d", state.spec.schedule, TriggerRequest(logical_date=START + 6 * HOUR), START + 6 * HOUR)
    state.create(later, START + 6 * HOUR, "a test")
    assert dag_row(state).last_state is RunState.QUEUED
    assert [view.run_after.hour for view in run_views(state, lambda *_: "")] == [6, 5, 4, 3]


def test_what_a_later_release_keeps_of_a_run_hides_no_run() -> None:
    """After a rollback, the runs of a DAG could not be listed any more."""
    state = state_of()
    run_ended(state, 5, RunState.FAILED)
    [kept] = state.ledger
    state.ledger = [RunRecord.model_validate_json(json.dumps({**kept.model_dump(mode="json"), "of_later": 1}))]
    assert [view.state for view in run_views(state, lambda *_: "")] == [RunState.FAILED]


def test_a_timetable_that_stands_still_is_noticed() -> None:
    """Its next run would be the last one once more, for ever."""
    state = state_of(catchup=True)
    interval = DataInterval(start=START, end=START + 24 * HOUR)
    info = DagRunInfo(run_after=START + 24 * HOUR, data_interval=interval)
    state.take(Ticks(infos=(info,)), START)
    state.create_due(START + 25 * HOUR)
    state.take(Ticks(infos=(info,)), START + 25 * HOUR)
    assert state.ticks == ()
    assert state.broken is not None
    assert "does not move on" in state.broken


def backfill_of(state: DagState, days: int, now: datetime) -> None:
    infos = tuple(
        DagRunInfo(
            run_after=START + (n + 1) * 24 * HOUR,
            data_interval=DataInterval(start=START + n * 24 * HOUR, end=START + (n + 1) * 24 * HOUR),
        )
        for n in range(days)
    )
    request = BackfillRequest(from_date=START, to_date=START + days * 24 * HOUR)
    state.add_backfill(state.spec, request, BackfillBatch(total=days, infos=infos), now)
    state.create_backfill_runs(now)


def test_a_queued_run_of_a_backfill_that_is_deleted_counts_as_skipped() -> None:
    state, now = state_of(), START + 100 * HOUR
    backfill_of(state, 2, now)
    [backfill] = state.backfills
    first, second = state.queued
    assert (backfill.created, backfill.skipped, backfill.running) == (2, 0, 2)
    assert state.delete_run(first.run.run_id)
    assert (backfill.created, backfill.skipped, backfill.running) == (1, 1, 1)
    state.start(second, now)
    state.finish(RunReport(key=second.run.key, state=RunState.SUCCESS, ended_at=now, reason="a test"))
    assert not backfill.open


def test_a_backfill_counts_a_run_that_is_revised_anew_and_waits_for_it() -> None:
    state = state_of(schedule="@daily")
    days = [DataInterval(start=START + n * 24 * HOUR, end=START + (n + 1) * 24 * HOUR) for n in range(2)]
    infos = tuple(DagRunInfo(run_after=day.end, data_interval=day) for day in days)
    request = BackfillRequest(from_date=START, to_date=START + 24 * HOUR, max_active_runs=1)
    backfill = state.add_backfill(state.spec, request, BackfillBatch(total=2, infos=infos), START)

    def ends(end: RunState) -> RunIdentity:
        [tracked] = state.runs.values()
        state.start(tracked, tracked.queued_at)
        ended_at = tracked.queued_at + timedelta(minutes=1)
        state.finish(RunReport(key=tracked.run.key, state=end, ended_at=ended_at, reason="a test"))
        return tracked.run

    def counts() -> tuple[int, int, int, bool]:
        return backfill.running, backfill.succeeded, backfill.failed, backfill.open

    clear = Revision(execution="e", clear=ClearRequest())
    state.create_backfill_runs(START)
    first = ends(RunState.FAILED)
    assert counts() == (0, 0, 1, True)
    state.revise(first, clear, START + 2 * HOUR)
    assert counts() == (1, 0, 0, True)
    state.create_backfill_runs(START + 2 * HOUR)
    assert len(state.runs) == 1, "it has the backfill's only place"
    ends(RunState.SUCCESS)
    state.create_backfill_runs(START + 2 * HOUR)
    second = ends(RunState.SUCCESS)
    assert counts() == (0, 2, 0, False)
    state.revise(second, clear, START + 3 * HOUR)
    assert counts() == (1, 1, 0, False), "what is complete stays so, as in Airflow"
    ends(RunState.FAILED)
    assert counts() == (0, 1, 1, False)


def test_wait_for_downstream_looks_again_when_only_what_is_downstream_has_changed() -> None:
    """The run before tells only of tasks that have changed: those above them may wait for just that."""
    tasks = [bash("a", "x", wait_for_downstream=True), bash("b", "x", "a")]
    spec = dag("d", tasks, schedule="@daily", start_date=START.isoformat())
    states = {"a": TaskState.NONE, "b": TaskState.NONE}
    plan = RunPlan(spec, states, Past(run_id="r", states={"a": TaskState.SUCCESS, "b": TaskState.RUNNING}))
    assert plan.decide() == []
    plan.look_back(Past(run_id="r", states={"a": TaskState.SUCCESS, "b": TaskState.SUCCESS}), {"b"})
    assert [decision.key for decision in plan.decide()] == ["a", "a"]


# Whose a DAG is


def of_bundle(bundle: str | None, **fields: object) -> DagSpec:
    """A version of DAG d from a file of *bundle*; None: from a file of none."""
    path = f"/{bundle}/d.py"
    return dag("d", [], source={"path": path, "sha256": "0", "bundle": bundle}, **fields)


def owned_by(bundle: str | None) -> DagState:
    return DagState(spec=of_bundle(bundle), registered_at=START)


def test_a_dag_of_a_bundle_is_replaced_by_that_bundle_alone() -> None:
    state = owned_by("b")
    for other in (of_bundle("a", tags=["x"]), of_bundle(None, tags=["x"]), dag("d", [], tags=["x"])):
        with pytest.raises(OtherBundleError, match=r"dag_id 'd' is defined by /b/d\.py of bundle 'b'"):
            state.register(other, START)
    by_hand = dag("d", [], tags=["x"], source={"path": "/b/d.py", "sha256": "0"})
    with pytest.raises(OtherBundleError, match="of bundle 'b', which keeps it registered: there is nothing to do"):
        state.register(by_hand, START)
    assert state.spec == of_bundle("b")
    assert state.register(of_bundle("b", tags=["x"]), START)


def test_a_dag_that_no_bundle_has_or_no_file_any_more_is_free() -> None:
    assert owned_by(None).register(of_bundle("a", tags=["x"]), START)
    state = owned_by("b")
    state.take_file(DagFileState(bundle="b", is_stale=True), START)
    assert state.register(of_bundle("a", tags=["x"]), START)


def test_a_dag_is_another_bundles_when_a_person_has_said_so() -> None:
    state = owned_by("b")
    assert state.assign(Assignment(bundle="a"), START)
    assert not state.assign(Assignment(bundle="a"), START)
    with pytest.raises(InvalidInputError, match=r"'d' is assigned to bundle 'a'. /b/d\.py cannot replace it"):
        state.register(of_bundle("b", tags=["x"]), START)
    assert state.register(of_bundle("a", tags=["x"]), START)
    with pytest.raises(OtherBundleError, match=r"of bundle 'a' and by /b/d\.py of bundle 'b'"):
        state.register(of_bundle("b"), START)


def test_a_dag_that_is_kept_by_hand_is_taken_by_no_bundle() -> None:
    state = owned_by("b")
    state.assign(Assignment(), START)
    assert state.register(of_bundle(None, tags=["x"]), START)
    with pytest.raises(InvalidInputError, match="assigned to no bundle"):
        state.register(of_bundle("b"), START)
    state.assign(Assignment(bundle="b"), START)
    assert state.register(of_bundle("b"), START)


def test_a_file_of_a_bundle_is_previewed_as_its_bundle_would_register_it() -> None:
    state = owned_by("b")
    assert preview(state, of_bundle(None), START).transition == "nothing changes: this version is in place"
    assert preview(state, of_bundle(None, tags=["x"]), START).changed


def test_runs_of_backfills_take_no_room() -> None:
    """A backfill has a limit of its own: the schedule goes on beside it."""
    spec = dag("d", [], schedule="@daily", start_date="2026-01-01T00:00:00Z", max_active_runs=1)
    now = at("2026-01-02")
    state = DagState(spec=spec, registered_at=now)
    info = DagRunInfo(run_after=now, data_interval=DataInterval(start=at("2026-01-01"), end=now))
    run = backfill_run("d", spec.schedule, info, {})
    state.runs[run.key] = TrackedRun(run=run, queued_at=now)
    state.start(state.runs[run.key], now)
    assert state.room(now) == 1


def test_versions_count_and_the_last_ones_are_remembered() -> None:
    state = owned_by("b")
    assert [one.version_number for one in state.versions] == [1]
    state.register(of_bundle("b"), START)
    assert [one.version_number for one in state.versions] == [1]
    for n in range(VERSIONS_KEPT + 1):
        state.register(of_bundle("b", tags=[str(n % 2)]), START + timedelta(hours=n))
    numbers = [one.version_number for one in state.versions]
    assert numbers == [*range(3, VERSIONS_KEPT + 3)]
    assert state.versions[-1].version == state.spec.version
    assert state.versions[-1].created_at == START + timedelta(hours=VERSIONS_KEPT)
    assert DagState.model_validate_json(state.model_dump_json()).versions == state.versions
    state.spec = of_bundle("b", tags=["of a worker of 0.3"])
    assert [one.version_number for one in state.versions] == [*numbers, VERSIONS_KEPT + 3]
    state.register(of_bundle("b", tags=["of ours"]), START + timedelta(days=9))
    assert [one.version_number for one in state.versions] == [*range(5, VERSIONS_KEPT + 5)]
