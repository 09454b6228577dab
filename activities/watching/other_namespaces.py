"""Events of assets of other namespaces of the same Temporal server."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError

from ...model.asset.events import AssetEvent
from ...model.asset.state import asset_workflow_id
from ...model.asset.watching import PAGE, Sighting, WatchAnswer
from ...model.errors import InvalidInputError
from ...model.interfaces.asset import AssetInterface
from ...model.spec.assets.watchers import AssetTrigger
from ..calling import query

TIMEOUT = timedelta(seconds=20)


@dataclass(frozen=True)
class OtherNamespaces:
    """The worker's client, and the loop that it lives in."""

    client: Client
    loop: asyncio.AbstractEventLoop

    def look(self, trigger: AssetTrigger, position: Any) -> WatchAnswer:
        """The events of an asset after the one whose cause is *position*. Raises InvalidInputError if it is mute."""
        pending = asyncio.run_coroutine_threadsafe(self._events(trigger), self.loop)
        try:
            events = pending.result(2 * TIMEOUT.total_seconds())
        finally:
            pending.cancel()
        causes = [event.cause for event in events]
        behind = causes.index(position) + 1 if position in causes else 0
        new = events[behind : behind + PAGE]
        if not new:
            return WatchAnswer()
        found = tuple(_sighting(trigger, event) for event in new)
        gap = None
        if position is not None and position not in causes:
            gap = f"events of {trigger.namespace} before {new[0].timestamp:%Y-%m-%d %H:%M:%S} UTC may have been missed"
        return WatchAnswer(found=found, position=new[-1].cause, gap=gap)

    async def _events(self, trigger: AssetTrigger) -> list[AssetEvent]:
        there = Client(
            self.client.service_client, namespace=trigger.namespace, data_converter=self.client.data_converter
        )
        handle = there.get_workflow_handle(asset_workflow_id(trigger.name))
        try:
            return await query(handle, AssetInterface.events(), rpc_timeout=TIMEOUT)
        except RPCError as error:
            raise InvalidInputError(
                f"asset {trigger.name!r} of namespace {trigger.namespace!r} does not answer: {error.message}"
            ) from None


def _sighting(trigger: AssetTrigger, event: AssetEvent) -> Sighting:
    payload = {
        "extra": event.extra,
        "timestamp": event.timestamp.isoformat(),
        "source_dag_id": event.source_dag_id,
        "source_run_id": event.source_run_id,
    }
    return Sighting(key=f"{trigger.namespace} {event.cause}", payload=payload, partition_key=event.partition_key)
