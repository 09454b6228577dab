"""A backfill's runs are the same however small the parts are that they are worked out in, forwards and backwards."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import at, dag, empty
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.dag.backfill_walk import BATCH, BackfillBatch, BackfillQuestion, backfill_batch
from tidemill.model.dag.backfills import Backfill
from tidemill.model.dag.state import DagState
from tidemill.model.spec.timetables import DagRunInfo, DataInterval

NOW = at("2024-06-01 12:30")
SCHEDULES: list[Any] = ["@hourly", "@daily", {"kind": "delta_interval", "delta": "PT5H"}, "*/7 3-9 * * *"]


def answer(question: BackfillQuestion, runs_in_time: int = 10**9) -> BackfillBatch:
    looks = count(1)
    return backfill_batch(question.timetable.next_dagrun_info, question, lambda: next(looks) < runs_in_time)


def state_of(schedule: Any) -> DagState:
    return DagState(spec=dag("filled", [empty("a")], schedule=schedule), registered_at=NOW)


def made(state: DagState, request: BackfillRequest, in_time: int) -> Backfill:
    batch = answer(Backfill.first_question(state.spec, request, NOW), in_time)
    return state.add_backfill(state.spec, request, batch, NOW)


def created(backfill: Backfill, in_time: int) -> list[datetime]:
    """The dates of all its runs, in the order of their creation; each ends at once."""
    dates: list[datetime] = []
    while not backfill.close_if_done(NOW, ()):
        if (question := backfill.counting_question()) is not None:
            backfill.count(answer(question, in_time))
        if (question := backfill.question()) is not None:
            backfill.take(answer(question, in_time))
        dates += [info.logical_date for info in backfill.infos]
        backfill.infos = ()
    assert Backfill.model_validate_json(backfill.model_dump_json()) == backfill
    return dates


@settings(max_examples=40, deadline=None)
@given(
    schedule=st.sampled_from(SCHEDULES),
    days=st.integers(1, 12),
    backwards=st.booleans(),
    in_time=st.integers(1, 300),
)
def test_the_parts_are_the_whole(schedule: Any, days: int, backwards: bool, in_time: int) -> None:
    request = BackfillRequest(from_date=NOW - timedelta(days=days), to_date=NOW, run_backwards=backwards)
    state = state_of(schedule)
    whole = answer(BackfillQuestion(timetable=state.spec.schedule, request=request, now=NOW, limit=10**6))
    if whole.total:
        backfill = made(state, request, in_time)
        assert created(backfill, in_time) == [info.logical_date for info in whole.infos]
        assert backfill.progress(1).total_dagruns == whole.total


@pytest.mark.parametrize("backwards", [False, True])
def test_a_backfill_of_the_release_before_goes_on(backwards: bool) -> None:
    request = BackfillRequest(from_date=at("2024-05-01"), to_date=NOW, run_backwards=backwards)
    state = state_of("@hourly")
    whole = answer(BackfillQuestion(timetable=state.spec.schedule, request=request, now=NOW, limit=10**6))
    taken = Backfill(
        backfill_id="backfill_1", request=request, timetable=state.spec.schedule, created_at=NOW,
        total=whole.total, offset=BATCH,
    )  # fmt: skip
    assert created(taken, 50) == [info.logical_date for info in whole.infos[BATCH:]]


def test_the_release_before_is_answered_by_number() -> None:
    request = BackfillRequest(from_date=at("2024-05-01"), to_date=NOW, run_backwards=True)
    question = BackfillQuestion(
        timetable=state_of("@hourly").spec.schedule, request=request, now=NOW, offset=3, limit=2
    )
    batch = answer(question, 1)
    assert batch.total == 31 * 24 + 12
    assert [info.logical_date for info in batch.infos] == [at("2024-06-01 08:00"), at("2024-06-01 07:00")]


def test_half_a_million_dates_are_known_a_part_at_a_time_and_begin_at_once() -> None:
    state = state_of("@hourly")
    request = BackfillRequest(from_date=at("1960-01-01"), to_date=NOW)
    backfill = made(state, request, 200)
    assert (backfill.total, backfill.counted, len(backfill.infos)) == (200, False, BATCH)
    assert "at least 200 runs" in state.decisions[-1].reason
    asked = state.counting_question()
    assert asked is not None
    state.count_backfill(asked[0], answer(asked[1], 500), NOW)
    assert (backfill.total, backfill.counted) == (700, False)
    assert backfill.progress(1).counted is False
    backfill.offset = backfill.total
    backfill.infos = ()
    assert backfill.question() is None  # those after it are not counted yet
    assert not backfill.close_if_done(NOW, ())


def test_what_runs_backwards_waits_until_it_is_counted() -> None:
    state = state_of("@hourly")
    request = BackfillRequest(from_date=at("2024-05-01"), to_date=NOW, run_backwards=True)
    backfill = made(state, request, 200)
    assert backfill.infos == ()
    assert backfill.question() is None
    from tidemill.model.dag.explaining import explain_dag

    assert "the runs are counted before the last of them can be the first" in explain_dag(state, NOW).backfills[0]


def test_a_timetable_that_raises_while_its_runs_are_counted_ends_the_backfill() -> None:
    state = state_of("@hourly")
    backfill = made(state, BackfillRequest(from_date=at("2024-05-01"), to_date=NOW), 200)
    state.count_backfill(backfill.backfill_id, BackfillBatch(total=0, error="ValueError: no"), NOW)
    assert not backfill.open
    assert backfill.progress(1).state == "failed: timetable: ValueError: no"


def test_a_range_that_reaches_far_into_the_future_is_worked_out_up_to_now() -> None:
    """What has not ended by now is no run of the backfill, so nobody looks for it."""
    asked = 0

    def every_hour(last: DataInterval | None, *_: Any) -> DagRunInfo:
        nonlocal asked
        asked += 1
        start = at("2024-06-01") if last is None else last.end
        return DagRunInfo.interval(start, start + timedelta(hours=1))

    request = BackfillRequest(from_date=at("2024-06-01"), to_date=datetime(2900, 1, 1, tzinfo=UTC))
    question = Backfill.first_question(state_of("@hourly").spec, request, NOW)
    assert backfill_batch(every_hour, question, lambda: True).total == 12
    assert asked < 20
