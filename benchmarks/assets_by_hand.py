"""What `assets` measures, written by hand in plain Temporal: the floor below it.

A producer's run ends and signals the workflow of its asset, which signals the workflow that waits, which starts a run.
"""

import asyncio
import uuid
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

ROUNDS = 30


@workflow.defn(name="ByHandRun", sandboxed=False)
class Run:
    @workflow.run
    async def run(self, asset: str | None) -> float:
        """A run whose only step is done at once; it tells *asset*. When it began, in seconds since 1970."""
        now = workflow.time()
        if asset is not None:
            await workflow.get_external_workflow_handle(asset).signal("tell", now)
        return now


@workflow.defn(name="ByHandAsset", sandboxed=False)
class Asset:
    def __init__(self) -> None:
        self.events: list[float] = []

    @workflow.run
    async def run(self, consumer: str) -> None:
        while True:
            await workflow.wait_condition(lambda: bool(self.events))
            await workflow.get_external_workflow_handle(consumer).signal("tell", self.events.pop(0))

    @workflow.signal
    def tell(self, event: float) -> None:
        self.events.append(event)


@workflow.defn(name="ByHandDag", sandboxed=False)
class Dag:
    def __init__(self) -> None:
        self.events: list[float] = []
        self.took: list[float] = []

    @workflow.run
    async def run(self) -> None:
        while True:
            await workflow.wait_condition(lambda: bool(self.events))
            told = self.events.pop(0)
            began = await workflow.execute_child_workflow(Run.run, None, id=f"{workflow.info().workflow_id}-{told}")
            self.took.append(began - told)

    @workflow.signal
    def tell(self, event: float) -> None:
        self.events.append(event)

    @workflow.query
    def seconds(self) -> list[float]:
        return self.took


async def by_hand(client: Client) -> float:
    """From a producer's end to the consumer's start, in milliseconds: the median."""
    tag = uuid.uuid4().hex[:6]
    dag_id, asset_id, queue = f"by-hand-dag-{tag}", f"by-hand-asset-{tag}", f"by-hand-{tag}"
    with ThreadPoolExecutor(1) as threads:
        async with Worker(client, task_queue=queue, workflows=[Run, Asset, Dag], activity_executor=threads):
            dag = await client.start_workflow(Dag.run, id=dag_id, task_queue=queue)
            asset = await client.start_workflow(Asset.run, dag_id, id=asset_id, task_queue=queue)
            for number in range(ROUNDS):
                await client.execute_workflow(Run.run, asset_id, id=f"by-hand-run-{tag}-{number}", task_queue=queue)
                while len(await dag.query(Dag.seconds)) <= number:  # noqa: ASYNC110 - it is asked over the network
                    await asyncio.sleep(0.02)
            took = await dag.query(Dag.seconds)
            await dag.terminate()
            await asset.terminate()
    return 1000 * median(took)
