"""Sees that the service's store was brought back from a copy, which lacks what came after the copy.

A worker keeps workflows in memory. Where the service has gone back, it is ahead of their histories: Temporal's SDK
takes each event that comes for one it has seen, and answers that there is nothing to do. So the executions that it has
in memory are compared with the service now and then, and those that are ahead are dropped and repaired.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker
from temporalio.workflow import Info

from ...model.run.planner import listing
from .repair import repair, standing_among

LOOKS_EVERY = 10.0
LATEST = 5
"""So many executions are compared each time: those that had something to do last, which a store that goes back loses
first. All are, where one of them is ahead."""
AT_A_TIME = 16
EVICTION_PAUSE = 2.0
SURE_AFTER = 1.0
ANSWER_TIMEOUT = timedelta(seconds=10)

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
        """An activation has come; see listening_runner.Listener.

        Updates and queries say nothing: they may come with a workflow task that the service does not keep.
        """
        if any(job.HasField("remove_from_cache") for job in act.jobs):
            self._cached.pop(act.run_id, None)
        elif not any(job.HasField("do_update") or job.HasField("query_workflow") for job in act.jobs):
            self._cached.pop(act.run_id, None)
            self._cached[act.run_id] = Cached(info.workflow_id, act.run_id, act.history_length)

    def has(self, cached: Cached) -> bool:
        """Whether it is still to be compared."""
        return cached.run_id in self._cached

    def forget(self, cached: Cached) -> None:
        """It is nothing to compare any more."""
        self._cached.pop(cached.run_id, None)

    def latest(self, limit: int | None = None) -> list[Cached]:
        """The last *limit* that were active, all by default; last first."""
        return list(self._cached.values())[::-1][:limit]


class StoreWatch:
    """Drops what *worker* has in memory of a history that the service no longer has, and repairs what came of it."""

    def __init__(self, worker: Worker, cached: CachedWorkflows) -> None:
        self._worker, self._cached = worker, cached
        self._to_repair: set[str] = set()

    async def run(self) -> None:
        """Looks now and then, until it is cancelled; whatever goes wrong is tried again."""
        while True:
            await asyncio.sleep(LOOKS_EVERY)
            try:
                await self.look()
            except RPCError as error:  # the service is away
                log.debug("the service could not be compared with what is in memory: %s", error)
            except Exception as error:
                log.warning("the service could not be compared with what is in memory: %s; trying again", error)

    async def look(self) -> None:
        """Compares once, and repairs what was found, now or before. Raises RPCError where the service is away."""
        if await self._is_ahead():
            self._drop(await self._ahead(self._cached.latest()))
            await asyncio.sleep(EVICTION_PAUSE)
        if self._to_repair:
            for found in await standing_among(self._worker.client, sorted(self._to_repair)):
                await repair(self._worker.client, found)
            self._to_repair.clear()

    async def _is_ahead(self) -> bool:
        """Whether one of the last is, of those that the service knows: runs of a lost future are known to nobody."""
        while latest := self._cached.latest(LATEST):
            if await self._ahead(latest):
                return True
            if all(map(self._cached.has, latest)):
                break
        return False

    def _drop(self, ahead: list[Cached]) -> None:
        self._to_repair |= {cached.workflow_id for cached in ahead}
        log.warning(
            "the service's store has gone back: %d workflows of this worker are ahead of it (%s). They are dropped "
            "from memory and repaired; what workers that have ended meanwhile had: tidemill doctor --repair",
            len(ahead),
            listing(sorted(self._to_repair)),
        )
        for cached in ahead:
            self._evict(cached)

    def _evict(self, cached: Cached) -> None:
        self._cached.forget(cached)
        bridge = self._worker._bridge_worker  # the SDK has no public way to it
        if bridge._ref is not None:  # None: the worker has ended, and has dropped all
            bridge.request_workflow_eviction(cached.run_id)

    async def _ahead(self, cached: Iterable[Cached]) -> list[Cached]:
        """Those of *cached* that are ahead of the service, asked twice: the first answer may cross their next task.

        What the service does not know any more, as a DAG that was deleted, is dropped, and says nothing.
        """
        suspects = await self._compared(cached)
        if suspects:
            await asyncio.sleep(SURE_AFTER)
        return await self._compared(suspects) if suspects else []

    async def _compared(self, cached: Iterable[Cached]) -> list[Cached]:
        at_a_time = asyncio.Semaphore(AT_A_TIME)

        async def compare(one: Cached) -> bool:
            async with at_a_time:
                events = await _events_of(self._worker.client, one)
            if events is None:
                self._evict(one)
            return events is not None and events < one.events

        each = [*cached]
        are_ahead = await asyncio.gather(*map(compare, each))
        return [one for one, ahead in zip(each, are_ahead, strict=True) if ahead]


async def _events_of(client: Client, cached: Cached) -> int | None:
    """How many events the service has of the execution; None where it does not know it."""
    handle = client.get_workflow_handle(cached.workflow_id, run_id=cached.run_id)
    try:
        return (await handle.describe(rpc_timeout=ANSWER_TIMEOUT)).history_length
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
