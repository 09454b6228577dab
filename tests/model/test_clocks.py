"""Clocks and their changes: what an expression means where they change, what is on schedule, who starts when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import assume, example, given
from hypothesis import strategies as st
from support import at, dag, empty
from tidemill.model.dag.explaining import explain_dag
from tidemill.model.dag.local_times import by_the_clock
from tidemill.model.dag.state import DagState
from tidemill.model.dag.ticks import coming_runs, spread
from tidemill.model.dag.views import dag_row
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.identity import TriggerRequest, manual_run
from tidemill.model.spec.dag import DagSpec
from tidemill.model.spec.timetables import CronTrigger, DagRunInfo
from tidemill.model.spec.timetables.cron import Cron, DstPolicy, cron
from tidemill.model.spec.timetables.describe import in_words

from tidemill import DAG, CronTriggerTimetable, EmptyOperator

BERLIN = "Europe/Berlin"
"""Forward on 2026-03-29 from 02:00 to 03:00 (01:00 UTC), back on 2026-10-25 from 03:00 to 02:00 (01:00 UTC)."""


def ticks(expression: str, zone: str, policy: DstPolicy, since: str, n: int) -> list[str]:
    found, tick = [], at(since)
    for _ in range(n):
        following = cron(expression, zone, policy).next(tick)
        assert following is not None
        assert cron(expression, zone, policy).prev(following + timedelta(microseconds=1)) == following
        found.append(f"{following:%d %H:%M}")
        tick = following
    return found


@given(
    expression=st.sampled_from(["0 * * * *", "30 2 * * *", "*/15 1-3 * * *", "15 0-4 29-31 3,10 *", "0 2 * * 0"]),
    zone=st.sampled_from([BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Tehran", "Africa/Casablanca"]),
    policy=st.sampled_from(["airflow", "every_instant", "first_instant"]),
    instant=st.datetimes(datetime(2015, 1, 1), datetime(2026, 12, 31), timezones=st.just(UTC)),
)
def test_the_tick_that_was_found_is_the_last_one_at_its_time(
    expression: str, zone: str, policy: DstPolicy, instant: datetime
) -> None:
    found = Cron(expression, zone, policy).next(instant)
    assert found is not None
    assert Cron(expression, zone, policy).at_or_before(found) == found


@pytest.mark.parametrize(
    ("policy", "in_gap", "in_fold"),
    [
        ("airflow", ["28 01:30", "29 01:30", "30 00:30"], ["24 00:30", "25 01:30", "26 01:30"]),
        ("every_instant", ["28 01:30", "30 00:30", "31 00:30"], ["24 00:30", "25 00:30", "25 01:30"]),
        ("first_instant", ["28 01:30", "29 01:30", "30 00:30"], ["24 00:30", "25 00:30", "26 01:30"]),
    ],
)
def test_a_daily_expression_where_the_clocks_change(policy: DstPolicy, in_gap: list[str], in_fold: list[str]) -> None:
    assert ticks("30 2 * * *", BERLIN, policy, "2026-03-27T12:00", 3) == in_gap
    assert ticks("30 2 * * *", BERLIN, policy, "2026-10-23T12:00", 3) == in_fold


@pytest.mark.parametrize(
    ("policy", "in_fold"),
    [
        ("airflow", ["24 23:00", "25 00:00", "25 01:00", "25 02:00"]),
        ("every_instant", ["24 23:00", "25 00:00", "25 01:00", "25 02:00"]),
        ("first_instant", ["24 23:00", "25 00:00", "25 02:00", "25 03:00"]),
    ],
)
def test_an_hourly_expression_where_the_clocks_change(policy: DstPolicy, in_fold: list[str]) -> None:
    assert ticks("0 * * * *", BERLIN, policy, "2026-10-24T22:30", 4) == in_fold
    # In spring no hour is lost, and none comes twice, whatever the policy.
    assert ticks("0 * * * *", BERLIN, policy, "2026-03-28T23:30", 3) == ["29 00:00", "29 01:00", "29 02:00"]


@given(
    st.sampled_from(["30 2 * * *", "*/20 * * * *", "15 1-4 * * *", "0 2 25 10 *"]),
    st.sampled_from([BERLIN, "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]),
    st.sampled_from(["airflow", "every_instant", "first_instant"]),
    st.datetimes(datetime(2011, 12, 1), datetime(2026, 12, 1), timezones=st.just(UTC)),
)
def test_every_policy_walks_forward_and_back_alike(
    expression: str, zone: str, policy: DstPolicy, start: datetime
) -> None:
    found, tick = [], start
    for _ in range(40):
        following = cron(expression, zone, policy).next(tick)
        assert following is not None
        found.append(following)
        tick = following
    assert found == sorted(set(found))
    assert all(cron(expression, zone, policy).prev(b) == a for a, b in pairwise(found))


def test_the_policy_is_the_dags_and_changes_no_version_where_it_is_airflows() -> None:
    def spec(**more: Any) -> DagSpec:
        return dag("d", [empty("a")], schedule="30 2 * * *", timezone=BERLIN, **more)

    assert spec().version == spec(dst_policy="airflow").version
    assert spec(dst_policy="every_instant").version != spec().version
    assert spec(dst_policy="every_instant").schedule.dst_policy == "every_instant"  # type: ignore[union-attr]
    assert DagSpec.model_validate_json(spec(dst_policy="every_instant").model_dump_json()).schedule == (
        spec(dst_policy="every_instant").schedule
    )
    with DAG("d", schedule=CronTriggerTimetable("0 2 * * *", timezone=BERLIN), dst_policy="first_instant") as made:
        EmptyOperator("a")
    assert isinstance(made.spec().schedule, CronTrigger)
    assert made.spec().schedule.dst_policy == "first_instant"  # type: ignore[union-attr]
    with pytest.raises(InvalidInputError, match="dst_policy = 'wall'"):
        spec(dst_policy="wall")


def test_a_policy_that_a_timetable_names_is_kept_and_one_within_another_takes_the_dags() -> None:
    named = {"kind": "cron_trigger", "expression": "0 2 * * *", "timezone": BERLIN, "dst_policy": "airflow"}
    own = dag("d", [empty("a")], schedule=named, dst_policy="every_instant")
    again = DagSpec.model_validate_json(own.model_dump_json())
    assert own.schedule.dst_policy == again.schedule.dst_policy == "airflow"  # type: ignore[union-attr]
    assert own.version == again.version
    inner = {"kind": "cron_trigger", "expression": "0 2 * * *", "timezone": BERLIN}
    asset = {"kind": "asset", "name": "x", "uri": "x"}
    both = {"kind": "asset_or_time", "timetable": inner, "condition": asset}
    outer = dag("d", [empty("a")], schedule=both, dst_policy="first_instant")
    assert outer.schedule.timetable.dst_policy == "first_instant"  # type: ignore[union-attr]
    assert DagSpec.model_validate_json(outer.model_dump_json()) == outer


# On schedule


@pytest.mark.parametrize(
    ("schedule", "date", "expected"),
    [
        ("0 6 * * *", "2026-02-01T06:00", True),
        ("0 6 * * *", "2026-02-01T06:01", False),
        ("0 6 * * *", "2025-12-31T06:00", False),  # before start_date
        ("0 6 * * *", "2026-06-01T06:00", True),  # end_date is inclusive
        ("0 6 * * *", "2026-06-02T06:00", False),
        (timedelta(hours=5), "2026-01-02T01:00", True),
        (timedelta(hours=5), "2026-01-02T02:00", False),
        ("@once", "2026-01-01T00:00", True),
        ("@once", "2026-01-02T00:00", False),
        (None, "2026-01-02T00:00", False),
        (["0 6 * * *", "30 7 * * 1"], "2026-02-02T07:30", True),
        (["0 6 * * *", "30 7 * * 1"], "2026-02-03T07:30", False),
    ],
)
def test_whether_a_date_is_on_schedule(schedule: Any, date: str, expected: bool) -> None:
    with DAG("d", schedule=schedule, start_date=at("2026-01-01"), end_date=at("2026-06-01T06:00"), catchup=True) as d:
        EmptyOperator("a")
    assert d.on_schedule(at(date)) is expected


def test_on_schedule_where_the_clocks_change() -> None:
    def on(policy: DstPolicy, date: str) -> bool:
        made = DAG("d", schedule="30 2 * * *", timezone=BERLIN, start_date=at("2026-01-01"), dst_policy=policy)
        return made.on_schedule(at(date))

    assert on("airflow", "2026-03-29T01:30")  # 02:30 is not there; it is moved to 03:30
    assert not on("every_instant", "2026-03-29T01:30")
    assert [on("airflow", f"2026-10-25T0{hour}:30") for hour in (0, 1)] == [False, True]
    assert [on("every_instant", f"2026-10-25T0{hour}:30") for hour in (0, 1)] == [True, True]
    assert [on("first_instant", f"2026-10-25T0{hour}:30") for hour in (0, 1)] == [True, False]


@pytest.mark.parametrize("schedule", [timedelta(hours=5), {"kind": "delta_trigger", "delta": 3600}])
def test_where_the_steps_begin_at_no_known_date_nothing_is_said(schedule: Any) -> None:
    made = DAG("d", schedule=schedule, start_date=at("2026-01-01"))
    with pytest.raises(ValueError, match="whether a date is on schedule cannot be said"):
        made.on_schedule(at("2026-01-02"))


@given(st.sampled_from(["*/7 * * * *", "0 3 * * 1-5", timedelta(minutes=50)]), st.integers(0, 60))
def test_every_run_between_two_dates_is_on_schedule(schedule: Any, n: int) -> None:
    with DAG("d", schedule=schedule, start_date=at("2026-01-05"), catchup=True) as made:
        EmptyOperator("a")
    infos = made.iter_dagrun_infos_between(at("2026-01-05"), at("2027-01-01"))
    info = next(islice(infos, n, None))
    assert made.on_schedule(info.logical_date)
    assert not made.on_schedule(info.logical_date + timedelta(seconds=1))


# Expressions, read by another library


def field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high).map(str)
    # croniter, and with it Airflow, reads the weekday 0-0 as any day: a span has two ends here.
    pairs = st.lists(st.integers(low, high), min_size=2, max_size=2, unique=True).map(sorted)
    spans = pairs.map(lambda pair: f"{pair[0]}-{pair[1]}")
    steps = st.integers(1, high).map(lambda step: f"*/{step}")
    lists = st.lists(number, min_size=2, max_size=3, unique=True).map(",".join)
    return st.one_of(st.just("*"), number, spans, steps, lists)


FIELDS = [field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)]


@example("* * 30 2 *", datetime(2020, 1, 1, tzinfo=UTC))
@given(
    st.tuples(*FIELDS).map(" ".join),
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
)
def test_another_library_reads_expressions_alike(expression: str, start: datetime) -> None:
    _, _, day, _, weekday = expression.split()
    # With both a day and a weekday either may match; what counts as "any day" beside a star is where readers differ.
    assume("*" in (day, weekday) or not set("*-/") & set(day + weekday))
    start = start.replace(second=0, microsecond=0)
    try:
        theirs = list(islice(CronSim(expression, start), 5))
    except CronSimError:  # it refuses a day that none of the months has
        assert cron(expression, "UTC").next(start) is None
        return
    except (StopIteration, ValueError):
        assume(False)
    ours, tick = [], start
    for _ in theirs:
        following = cron(expression, "UTC").next(tick)
        if following is None:  # beyond the horizon of the library that Airflow uses
            return
        ours.append(following)
        tick = following
    assert ours == theirs[: len(ours)], expression


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2020-08-14T00:30", ("08-10", "08-12", "08-14")),
        ("2020-08-14T02:00", ("08-12", "08-14", "08-16")),
        ("2020-08-15T08:00", ("08-12", "08-14", "08-16")),
    ],
)
def test_the_ticks_around_now(now: str, expected: tuple[str, str, str]) -> None:
    """The last but one, the last, and the next, of an expression for even days."""
    found = cron("0 1 2-30/2 * *", "UTC")
    last, following = found.prev(at(now)), found.next(at(now))
    assert last is not None
    assert following is not None
    before = found.prev(last)
    assert before is not None
    assert (before, last, following) == tuple(at(f"2020-{day}T01:00") for day in expected)


# Words, and the local clock


def test_schedules_in_words() -> None:
    assert in_words({"expression": "0 6 * * 1-5", "timezone": BERLIN}) == (
        "At 06:00, Monday through Friday (Europe/Berlin)"
    )
    assert in_words({"expression": "@hourly"}) == "Every hour (UTC)"
    assert in_words({"expression": "0 6 * * * 30"}) == "At 06:00:30 (UTC)"
    assert in_words({"expressions": ["0 6 * * *", "0 18 * * 6"]}) == "At 06:00; and At 18:00, only on Saturday (UTC)"
    assert in_words({"kind": "delta_interval", "delta": "PT5H"}) is None
    assert in_words({"expression": "0 0 * * 1#1,3#2"}) is None
    assert in_words({"expression": "0 0 l jul *"}) == "At 00:00, on the last day of the month, only in July (UTC)"


def test_coming_runs_tell_where_the_clocks_change() -> None:
    infos = [DagRunInfo.exact(at(f"2026-03-{day}T02:00")) for day in (28, 29, 30)]
    runs = by_the_clock(infos, {"timezone": BERLIN})
    assert [run.local for run in runs] == [
        "Sat 2026-03-28 03:00:00+0100",
        "Sun 2026-03-29 04:00:00+0200",
        "Mon 2026-03-30 04:00:00+0200",
    ]
    assert [run.clock_change for run in runs] == [None, "clocks go forward by 60 min", None]
    assert {run.clock_change for run in by_the_clock(infos, {})} == {None}


def test_a_schedule_beside_assets_is_told_by_its_own_clock() -> None:
    cron = {"kind": "cron_trigger", "expression": "0 6 * * *", "timezone": BERLIN}
    either = {"kind": "asset_or_time", "timetable": cron, "condition": {"kind": "asset", "name": "a"}}
    assert in_words(either) == f"At 06:00 ({BERLIN})"
    [run] = by_the_clock([DagRunInfo.exact(at("2026-07-01T04:00"))], either)
    assert run.local == "Wed 2026-07-01 06:00:00+0200"


# Jitter


def test_jitter_spreads_the_starts_of_dags_that_are_due_together() -> None:
    jitter, due = timedelta(minutes=10), at("2026-01-02")
    delays = [spread(f"dag_{n}", due, jitter) for n in range(1000)]
    assert delays == [spread(f"dag_{n}", due, jitter) for n in range(1000)]
    assert all(timedelta() <= delay < jitter for delay in delays)
    per_minute = [sum(1 for delay in delays if delay // timedelta(minutes=1) == minute) for minute in range(10)]
    assert min(per_minute) > 60
    assert spread("d", due, None) == timedelta()


def test_jitter_does_not_go_with_runs_that_are_due_when_they_are_asked_for() -> None:
    with pytest.raises(InvalidInputError, match="does not go with a schedule of kind continuous"):
        dag("d", [empty("a")], schedule="@continuous", max_active_runs=1, jitter=60)


def test_a_run_is_made_when_its_jitter_says_and_has_its_dates() -> None:
    spec = dag("d", [empty("a")], schedule="@hourly", start_date="2026-01-01T00:00:00Z", catchup=True, jitter=600)
    state = DagState(spec=spec, registered_at=at("2026-01-01"))
    question = state.question(at("2026-01-01"))
    assert question is not None
    state.take(coming_runs(question), at("2026-01-01"))
    due = at("2026-01-01T01:00")
    made_at = due + spread("d", due, timedelta(minutes=10))
    assert due < made_at < due + timedelta(minutes=10)
    assert state.create_due(due) == []
    assert not state.can_still_create(due)
    assert state.next_wake(due) == dag_row(state).due_at == made_at
    assert "jitter spreads the starts" in explain_dag(state, due).next_run
    state.is_paused = True
    assert dag_row(state).due_at is None
    state.is_paused = False
    made = state.create_due(made_at)
    assert [(run.run.run_after, run.run.logical_date) for run in made] == [(due, at("2026-01-01"))]


def test_a_run_that_comes_due_while_another_is_started_is_seen() -> None:
    """The start of a run takes a while, and who looks for the next wake by then does not see it as one to come."""
    start = at("2026-01-01")
    state = DagState(spec=dag("d", [empty("a")], schedule=None), registered_at=start)
    for second in (10, 11):
        due = start + timedelta(seconds=second)
        state.create(manual_run("d", state.spec.schedule, TriggerRequest(logical_date=due), start), start, "by hand")
    looked_at, by_then = start + timedelta(seconds=10.5), start + timedelta(seconds=11.5)
    [first] = state.startable(looked_at)
    state.start(first, looked_at)
    assert state.next_wake(by_then) is None
    assert state.came_due(looked_at, by_then)
    assert not state.came_due(by_then, by_then + timedelta(days=1))
