"""Small things that users of Airflow look for, each by itself."""

from __future__ import annotations

import cProfile
import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from pydantic import ValidationError
from support import at, bash, dag, empty
from tidemill.activities.dates import days_ago
from tidemill.model.bundle.data import BundleSettings
from tidemill.model.dag.state import DagState
from tidemill.model.dag.ticks import coming_runs
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.identity import RunIdentity, RunType, TriggeredBy, TriggerRequest, scheduled_run
from tidemill.model.run.messages import RunReport
from tidemill.model.run.planner import RunPlan
from tidemill.model.run.state import DagRunState
from tidemill.model.run.task_instances import TaskInstance, retry_delay
from tidemill.model.spec.dag import read_dag
from tidemill.model.spec.timetables import DataInterval
from tidemill.model.states import TRANSITIONS, IllegalTransitionError, RunState, TaskState

from tidemill import DAG, EmptyOperator


def daily(**more: object) -> DAG:
    with DAG("daily", schedule="@daily", start_date=at("2026-01-01"), **more) as made:  # type: ignore[arg-type]
        EmptyOperator("a")
    return made


def test_a_dag_says_which_run_comes_next_and_which_are_between() -> None:
    first = daily(catchup=True).next_dagrun_info(None)
    assert first is not None
    assert first.data_interval == DataInterval(start=at("2026-01-01"), end=at("2026-01-02"))
    second = daily(catchup=True).next_dagrun_info(first.data_interval)
    assert second is not None
    assert second.logical_date == at("2026-01-02")
    ended = daily(catchup=True, end_date=at("2026-01-01"))
    assert ended.next_dagrun_info(first.data_interval) is None
    assert ended.next_dagrun_info(first.data_interval, restricted=False) is not None
    latest = daily(catchup=False).next_dagrun_info(None, now=at("2026-03-01T12:00"))
    assert latest is not None
    assert latest.logical_date == at("2026-02-28")
    between = daily().iter_dagrun_infos_between(at("2026-01-30"), at("2026-02-02"))
    assert [info.logical_date.day for info in between] == [30, 31, 1, 2]


def test_a_timetable_of_ones_own_is_not_asked_here() -> None:
    with DAG("own", schedule={"kind": "custom", "name": "mine:Mine"}) as made:
        EmptyOperator("a")
    with pytest.raises(InvalidInputError, match="Use `tidemill dags preview`"):
        made.next_dagrun_info(None)


def test_runs_have_an_order_and_a_hash() -> None:
    spec = dag("d", [bash("a", "x")], schedule="@daily", start_date="2026-01-01T00:00:00Z", catchup=True)
    info = spec.schedule.next_dagrun_info(None, spec.restriction, at("2026-01-05"))
    assert info is not None
    first = scheduled_run("d", spec.schedule, info)
    manual = RunIdentity(
        dag_id="d", run_id="m", run_type=RunType.MANUAL, triggered_by=TriggeredBy.CLI, run_after=at("2026-02-01")
    )
    other = first.model_copy(update={"dag_id": "e"})
    runs = [first, manual, other]
    random.Random(1).shuffle(runs)
    assert sorted(runs) == [first, manual, other]
    assert len({first, first.model_copy(update={"conf": {"x": 1}}), manual}) == 3  # equal is who is equal in all
    assert hash(first) == hash(first.model_copy(update={"conf": {"x": 1}}))


def test_days_ago_is_midnight_or_the_time_that_is_given() -> None:
    today = datetime.now(UTC).date()
    found = days_ago(2, hour=3, minute=30)
    assert found in (datetime(*(today - timedelta(days=n)).timetuple()[:3], 3, 30, tzinfo=UTC) for n in (1, 2))
    assert days_ago(0) - days_ago(30) == timedelta(days=30)
    berlin = days_ago(1, timezone="Europe/Berlin")
    yesterdays = (datetime.now(ZoneInfo("Europe/Berlin")).date() - timedelta(days=n) for n in (1, 2))
    assert (berlin.hour, berlin.date()) in [(0, date) for date in yesterdays]
    assert berlin.utcoffset() in (timedelta(hours=1), timedelta(hours=2))


@pytest.mark.parametrize("old", [*TaskState])
def test_a_state_that_cannot_follow_is_refused(old: TaskState) -> None:
    for new in TaskState:
        instance = TaskInstance(task_id="a", state=old)
        if new in TRANSITIONS[old]:
            instance.move(new)
            assert instance.state is new
        else:
            with pytest.raises(IllegalTransitionError, match=f"cannot go from {old} to {new}"):
                instance.move(new)
    assert any(new not in TRANSITIONS[old] for new in TaskState)


def test_a_step_costs_as_much_in_a_run_of_thousands_as_in_one_of_tens() -> None:
    """Counted, not timed: the calls that a run of waves makes for each of its tasks."""

    def calls_per_task(waves: int, width: int) -> float:
        tasks = [empty("w0")]
        for wave in range(waves):
            tasks += [empty(f"t{wave}_{i}", f"w{wave}") for i in range(width)]
            tasks.append(empty(f"w{wave + 1}", *(f"t{wave}_{i}" for i in range(width))))
        spec = dag("d", tasks, max_active_tasks=500)
        plan = RunPlan(spec, dict.fromkeys(spec.by_id, TaskState.NONE))
        counted = cProfile.Profile()
        counted.enable()
        while plan.end() is None:
            for decision in plan.decide():
                if not decision.state.finished:
                    plan.record(decision.key, TaskState.SUCCESS)
        counted.disable()
        return sum(entry.callcount for entry in counted.getstats()) / len(tasks)

    assert calls_per_task(50, 99) < 2 * calls_per_task(5, 9)


def test_retries_wait_longer_each_time_and_no_longer_than_the_most() -> None:
    backing_off = {"retries": 9, "retry_delay": 60, "retry_exponential_backoff": True}
    [task] = dag("d", [bash("a", "x", **backing_off)]).tasks
    delays = [retry_delay(task, n, "d#a").total_seconds() for n in range(1, 6)]
    for n, delay in enumerate(delays):
        assert 60 * 2**n <= delay <= 2 * 60 * 2**n
    [bounded] = dag("d", [bash("a", "x", **backing_off, max_retry_delay=100)]).tasks
    assert [retry_delay(bounded, n, "d#a").total_seconds() for n in (2, 5)] == [100, 100]
    [plain] = dag("d", [bash("a", "x", retries=9, retry_delay=60)]).tasks
    assert {retry_delay(plain, n, "d#a").total_seconds() for n in range(1, 6)} == {60}


def test_a_start_date_in_default_args_alone_is_the_dags() -> None:
    with DAG("d", schedule="@daily", default_args={"start_date": at("2026-01-05")}, catchup=True) as made:
        EmptyOperator("a")
    info = made.next_dagrun_info(None)
    assert info is not None
    assert info.logical_date == at("2026-01-05")


def of_hours(**more: object) -> DagState:
    fields = {"schedule": "@hourly", "start_date": "2026-01-01T00:00:00Z", "catchup": True, **more}
    spec = dag("d", [bash("a", "x")], **fields)
    return DagState(spec=spec, registered_at=at("2026-01-01"))


def step(state: DagState, now: datetime) -> list[str]:
    """What the DAG's workflow does at *now*: the logical dates of the runs that start."""
    if (question := state.question(now)) is not None:
        state.take(coming_runs(question), now)
    state.create_due(now)
    started = state.startable(now)
    for tracked in started:
        state.start(tracked, now)
    return [f"{tracked.run.logical_date:%H}" for tracked in started]


def test_a_limit_that_is_raised_or_lowered_counts_at_once() -> None:
    state, now = of_hours(max_active_runs=1), at("2026-01-01T08:00")
    assert step(state, now) == ["00"]
    assert state.register(of_hours(max_active_runs=3).spec, now)
    assert step(state, now) == ["01", "02"]
    assert state.register(of_hours(max_active_runs=2).spec, now)
    assert step(state, now) == []
    for tracked in [*state.runs.values()][:2]:
        report = RunReport(key=tracked.run.key, state=RunState.SUCCESS, ended_at=now, reason="done")
        state.finish(report)
    assert step(state, now) == ["03"]


def test_queued_runs_start_with_the_oldest_date() -> None:
    state, now = of_hours(max_active_runs=1, schedule=None), at("2026-01-01T08:00")
    state.pause(True, now)
    for hour in (5, 2, 7):
        run = RunIdentity(
            dag_id="d",
            run_id=f"m{hour}",
            run_type=RunType.MANUAL,
            triggered_by=TriggeredBy.CLI,
            run_after=now,
            logical_date=at(f"2026-01-01T0{hour}:00"),
        )
        state.create(run, now, "triggered")
    assert step(state, now) == []
    state.pause(False, now)
    assert step(state, now) == ["02"]


def test_a_pause_outlasts_a_new_version_and_another_execution() -> None:
    state, now = of_hours(), at("2026-01-01T08:00")
    state.pause(True, now)
    assert state.register(of_hours(description="another").spec, now)
    assert state.is_paused
    carried_over = DagState.model_validate(state.model_dump(mode="json"))
    assert carried_over.is_paused
    assert step(carried_over, now) == []


@pytest.mark.parametrize(
    ("catchup", "kind", "state"),
    [
        (True, RunType.SCHEDULED, TaskState.REMOVED),
        (True, RunType.BACKFILL, TaskState.NONE),
        (False, RunType.SCHEDULED, TaskState.NONE),
    ],
)
def test_a_tasks_own_dates_leave_it_out_of_a_catch_up(catchup: bool, kind: RunType, state: TaskState) -> None:
    tasks = [
        bash("late", "x", start_date="2026-02-01T00:00:00Z"),
        bash("over", "x", end_date="2025-12-01T00:00:00Z"),
        bash("a", "x"),
    ]
    spec = dag("d", tasks, schedule="@daily", start_date="2026-01-01T00:00:00Z", catchup=catchup)
    run = RunIdentity(
        dag_id="d",
        run_id="r",
        run_type=kind,
        triggered_by=TriggeredBy.TIMETABLE,
        run_after=at("2026-01-03"),
        logical_date=at("2026-01-02"),
    )
    made = DagRunState(run=run, spec=spec)
    made.fill()
    assert made.states == {"late": state, "over": state, "a": TaskState.NONE}


@pytest.mark.parametrize("name", [".", ".."])
def test_no_name_is_a_step_in_a_path(name: str) -> None:
    for fields in ({"dag_id": name, "tasks": []}, {"dag_id": "d", "tasks": [{"kind": "empty", "task_id": name}]}):
        with pytest.raises(InvalidInputError, match=r"(dag_id|task_id) = '\.+'"):
            read_dag(fields)
    with pytest.raises(ValidationError, match="cannot be a part of an address"):
        TriggerRequest(run_id=name)
    with pytest.raises(ValidationError):
        BundleSettings(name=name, path="/dags")
    assert read_dag({"dag_id": f"{name}x", "tasks": []}).dag_id == f"{name}x"


@pytest.mark.parametrize("name", ["/etc/passwd", "../x.py", "a/../../x.py", "a\0b"])
def test_the_source_of_a_dag_is_inside_of_its_bundle(name: str) -> None:
    with pytest.raises(InvalidInputError, match="is not inside its bundle"):
        read_dag({"dag_id": "d", "tasks": [], "source": {"path": "/b/x.py", "sha256": "0", "name": name}})
    read_dag({"dag_id": "d", "tasks": [], "source": {"path": "/b/x.py", "sha256": "0", "name": "a..b/x.py"}})
