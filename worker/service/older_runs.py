"""Runs that are older than what their DAG keeps a list of: Temporal knows them as long as it keeps their history."""

from __future__ import annotations

from temporalio.client import Client

from ...model.run.views import RunView
from .listing import run_row, runs_of_dag


async def older_run(client: Client, dag_id: str, run_id: str) -> RunView | None:
    """A run of the DAG that Temporal knows by its run_id, also where the DAG itself has forgotten it."""
    async for found in runs_of_dag(client, dag_id, ' AND ExecutionStatus != "ContinuedAsNew"'):
        if (await found.memo()).get("run_id") == run_id:
            return RunView.of_row((await run_row(found)).model_copy(update={"run_id": run_id}), found.start_time)
    return None
