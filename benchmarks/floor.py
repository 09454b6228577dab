"""The floor: the same shapes as plain Temporal workflows, written by hand, without anything of tidemill."""

import asyncio
from datetime import datetime, timedelta

from temporalio import activity, workflow


@activity.defn(name="floor.noop")
async def noop(_: int) -> None:
    """Nothing."""


@workflow.defn(name="FloorChain")
class FloorChain:
    """One activity after another."""

    @workflow.run
    async def run(self, n: int) -> None:
        for i in range(n):
            await workflow.execute_activity(noop, i, start_to_close_timeout=timedelta(minutes=1))


@workflow.defn(name="FloorFan")
class FloorFan:
    """Activities all at once, between a first and a last."""

    @workflow.run
    async def run(self, n: int) -> None:
        await workflow.execute_activity(noop, 0, start_to_close_timeout=timedelta(minutes=1))
        await asyncio.gather(
            *(workflow.execute_activity(noop, i, start_to_close_timeout=timedelta(minutes=1)) for i in range(n))
        )
        await workflow.execute_activity(noop, 0, start_to_close_timeout=timedelta(minutes=1))


@workflow.defn(name="FloorChains")
class FloorChains:
    """Chains of a hundred, all at once."""

    @workflow.run
    async def run(self, n: int) -> None:
        name = workflow.info().workflow_id
        await asyncio.gather(
            *(workflow.execute_child_workflow(FloorChain.run, 100, id=f"{name}-{i}") for i in range(n))
        )


@workflow.defn(name="FloorOne")
class FloorOne:
    """A run of nothing: when it began, in seconds after *due*."""

    @workflow.run
    async def run(self, due: str) -> float:
        return (workflow.now() - datetime.fromisoformat(due)).total_seconds()


@workflow.defn(name="FloorDue")
class FloorDue:
    """Sleeps until it is due, then starts a child."""

    @workflow.run
    async def run(self, due: str) -> float:
        await workflow.sleep(datetime.fromisoformat(due) - workflow.now())
        return await workflow.execute_child_workflow(FloorOne.run, due, id=f"{workflow.info().workflow_id}-run")


@workflow.defn(name="FloorCatchUp")
class FloorCatchUp:
    """Children, 16 at once."""

    @workflow.run
    async def run(self, n: int) -> None:
        free = asyncio.Semaphore(16)

        async def one(i: int) -> None:
            async with free:
                name = f"{workflow.info().workflow_id}-{i}"
                await workflow.execute_child_workflow(FloorOne.run, workflow.now().isoformat(), id=name)

        await asyncio.gather(*(one(i) for i in range(n)))
