"""`tidemill doctor` sees DAGs that should have made a run by now, whatever keeps them from it."""

from datetime import timedelta
from typing import Any

import pytest
from support import at
from tidemill.model.dag.row import DagRow
from tidemill.worker.app.doctor import LATE, runs_check

NOW = at("2026-01-02T12:00")


def row(dag_id: str = "d", **fields: Any) -> DagRow:
    due = {"due_at": NOW - LATE - timedelta(seconds=1), "knows_due": True}
    return DagRow.model_validate({"dag_id": dag_id, **due, **fields})


def test_a_dag_that_is_late_is_named() -> None:
    check = runs_check([row("b"), row("a"), row("c", due_at=NOW)], NOW)
    assert (check.ok, check.found) == (False, "2 of 3 DAGs should have made a run by now: a, b")
    assert check.remedy is not None
    assert "tidemill dags explain" in check.remedy


@pytest.mark.parametrize(
    "fields",
    [
        {"due_at": None},
        {"due_at": NOW - LATE + timedelta(seconds=1)},
        {"is_paused": True},
        {"is_stale": True},
        {"has_import_errors": True},
        {"is_broken": True},
    ],
)
def test_one_that_may_make_no_run_is_not_late(fields: dict[str, Any]) -> None:
    assert runs_check([row(**fields)], NOW).ok


@pytest.mark.parametrize(("runs", "ok"), [(0, False), (1, True)])
def test_a_line_of_the_release_before_is_judged_by_what_it_says(runs: int, ok: bool) -> None:
    due = {"next_dagrun_create_after": NOW - LATE - timedelta(seconds=1), "max_active_runs": 1, "active_runs": runs}
    assert runs_check([row(**due, due_at=None, knows_due=False)], NOW).ok is ok
