"""Which runs `--past` and `--future` mean, on the command line and through the API."""

from datetime import UTC, datetime, timedelta

import pytest
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.identity import RunType
from tidemill.model.run.ranges import runs_around, runs_between
from tidemill.model.run.views import RunView
from tidemill.model.states import RunState

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def of(hour: int | None) -> RunView:
    at = NOON + timedelta(hours=hour or 0)
    return RunView(
        run_id=f"r{hour}", run_type=RunType.MANUAL, state=RunState.SUCCESS, run_after=at,
        logical_date=at if hour is not None else None, queued_at=None, workflow_id=f"run:d:r{hour}",
    )  # fmt: skip


RUNS = [of(1), of(None), of(-2), of(0), of(-1)]


@pytest.mark.parametrize(("past", "future", "found"), [
    (False, False, ["r0"]), (True, False, ["r-2", "r-1", "r0"]), (False, True, ["r0", "r1"]),
    (True, True, ["r-2", "r-1", "r0", "r1"]),
])  # fmt: skip
def test_runs_around_one(past: bool, future: bool, found: list[str]) -> None:
    assert [run.run_id for run in runs_around(of(0), RUNS, past=past, future=future)] == found


def test_a_run_without_a_logical_date_has_none_around_it() -> None:
    assert runs_around(of(None), RUNS, past=False, future=False) == [of(None)]
    with pytest.raises(InvalidInputError, match="has no logical date"):
        runs_around(of(None), RUNS, past=True, future=False)


def test_both_ends_belong_to_a_range() -> None:
    found = runs_between(RUNS, NOON - timedelta(hours=1), NOON)
    assert [run.run_id for run in found] == ["r-1", "r0"]
