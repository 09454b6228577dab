"""Sees that the service's store was brought back from a copy, which lacks what came after the copy.

A worker keeps workflows in memory. Where the service has gone back, it is ahead of their histories: Temporal's SDK
takes each event that comes for one it has seen, and answers that there is nothing to do. So the executions that it has
in memory are compared with the service now and then, and those that are ahead are dropped and repaired.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker
from temporalio.workflow import Info

from ..model.run.planner import listing
from .repair import repair, standing_among

LOOKS_EVERY = 10.0
LATEST = 5
"""So many executions are compared each time: those that had something to do last, which a store that goes back loses
first. All are, where one of them is ahead."""
AT_A_TIME = 16
DROPPED_WITHIN = 2.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cached:
    """An execution in a worker's memory, and how many events of its history it has seen."""

    workflow_id: str
    run_id: str
    events: int


class CachedWorkflows:
    """The executions that the workers of a process have in memory."""

    def __init__(self) -> None:
        self._cached: dict[str, Cached] = {}

    def hear(self, info: Info, act: WorkflowActivation, _: WorkflowActivationCompletion) -> None:
        """An activation has come; see listening_runner.Listener."""
        before = self._cached.pop(act.run_id, None)
        if any(job.HasField("remove_from_cache") for job in act.jobs):
            return
        events = max(act.history_length, before.events if before is not None else 0)
        self._cached[act.run_id] = Cached(info.workflow_id, act.run_id, events)

    def latest(self, most: int | None = None) -> list[Cached]:
        """The last *most* that were active, all by default; last first."""
        return list(self._cached.values())[::-1][:most]


class StoreWatch:
    """Drops what *worker* has in memory of a history that the service no longer has, and repairs what came of it."""

    def __init__(self, worker: Worker, cached: CachedWorkflows) -> None:
        self._worker, self._cached = worker, cached

    async def run(self) -> None:
        """Looks now and then, until it is cancelled."""
        while True:
            await asyncio.sleep(LOOKS_EVERY)
            try:
                await self.look()
            except (RPCError, RuntimeError) as error:  # the service is away, or does not let itself be asked
                log.debug("the service could not be compared with what is in memory: %s", error)

    async def look(self) -> list[Cached]:
        """Compares once; what was ahead. Raises RPCError where the service cannot be asked."""
        if not await self._ahead(self._cached.latest(LATEST)):
            return []
        ahead = await self._ahead(self._cached.latest())
        ids = sorted({cached.workflow_id for cached in ahead})
        log.warning(
            "the service's store has gone back: %d workflows of this worker are ahead of it (%s). They are dropped "
            "from memory and repaired; what workers that have ended meanwhile had: tidemill doctor --repair",
            len(ahead),
            listing(ids),
        )
        for cached in ahead:  # the SDK has no public way to it
            self._worker._bridge_worker.request_workflow_eviction(cached.run_id)
        await asyncio.sleep(DROPPED_WITHIN)
        for found in await standing_among(self._worker.client, ids):
            await repair(self._worker.client, found)
        return ahead

    async def _ahead(self, cached: Iterable[Cached]) -> list[Cached]:
        at_a_time = asyncio.Semaphore(AT_A_TIME)

        async def compare(one: Cached) -> Cached | None:
            async with at_a_time:
                return one if await _events_of(self._worker.client, one) < one.events else None

        return [one for one in await asyncio.gather(*map(compare, cached)) if one is not None]


async def _events_of(client: Client, cached: Cached) -> int:
    """How many events the service has of the execution; none where it does not know it."""
    try:
        return (await client.get_workflow_handle(cached.workflow_id, run_id=cached.run_id).describe()).history_length
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return 0
        raise
