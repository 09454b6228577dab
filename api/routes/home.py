"""The first page: how many DAGs and runs there are, and in which states."""

from collections import Counter
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from ...model.dag.row import DagRow
from ...model.errors import InvalidInputError
from ...model.states import TaskState
from ..dependencies import Source
from ..read.cached_client import MAX_RUNS
from ..read.concurrency import each
from ..responses.tasks import shown_state

router = APIRouter()
RUN_STATES = ("queued", "running", "success", "failed")
TASK_STATES = (
    "no_status", "removed", "scheduled", "queued", "running", "success", "restarting", "failed", "up_for_retry",
    "up_for_reschedule", "upstream_failed", "skipped", "deferred", "awaiting_input",
)  # fmt: skip


@router.get("/ui/dashboard/dag_stats")
async def get_dag_counts(client: Source) -> dict[str, int]:
    """How many DAGs there are by their state."""
    rows = [row for row in await client.rows() if not row.is_stale]
    return {
        "active_dag_count": sum(not row.is_paused for row in rows),
        "failed_dag_count": sum(row.last_state == "failed" for row in rows),
        "running_dag_count": sum(row.active_runs > 0 for row in rows),
        "queued_dag_count": sum(row.queued_runs > 0 for row in rows),
    }


@router.get("/ui/dashboard/historical_metrics_data")
async def get_history(client: Source, start_date: str, end_date: str | None = None) -> dict[str, Any]:
    """How many runs, and instances of tasks, there were of each state."""
    start, end = _moment("start_date", start_date), _moment("end_date", end_date)
    rows = await client.all_runs()
    runs: Counter[str] = Counter()
    tasks: Counter[str] = Counter()
    for row in rows:
        if row.run_after is None or not start <= row.run_after <= end:
            continue
        runs[str(row.state)] += 1
        for state, n in row.counts.items():
            tasks[shown_state(TaskState(state)) or "no_status"] += n
    runs["queued"] += sum(row.queued_runs for row in await client.rows())
    return {
        "dag_run_states": {state: runs[state] for state in RUN_STATES},
        "task_instance_states": {state: tasks[state] for state in TASK_STATES},
        "dag_run_counts_are_lower_bounds": len(rows) >= MAX_RUNS,
        "task_instance_counts_are_lower_bounds": len(rows) >= MAX_RUNS,
    }


def _moment(name: str, text: str | None) -> datetime:
    """*text* as a moment; without an offset it is UTC, and none is now."""
    if not text:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(f"{name} = {text[:40]!r} is no date. Write it as 2026-01-31T00:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


@router.get("/api/v2/dagStats")
async def get_dag_stats(client: Source, dag_ids: Annotated[list[str], Query()] = []) -> dict[str, Any]:  # noqa: B006
    """How many runs each DAG has of each state, among those that it keeps a list of."""
    rows = {row.dag_id: row for row in await client.rows()}
    # Without names: those that have runs, as in Airflow.
    wanted = dag_ids or [dag_id for dag_id, row in rows.items() if row.newest_run is not None]

    async def answer(row: DagRow) -> dict[str, Any]:
        runs = await client.runs_of_row(row)
        counts = Counter(str(run.state) for run in runs)
        stats = [{"state": state, "count": counts[state]} for state in RUN_STATES]
        return {"dag_id": row.dag_id, "dag_display_name": row.display_name, "stats": stats}

    found = await each([rows[dag_id] for dag_id in wanted if dag_id in rows], answer)
    return {"dags": found, "total_entries": len(found)}
