"""Tidemill inside a Temporal worker of your own, beside a workflow that has nothing to do with it.

    python examples/plugin.py

Needs a Temporal service: `temporal server start-dev`, or `tidemill dev FOLDER` in another terminal.
"""

import asyncio
import uuid
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.worker import Worker
from tidemill.model.spec.dag import read_dag
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin


@activity.defn
async def greet(name: str) -> str:
    return f"Hello, {name}"


@workflow.defn
class Greeting:
    """A workflow of yours."""

    @workflow.run
    async def run(self, name: str) -> str:
        return await workflow.execute_activity(greet, name, start_to_close_timeout=timedelta(seconds=10))


async def main() -> None:
    config = ClientConfig.load_client_connect_config()
    # The plugin goes to the client: its workers get it from there, and both speak the same JSON.
    config.setdefault("target_host", "localhost:7233")
    client = await Client.connect(**config, plugins=[TidemillPlugin()])
    queue = f"mine-{uuid.uuid4()}"
    async with Worker(client, task_queue=queue, workflows=[Greeting], activities=[greet]):
        print(await client.execute_workflow(Greeting.run, "Temporal", id=queue, task_queue=queue))

        tidemill = Tidemill(client, task_queue=queue)
        task = {"kind": "bash", "task_id": "hello", "command": "echo Hello from {{ run_id }}"}
        await tidemill.dags.register(read_dag({"dag_id": queue, "tasks": [task]}))
        run = await tidemill.runs.trigger(queue)
        print(run.run_id, await tidemill.runs.wait(run))
        await client.get_workflow_handle(f"dag:{queue}").terminate("the example is over")


if __name__ == "__main__":
    asyncio.run(main())
