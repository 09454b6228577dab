"""Timetables of one's own as public reports have them: the runs that they make, by date, interval, moment and id."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from airflow_stack import DAGS, needs_airflow, stack_with
from support import Stack, eventually
from tidemill.model.dag.backfill_request import BackfillRequest, ReprocessBehavior
from tidemill.model.run.identity import TriggerRequest

pytestmark = needs_airflow
RUNS = {
    "events": [  # 33948
        ("2023-08-01T06:00", None, "2023-08-01T06:00", None),
        ("2023-08-02T06:00", None, "2023-08-02T06:00", None),
        ("2023-08-03T06:00", None, "2023-08-03T06:00", None),
    ],
    "at_four": [  # 68315, 51840
        ("2026-01-01T00:00", "2026-01-02T00:00", "2026-01-02T04:00", None),
        ("2026-01-02T00:00", "2026-01-03T00:00", "2026-01-03T04:00", None),
        ("2026-01-03T00:00", "2026-01-04T00:00", "2026-01-04T04:00", None),
    ],
    "once": [("2024-01-01T00:00", None, "2024-01-01T00:00", None)],  # 19304
    "without_end": [  # 49216: Airflow goes on to the end of the calendar
        ("2024-01-01T00:00", "2024-01-02T00:00", "2024-01-02T00:00", None),
        ("2024-01-02T00:00", "2024-01-03T00:00", "2024-01-03T00:00", None),
    ],
    "workdays": [  # 34897
        ("2023-10-12T00:00", "2023-10-13T00:00", "2023-10-13T08:00", None),
        ("2023-10-13T00:00", "2023-10-14T00:00", "2023-10-14T08:00", None),
        ("2023-10-16T00:00", "2023-10-17T00:00", "2023-10-17T08:00", None),
    ],
    "named": [  # 55908
        ("2025-09-15T00:00", "2025-09-16T00:00", "2025-09-16T00:00", "20250915000000"),
        ("2025-09-16T00:00", "2025-09-17T00:00", "2025-09-17T00:00", "20250916000000"),
    ],
    "named_alike": [  # in Airflow the second one is not made
        ("2025-09-15T00:00", "2025-09-16T00:00", "2025-09-16T00:00", "2025-09"),
        ("2025-09-16T00:00", "2025-09-17T00:00", "2025-09-17T00:00", "2025-09_2"),
    ],
    "without_holidays": [  # 31721
        ("2023-06-15T00:00", "2023-06-16T00:00", "2023-06-16T00:00", None),
        ("2023-06-16T00:00", "2023-06-20T00:00", "2023-06-20T00:00", None),
        ("2023-06-20T00:00", "2023-06-21T00:00", "2023-06-21T00:00", None),
    ],
    "weekly": [  # 52145, 50172, 49790: the first date is before the start_date, which bounds the moment
        ("2024-12-29T00:10", "2025-01-05T00:10", "2025-01-05T00:10", None),
        ("2025-01-05T00:10", "2025-01-12T00:10", "2025-01-12T00:10", None),
    ],
}


@pytest.fixture
async def airflow(server: str, tmp_path: Path) -> AsyncIterator[Stack]:
    # Classes of the DAG file itself: none is registered with a plugin (19869, 21259).
    async with stack_with(server, tmp_path / "home", DAGS / "timetables.py") as made:
        yield made


def written(at: datetime) -> str:
    return at.isoformat()[:16]


async def test_the_runs_are_those_that_the_class_asks_for(airflow: Stack) -> None:
    for dag_id, expected in RUNS.items():
        found = []
        for run in await airflow.all_finished(dag_id, len(expected)):
            identity = (await airflow.tidemill.runs.describe(dag_id, run.run_id)).run
            interval = identity.data_interval
            assert identity.logical_date is not None
            assert interval is not None
            end = written(interval.end) if interval.end != interval.start else None
            own = None if run.run_id == f"scheduled__{identity.run_after.isoformat()}" else run.run_id
            found.append((written(identity.logical_date), end, written(identity.run_after), own))
        assert (dag_id, found) == (dag_id, expected)
        assert (await airflow.tidemill.dags.describe(dag_id)).next_dagrun is None


async def test_a_backfill_calls_its_runs_as_the_class_does(airflow: Stack) -> None:
    """56374."""
    await airflow.all_finished("named", 2)
    start = datetime.fromisoformat("2025-09-10T00:00:00+00:00")
    asked = BackfillRequest(
        from_date=start, to_date=start + timedelta(days=1), reprocess_behavior=ReprocessBehavior.NONE
    )
    await airflow.tidemill.backfills.create("named", asked)
    runs = await airflow.all_finished("named", 4)
    assert [run.run_id for run in runs][:2] == ["20250910000000", "20250911000000"]


async def test_a_manual_run_has_the_interval_that_the_class_infers(airflow: Stack) -> None:
    """41014: the last whole one before its date."""
    made = await airflow.tidemill.runs.trigger("named", TriggerRequest(logical_date="2025-09-19T12:00:00Z"))
    assert made.data_interval is not None
    assert (written(made.data_interval.start), written(made.data_interval.end)) == (
        "2025-09-18T00:00",
        "2025-09-19T00:00",
    )


async def test_a_class_that_raises_stops_its_own_dag_alone_and_says_why(airflow: Stack) -> None:
    """56451, 68315: in Airflow the processor ended, or nothing was said."""
    view = await eventually(lambda: airflow.tidemill.dags.describe("broken"), lambda view: view.broken)
    assert "the calendar is not there" in (view.broken or "")
    assert len(await airflow.all_finished("once", 1)) == 1
