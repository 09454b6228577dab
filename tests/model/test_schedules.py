"""Schedules as users meet them: the scenarios of Airflow's documentation and of those who were surprised by it."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import at, dag, empty
from tidemill.model.dag.explaining import explain_dag
from tidemill.model.dag.previews import preview
from tidemill.model.dag.state import DagState
from tidemill.model.dag.ticks import coming_runs
from tidemill.model.run.identity import RunIdentity, TriggerRequest, manual_run
from tidemill.model.run.messages import RunReport
from tidemill.model.run.revisions import ClearRequest, Revision
from tidemill.model.spec.dag import DagSpec
from tidemill.model.spec.timetables import CronInterval, DataInterval, TimeRestriction
from tidemill.model.spec.timetables.cron import CronError, cron
from tidemill.model.states import RunState


def scheduled(now: datetime, dag_id: str = "d", **fields: Any) -> DagState:
    return DagState(spec=dag(dag_id, [empty("a")], **fields), registered_at=now)


def wake(state: DagState, now: datetime, finish: bool = True) -> list[str]:
    """What the workflow does when it wakes at *now*, without the workflow: the logical dates of the runs it creates."""
    made = []
    for _ in range(10_000):
        question = state.question(now)
        if question is not None:
            state.take(coming_runs(question), now)
        ahead = state.ticks
        created = state.create_due(now)
        made += [f"{run.run.logical_date:%Y-%m-%d %H:%M}" for run in created]
        for tracked in state.startable(now):
            state.start(tracked, now)
        if finish:
            finish_all(state, now)
        info = state.next_info
        again = state.question(now) is not None and state.room(now) and (info is None or info.run_after <= now)
        if state.ticks == ahead and not again:
            return made
    raise AssertionError("it never comes to rest")


def finish_all(state: DagState, now: datetime, how: RunState = RunState.SUCCESS) -> None:
    for key in [*state.runs]:
        if state.runs[key].state is RunState.RUNNING:
            state.finish(RunReport(key=key, state=how, ended_at=now, reason="done"))


# The worked example: a daily DAG, first seen on 1 January at noon.


def test_a_daily_dag_day_by_day() -> None:
    state = scheduled(at("2024-01-01 12:00"), schedule="0 0 * * *", start_date="2024-01-01T00:00:00Z")
    assert wake(state, at("2024-01-01 12:00")) == []
    assert state.next_info is not None
    assert (state.next_info.logical_date, state.next_info.run_after) == (at("2024-01-01"), at("2024-01-02"))
    assert wake(state, at("2024-01-01 23:59")) == []
    assert wake(state, at("2024-01-02")) == ["2024-01-01 00:00"]
    assert state.ledger[-1].run_id == "scheduled__2024-01-01T00:00:00+00:00"
    assert wake(state, at("2024-01-03")) == ["2024-01-02 00:00"]
    assert state.next_wake(at("2024-01-03")) == at("2024-01-04")


@pytest.mark.parametrize(
    ("catchup", "made"),
    [
        (True, ["2024-01-01 00:00", "2024-01-02 00:00", "2024-01-03 00:00", "2024-01-04 00:00"]),
        (False, ["2024-01-04 00:00"]),
    ],
)
def test_downtime_and_pause_alike(catchup: bool, made: list[str]) -> None:
    """Asleep from 2 to 5 January: with catchup every missed interval, without it the latest complete one alone."""
    fields = {"schedule": "@daily", "start_date": "2024-01-01T00:00:00Z", "catchup": catchup}
    down = scheduled(at("2024-01-01 12:00"), **fields)
    assert wake(down, at("2024-01-01 12:00")) == []
    assert wake(down, at("2024-01-05 00:00:05")) == made
    paused = scheduled(at("2024-01-01 12:00"), **fields)
    assert wake(paused, at("2024-01-01 12:00")) == []
    paused.pause(True, at("2024-01-01 13:00"))
    assert wake(paused, at("2024-01-03 00:00:05")) == []
    paused.pause(False, at("2024-01-05 00:00:05"))
    assert wake(paused, at("2024-01-05 00:00:05")) == made


@pytest.mark.parametrize("catchup", [True, False])
def test_pausing_exactly_at_a_tick_holds_that_run_and_unpausing_makes_it(catchup: bool) -> None:
    state = scheduled(at("2024-01-01"), schedule="@daily", start_date="2024-01-01T00:00:00Z", catchup=catchup)
    wake(state, at("2024-01-01"))
    state.pause(True, at("2024-01-02"))
    assert wake(state, at("2024-01-02")) == []
    state.pause(False, at("2024-01-02"))
    state.pause(False, at("2024-01-02"))
    assert wake(state, at("2024-01-02")) == ["2024-01-01 00:00"]
    assert wake(state, at("2024-01-02")) == []


def test_a_manual_run_never_moves_the_schedule() -> None:
    state = scheduled(at("2024-01-02 12:00"), schedule="@daily", start_date="2024-01-01T00:00:00Z", catchup=True)
    wake(state, at("2024-01-02 12:00"))
    for date in ("2023-12-01", "2024-01-09 06:00"):
        request = TriggerRequest(logical_date=at(date), run_id=f"by_hand_{date[:10]}")
        state.create(manual_run("d", state.spec.schedule, request, at("2024-01-02 12:00")), at("2024-01-02 12:00"), "")
    finish_all(state, at("2024-01-02 13:00"))
    assert wake(state, at("2024-01-04")) == ["2024-01-02 00:00", "2024-01-03 00:00"]


def test_a_manual_run_with_data_from_the_future_waits_for_it_unless_the_dag_says_otherwise() -> None:
    now, date = at("2024-01-01"), at("2024-03-01")
    for allowed, schedule, start in ((False, None, date), (True, None, now), (True, "@daily", date)):
        state = scheduled(now, schedule=schedule, allow_trigger_in_future=allowed)
        run = manual_run("d", state.spec.schedule, TriggerRequest(logical_date=date), now)
        state.create(run, now, "")
        assert state.not_before(run) == start
        assert bool(state.startable(now)) == (start == now)
        assert len(state.startable(date)) == 1


# start_date = days_ago(n), which moves with each reading of the file (a tale told of Airflow 1.10).

EVERY_TWO_DAYS = "0 1 2-30/2 * *"


def moving(days: int, first: str, last: str) -> list[str]:
    """Reads the file every six hours with start_date = midnight *days* ago; the logical dates of the runs made."""
    state, made, now = None, [], at(first)
    while now <= at(last):
        start = (now - timedelta(days=days)).replace(hour=0, minute=0)
        spec = dag("d", [empty("a")], schedule=EVERY_TWO_DAYS, start_date=start.isoformat())
        if state is None:
            state = DagState(spec=spec, registered_at=now)
        else:
            state.register(spec, now)
        made += wake(state, now)
        now += timedelta(hours=6)
    assert state is not None
    explained.append(explain_dag(state, now).next_run)
    return made


explained: list[str] = []


def test_a_start_date_that_moves_faster_than_the_schedule_never_runs_and_that_is_said() -> None:
    assert moving(1, "2026-08-20", "2026-09-08") == []
    assert explained[-1].startswith("will never run: start_date has moved on")


def test_a_start_date_that_moves_slowly_enough_runs() -> None:
    assert moving(2, "2026-08-14 02:00", "2026-08-18")[0] == "2026-08-12 01:00"


def test_the_rule_of_thumb_needs_the_largest_gap() -> None:
    """From 30 August to 2 September are three days: two days ago is too late, three are enough."""
    first = "2026-09-01"
    assert moving(2, first, "2026-09-03") == []
    assert moving(3, first, "2026-09-03")[0] == "2026-08-30 01:00"


def test_after_the_first_run_the_start_date_no_longer_matters_except_as_a_bound() -> None:
    state = scheduled(at("2024-01-05"), schedule="@daily", start_date="2024-01-03T00:00:00Z", catchup=True)
    assert wake(state, at("2024-01-05")) == ["2024-01-03 00:00", "2024-01-04 00:00"]
    fields = {"schedule": "@daily", "catchup": True}
    state.register(dag("d", [empty("a")], start_date="2024-01-01T00:00:00Z", **fields), at("2024-01-05"))
    assert wake(state, at("2024-01-05")) == []  # earlier dates are for a backfill
    state.register(dag("d", [empty("a")], start_date="2024-01-08T00:00:00Z", **fields), at("2024-01-05"))
    assert wake(state, at("2024-01-09")) == ["2024-01-08 00:00"]


# A changed schedule is one step, shown before it is made.


def test_a_change_is_previewed_as_it_then_happens() -> None:
    state = scheduled(at("2024-01-04"), schedule="@daily", start_date="2024-01-01T00:00:00Z", catchup=True)
    wake(state, at("2024-01-04"))
    new = dag("d", [empty("a")], schedule="0 */6 * * *", start_date="2024-01-01T00:00:00Z", catchup=True)
    shown = preview(state, new, at("2024-01-04 01:00"))
    assert shown.changed
    assert "the last run's interval ended at 2024-01-04T00:00:00+00:00" in shown.transition
    assert state.spec.schedule == CronInterval(expression="@daily")  # nothing was changed
    state.register(new, at("2024-01-04 01:00"))
    assert wake(state, at("2024-01-05")) == [f"{i.logical_date:%Y-%m-%d %H:%M}" for i in shown.proposed[:4]]


SCHEDULES = ["@daily", "@hourly", "0 */6 * * *", "30 3 * * 1-5", "15 10 1,15 * *", 5400, 86400, "*/20 * * * *"]


@settings(max_examples=150, deadline=None)
@example("@daily", "30 3 * * 1-5", 17, 60, True)
@given(st.sampled_from(SCHEDULES), st.sampled_from(SCHEDULES), st.integers(0, 20), st.integers(1, 60), st.booleans())
def test_old_and_new_schedules_neither_overlap_nor_double(
    old: Any, new: Any, before: int, after: int, catchup: bool
) -> None:
    start = at("2024-01-01")
    fields = {"start_date": start.isoformat(), "catchup": catchup, "max_active_runs": 50}
    state = scheduled(start, schedule=old, **fields)
    change = start + timedelta(hours=7 * before)
    intervals = intervals_of(state, change)
    state.register(dag("d", [empty("a")], schedule=new, **fields), change)
    of_old = len(intervals)
    intervals += intervals_of(state, change + timedelta(hours=after))
    assert all(a.end <= b.start for a, b in pairwise(intervals))
    if catchup and 0 < of_old < len(intervals):
        first, ended = intervals[of_old].start, intervals[of_old - 1].end
        if isinstance(new, int):
            assert first == ended
        else:
            of_new = intervals_of(scheduled(start, schedule=new, **fields), first)
            assert not [i for i in of_new if ended <= i.start and i.end <= first], "no gap but a part of an interval"


def intervals_of(state: DagState, now: datetime) -> list[DataInterval]:
    found = []
    question = state.question(now)
    while question is not None or (state.next_info and state.next_info.run_after <= now):
        if question is not None:
            state.take(coming_runs(question), now)
        made = state.create_due(now)
        found += [tracked.run.data_interval for tracked in made if tracked.run.data_interval]
        for tracked in state.startable(now):
            state.start(tracked, now)
        finish_all(state, now)
        question = state.question(now)
        if not made and question is None:
            break
    return found


@given(
    st.sampled_from([s for s in SCHEDULES if isinstance(s, str)]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]),
    st.datetimes(datetime(2023, 1, 1), datetime(2025, 1, 1), timezones=st.just(UTC)),
)
def test_intervals_are_contiguous_disjoint_and_after_the_start(expression: str, zone: str, start: datetime) -> None:
    timetable = CronInterval(expression=expression, timezone=zone)
    restriction = TimeRestriction(earliest=start, catchup=True)
    last, found = None, []
    for _ in range(60):
        info = timetable.next_dagrun_info(last, restriction, start)
        assert info is not None
        found.append(info)
        last = info.data_interval
    assert found[0].logical_date >= start
    assert all(a.data_interval.end == b.data_interval.start for a, b in pairwise(found))
    assert all(info.data_interval.start < info.data_interval.end == info.run_after for info in found)


@given(st.integers(1, 5), st.lists(st.integers(0, 3), max_size=40), st.booleans())
def test_no_more_runs_than_the_limit_at_any_instant(limit: int, moves: list[int], catchup: bool) -> None:
    """Whatever order of waking up, triggers, finished runs and pauses: the limit holds and no date is made twice."""
    now = at("2024-01-10")
    state = scheduled(
        now, schedule="@hourly", start_date="2024-01-09T00:00:00Z", catchup=catchup, max_active_runs=limit
    )
    made: list[str] = []
    for n, move in enumerate(moves):
        now += timedelta(minutes=40)
        if move == 0:
            finish_all(state, now)
        elif move == 1:
            state.create(manual_run("d", state.spec.schedule, TriggerRequest(run_id=f"m{n}"), now), now, "")
        elif move == 2:
            state.pause(not state.is_paused, now)
        made += wake(state, now, finish=False)
        assert sum(tracked.state is RunState.RUNNING for tracked in state.runs.values()) <= limit
    assert len(made) == len(set(made))
    assert not catchup or made == sorted(made)


# Why nothing is created: a test for each reason.

NOW = at("2024-01-10 12:00")
DAILY: dict[str, Any] = {"schedule": "@daily", "start_date": "2024-01-01T00:00:00Z"}


def explained_state(change: str) -> DagState:
    fields = {
        "null": {},
        "asset": {"schedule": {"kind": "asset", "assets": ["a"]}},
        "ended": {**DAILY, "end_date": "2024-01-03T00:00:00Z", "catchup": True},
        "once": {"schedule": "@once", "start_date": "2024-01-01T00:00:00Z"},
        "limit": {**DAILY, "catchup": True, "max_active_runs": 2},
        "future": {**DAILY, "start_date": "2024-02-01T00:00:00Z"},
    }.get(change, DAILY)
    state = scheduled(NOW, **fields)
    wake(state, NOW, finish=change != "limit")
    if change == "paused":
        state.pause(True, NOW)
    if change == "broken":
        state.break_down("timetable: ValueError: no tide", NOW)
    return state


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("due", "due when its interval ends, at 2024-01-11T00:00:00+00:00"),
        ("paused", "paused: no run is created until it is unpaused"),
        ("broken", "broken: timetable: ValueError: no tide. Register the DAG again once it is mended"),
        ("null", "no schedule: runs are made by triggers only"),
        ("asset", "asset-triggered, time alone makes no run: waits for (a); there: none; not there: a"),
        ("ended", "no more runs: the schedule has ended, at end_date 2024-01-03T00:00:00+00:00"),
        ("once", "no more runs: @once has run, for 2024-01-01T00:00:00+00:00"),
        (
            "limit",
            "limit reached: max_active_runs = 2, held by scheduled__2024-01-01T00:00:00+00:00, "
            "scheduled__2024-01-02T00:00:00+00:00",
        ),
        (
            "future",
            "waiting for its start_date 2024-02-01T00:00:00+00:00: the first run is due at 2024-02-02T00:00:00+00:00",
        ),
    ],
)
def test_every_reason_is_told_in_plain_words(change: str, told: str) -> None:
    assert explain_dag(explained_state(change), NOW).next_run == told


def test_a_queued_run_says_what_it_waits_for() -> None:
    state = scheduled(NOW, max_active_runs=1)
    for run_id, after in (("first", None), ("second", None), ("later", at("2024-01-20"))):
        request = TriggerRequest(run_id=run_id, run_after=after)
        state.create(manual_run("d", state.spec.schedule, request, NOW), NOW, "")
        wake(state, NOW, finish=False)
    assert explain_dag(state, NOW).queued == (
        "second is queued: max_active_runs = 1 is reached by first",
        "later is queued: it waits for 2024-01-20T00:00:00+00:00",
    )
    state.pause(True, NOW)
    assert explain_dag(state, NOW).queued[0] == "second is queued: the DAG is paused"


def test_the_last_decisions_are_kept() -> None:
    state = scheduled(NOW, **DAILY, catchup=True)
    wake(state, NOW)
    told = explain_dag(state, NOW).decisions
    assert len(told) == 10
    assert (told[-1].kind, told[-1].about) == ("finished", "scheduled__2024-01-09T00:00:00+00:00")


def test_a_backfill_past_the_head_is_not_run_again_by_the_schedule() -> None:
    from tidemill.model.dag.backfill_request import BackfillRequest
    from tidemill.model.dag.backfill_walk import backfill_batch
    from tidemill.model.dag.backfills import Backfill

    for catchup in (True, False):
        state = scheduled(at("2024-01-02"), schedule="@daily", start_date="2024-01-01T00:00:00Z", catchup=catchup)
        wake(state, at("2024-01-02"))
        request = BackfillRequest(from_date=at("2024-01-03"), to_date=at("2024-01-03"))
        now = at("2024-01-04 06:00")
        question = Backfill.first_question(state.spec, request, now)
        batch = backfill_batch(state.spec.schedule.next_dagrun_info, question, lambda: True)
        state.pause(True, now)
        state.add_backfill(state.spec, request, batch, now)
        state.pause(False, now)
        state.create_backfill_runs(now)
        finish_all(state, now)
        assert wake(state, now) == (["2024-01-02 00:00"] if catchup else [])


def test_the_dag_spec_is_json_all_the_way() -> None:
    state = scheduled(NOW, **DAILY, catchup=True)
    wake(state, NOW, finish=False)
    assert DagState.model_validate_json(state.model_dump_json()) == state
    assert isinstance(state.spec, DagSpec)


@pytest.mark.parametrize("expression", ["R * * * *", "R(0-10) * * * *", "0 R/2 * * *", "0 1,r * * *"])
def test_a_schedule_that_answers_otherwise_each_time_is_refused(expression: str) -> None:
    with pytest.raises(CronError, match="R names another tick each time"):
        cron(expression, "UTC")


def test_names_of_days_and_months_are_no_random_fields() -> None:
    assert cron("0 6 * MAR,APR FRI", "UTC").next(at("2024-01-01")) == at("2024-03-01 06:00")


def triggered(state: DagState, now: datetime, **request: Any) -> RunIdentity:
    return manual_run(state.spec.dag_id, state.spec.schedule, TriggerRequest(**request), now)


def test_a_run_id_that_looks_like_a_date_takes_no_dates_place() -> None:
    now = at("2024-01-02")
    state = DagState(spec=dag("keys", [empty("a")]), registered_at=now)
    with pytest.raises(ValueError, match="is what a run of that logical_date is known by"):
        triggered(state, now, run_id="2024-01-01T00:00:00+00:00")
    assert triggered(state, now, run_id="2024-01-01T00:00:00+00:00", logical_date=at("2024-01-01")).logical_date
    for harmless in ("mine", "20240101", "2024-01-01"):
        assert triggered(state, now, run_id=harmless).key == harmless


def test_a_report_of_before_a_clear_does_not_end_the_run_again() -> None:
    now = at("2024-01-02")
    state = DagState(spec=dag("late", [empty("a")]), registered_at=now)
    run = triggered(state, now, run_id="mine")
    tracked = state.create(run, now, "")
    state.start(tracked, now)
    report = RunReport(key=run.key, state=RunState.FAILED, ended_at=now + timedelta(seconds=5), reason="failed")
    assert state.finish(report)
    state.revise(run, Revision(execution="e", clear=ClearRequest()), now + timedelta(seconds=10))
    assert not state.finish(report), "told twice, or late"
    assert run.key in state.runs
    assert state.finish(report.model_copy(update={"ended_at": now + timedelta(seconds=20), "state": RunState.SUCCESS}))


def test_a_success_pauses_no_dag() -> None:
    """Cleared and successful again, the last runs by date are still two failures: that is no new failure."""
    now = at("2024-01-05")
    spec = dag("recovers", [empty("a")], max_consecutive_failed_dag_runs=2)
    state = DagState(spec=spec, registered_at=now)
    for day, end in ((1, RunState.SUCCESS), (3, RunState.FAILED), (4, RunState.FAILED)):
        run = triggered(state, now, run_id=f"run_{day}", logical_date=at(f"2024-01-0{day}"))
        state.start(state.create(run, now, ""), now)
        state.finish(RunReport(key=run.key, state=end, ended_at=now, reason=""))
    assert state.is_paused
    state.pause(False, now)
    run = triggered(state, now, run_id="run_2", logical_date=at("2024-01-02"))
    state.start(state.create(run, now, ""), now)
    state.finish(RunReport(key=run.key, state=RunState.SUCCESS, ended_at=now, reason=""))
    assert not state.is_paused


# What is asked for


def test_a_cleared_run_that_is_deleted_in_the_queue_may_run_again() -> None:
    """Temporal still knows the workflow that it ran as: its end is not the end of the run that is made next."""
    state = scheduled(at("2024-01-03"), schedule="@daily", start_date="2024-01-01T00:00:00Z", catchup=True)
    wake(state, at("2024-01-03"))
    [_, last] = state.ledger
    run = RunIdentity.model_validate(
        {
            **last.model_dump(include={"run_id", "run_type", "logical_date", "run_after"}),
            "dag_id": "d",
            "triggered_by": "timetable",
        }
    )
    state.pause(True, at("2024-01-03"))
    state.revise(run, Revision(clear=ClearRequest(), execution="x"), at("2024-01-03"))
    assert state.delete_run(run.run_id)
    asked = manual_run("d", state.spec.schedule, TriggerRequest(logical_date=run.logical_date), at("2024-01-04"))
    assert state.may_run_again(state.create(asked, at("2024-01-04"), "triggered"))


def test_an_interval_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValueError, match=r"is after data_interval_end .* Swap or correct them"):
        TriggerRequest(
            logical_date=at("2024-01-01"), data_interval_start=at("2024-01-02"), data_interval_end=at("2024-01-01")
        )


def test_a_preview_says_that_the_bounds_of_a_schedule_change() -> None:
    state = scheduled(at("2024-01-03"), schedule="@daily", start_date="2024-01-01T00:00:00Z", catchup=True)
    wake(state, at("2024-01-03"))
    ends = dag("d", [empty("a")], schedule="@daily", start_date="2024-01-01T00:00:00Z", catchup=True,
               end_date="2024-01-04T00:00:00Z")  # fmt: skip
    shown = preview(state, ends, at("2024-01-03"))
    assert "within other bounds" in shown.transition
    assert (len(shown.current), len(shown.proposed)) == (5, 2)


def test_of_a_schedule_without_a_plan_one_run_is_known_ahead() -> None:
    state = scheduled(at("2024-01-03"), schedule="@continuous", max_active_runs=1, start_date="2024-01-01T00:00:00Z")
    assert len(preview(state, state.spec, at("2024-01-03")).current) == 1
