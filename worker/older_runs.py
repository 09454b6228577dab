"""Runs that are older than what their DAG keeps a list of: Temporal knows them as long as it keeps their history."""

from __future__ import annotations

from temporalio.client import Client

from ..model.run.identity import RunType
from ..model.run.views import RunView
from .listing import run_row, runs_of_dag


async def older_run(client: Client, dag_id: str, run_id: str) -> RunView | None:
    """A run of the DAG that Temporal knows by its run_id, also where the DAG itself has forgotten it."""
    async for found in runs_of_dag(client, dag_id, ' AND ExecutionStatus != "ContinuedAsNew"'):
        if (await found.memo()).get("run_id") == run_id:
            row = await run_row(found)
            begun = row.run_after or found.start_time
            return RunView(
                run_id=run_id,
                run_type=RunType(row.run_type or RunType.MANUAL),
                state=row.state,
                logical_date=row.logical_date,
                run_after=begun,
                queued_at=begun,
                started_at=row.started_at,
                ended_at=row.ended_at,
                reason=row.reason or None,
                triggered_by=row.triggered_by or None,
                triggering_user_name=row.triggering_user_name or None,
                workflow_id=found.id,
            )
    return None
