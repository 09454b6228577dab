"""The floor: the same shapes as plain Temporal workflows, written by hand, without anything of tidemill."""

import asyncio
from datetime import timedelta

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
