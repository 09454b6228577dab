"""Questions to workflows: patient with a server that is busy, and asked once for all who want the same at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

T = TypeVar("T")
ANSWERED_WITHIN = timedelta(seconds=5)
BUSY = (
    RPCStatusCode.RESOURCE_EXHAUSTED,  # a workflow with work of its own holds back one query only
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.FAILED_PRECONDITION,  # no worker polls, as while the only one is replaced
)


def is_busy(error: BaseException) -> bool:
    """Whether the same question may be answered a little later."""
    return isinstance(error, RPCError) and error.status in BUSY


class Shared:
    """Work that who wants the same shares: one that is under way serves nobody else, the one after it all others."""

    def __init__(self) -> None:
        self._next: dict[str, asyncio.Task[Any]] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def done(self, key: str, work: Callable[[], Awaitable[T]]) -> T:
        """The result of *work*, or of that of another caller with the same *key* that has begun after this call."""
        if (shared := self._next.get(key)) is None:
            turn = self._turns.setdefault(key, asyncio.Lock())
            shared = self._next[key] = asyncio.create_task(self._in_turn(key, turn, work))
            shared.add_done_callback(lambda done: done.cancelled() or done.exception())  # perhaps nobody waits any more
        return cast("T", await asyncio.shield(shared))

    async def _in_turn(self, key: str, turn: asyncio.Lock, work: Callable[[], Awaitable[T]]) -> T:
        async with turn:
            self._next.pop(key)
            return await work()


@dataclass(frozen=True)
class Asking:
    """Asks workflows with the worker's client."""

    client: Client
    patience: timedelta
    """So long a workflow is asked again that is too busy to answer."""
    _shared: Shared = field(default_factory=Shared)

    async def query(self, workflow_id: str, name: str, kind: type[T], *arguments: Any) -> T:
        """The answer to a query. Raises RPCError; NOT_FOUND where there is no such workflow."""

        async def asked() -> T:
            handle = self.client.get_workflow_handle(workflow_id)
            return cast("T", await handle.query(name, args=arguments, result_type=kind, rpc_timeout=ANSWERED_WITHIN))

        again = AsyncRetrying(
            retry=retry_if_exception(is_busy),
            stop=stop_after_delay(self.patience),
            wait=wait_random_exponential(multiplier=0.1, max=2),
            reraise=True,
        )
        return await self._shared.done(f"{workflow_id} {name} {arguments}", lambda: again(asked))
