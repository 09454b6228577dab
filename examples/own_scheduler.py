"""A scheduler of your own: a Temporal workflow that decides when a DAG runs, beside any schedule the DAG has.

    python examples/own_scheduler.py

It makes a run for each working day of a list, one after the other, and skips the holidays. The workflow needs nothing
of tidemill: it signals the DAG's workflow, in plain JSON, as a workflow in any language can. Needs a Temporal service:
`temporal server start-dev`, or `tidemill dev FOLDER` in another terminal.
"""

import asyncio
import uuid
from datetime import date

from temporalio import workflow
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker
from tidemill.model.spec.dag import read_dag
from tidemill.model.states import RunState
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin

HOLIDAYS = {"2025-12-24", "2025-12-25"}


@workflow.defn
class WorkingDays:
    """Asks for a run of a DAG for each day that is neither at a weekend nor a holiday. Returns these days."""

    @workflow.run
    async def run(self, dag_id: str, days: list[str]) -> list[str]:
        working = [day for day in days if day not in HOLIDAYS and date.fromisoformat(day).weekday() < 5]
        dag = workflow.get_external_workflow_handle(f"dag:{dag_id}")
        for day in working:
            # Asked for twice, as after a failure of your own, the second has no effect: the date is taken.
            await dag.signal("trigger", {"logical_date": f"{day}T00:00:00Z", "run_id": f"working_day__{day}"})
        return working


async def main() -> None:
    config = ClientConfig.load_client_connect_config()
    config.setdefault("target_host", "localhost:7233")
    client = await Client.connect(**config, plugins=[TidemillPlugin()])
    queue = f"calendar-{uuid.uuid4()}"
    async with Worker(client, task_queue=queue, workflows=[WorkingDays]):
        tidemill = Tidemill(client, task_queue=queue)
        task = {"kind": "bash", "task_id": "report", "command": "echo the report of {{ ds }}"}
        await tidemill.dags.register(read_dag({"dag_id": queue, "tasks": [task]}))
        days = [f"2025-12-{day}" for day in range(23, 29)]
        asked = await client.execute_workflow(WorkingDays.run, args=[queue, days], id=queue, task_queue=queue)
        for run in await _ended(tidemill, queue, len(asked)):
            print(*run)
        await client.get_workflow_handle(f"dag:{queue}").terminate("the example is over")


async def _ended(tidemill: Tidemill, dag_id: str, n: int) -> list[tuple[str, RunState]]:
    """The DAG's runs with their ends, by date, when *n* have ended."""
    while True:
        runs = [view for view in await tidemill.runs.list(dag_id) if view.state.finished]
        if len(runs) == n:
            for view in runs:  # who ends the worker now leaves no run that has still to close
                await tidemill.client.get_workflow_handle(view.workflow_id).result()
            return sorted((view.run_id, view.state) for view in runs)
        await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(main())
