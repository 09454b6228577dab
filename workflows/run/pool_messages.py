"""What a run sends to pools: one message to a pool at a time, with all that has come up meanwhile.

The server delivers messages to one workflow one after another; of many at once, most wait a second for their turn.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

from ...model.interfaces.calls import Signal
from ...model.pool.state import LeaseRequest
from ..calls import send

PER_MESSAGE = 1000
"""How many requests one message to a pool may have."""

Asking = Callable[[str, Sequence[LeaseRequest]], Coroutine[Any, Any, None]]
Delivered = Callable[[str, Signal[[list[Any]]], Sequence[Any]], None]


class PoolMessages:
    """What is on its way to pools, and what goes with the next message."""

    def __init__(self, ask: Asking, delivered: Delivered) -> None:
        """*delivered* hears of each message that a pool has got."""
        self._ask = ask
        self._delivered = delivered
        self._requests: dict[str, list[LeaseRequest]] = {}
        self._messages: dict[str, dict[Signal[[list[Any]]], list[Any]]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._telling: dict[str, asyncio.Task[None]] = {}

    def ask(self, pool: str, requests: Sequence[LeaseRequest]) -> None:
        """Asks *pool* to let instances in."""
        self._requests.setdefault(pool, []).extend(requests)
        if pool not in self._asking:
            self._asking[pool] = asyncio.create_task(self._ask_all(pool))

    def tell(self, pool: str, message: Signal[[list[Any]]], leases: Sequence[Any]) -> None:
        """Tells *pool* that leases are given back, parked, or passed on."""
        self._messages.setdefault(pool, {}).setdefault(message, []).extend(leases)
        if pool not in self._telling:
            self._telling[pool] = asyncio.create_task(self._tell_all(pool))

    @property
    def telling(self) -> bool:
        """Whether something is on its way that pools have to know before the workflow closes."""
        return bool(self._telling)

    async def all_sent(self) -> None:
        """Waits for what is on its way: a workflow that closes takes its undelivered messages with it."""
        await workflow.wait_condition(lambda: not self.telling)

    async def _ask_all(self, pool: str) -> None:
        try:
            while requests := self._requests.pop(pool, []):
                for part in range(0, len(requests), PER_MESSAGE):
                    await self._ask(pool, requests[part : part + PER_MESSAGE])
        finally:  # whoever asks next begins anew
            del self._asking[pool]

    async def _tell_all(self, pool: str) -> None:
        try:
            while messages := self._messages.pop(pool, {}):
                for message, leases in messages.items():
                    await _tell(pool, message, leases)
                    self._delivered(pool, message, leases)
        finally:  # a run that ends waits until nothing is on its way
            del self._telling[pool]


async def _tell(pool: str, message: Signal[[list[Any]]], leases: Sequence[Any]) -> None:
    try:
        await send(workflow.get_external_workflow_handle(pool), message([*leases]))
    except FailureError:
        workflow.logger.warning("%s is gone; %s of %s is not told", pool, message.name, leases)
