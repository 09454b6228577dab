"""Answers that are held for a moment: who asks meanwhile shares them, and the question is asked once."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")
MAX_ENTRIES = 5000
PATIENCE = 0.2
"""In seconds."""
LONGEST = 60.0
"""How long a question may take, in seconds: who asks meanwhile waits for the same one."""


class Cache:
    """By key, an answer and until when it holds. The oldest go first."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._held: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._pending: dict[Hashable, asyncio.Task[Any]] = {}

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[T]], seconds: float, stale: float = 0) -> T:
        """The answer for *key*: held, on its way, or asked for now. Whatever the question raises is not held.

        One that is older than *seconds*, and not than *stale* seconds more, is given where asking anew takes more than
        `PATIENCE`: nobody waits for a question that takes long, and what was not looked at for a while is new.
        """
        found, now = self._held.get(key), time.monotonic()
        if found is not None and found[0] > now:
            answer: T = found[1]
            return answer
        if key not in self._pending:
            self._pending[key] = asyncio.ensure_future(self._ask(key, ask, seconds))
        if found is not None and found[0] + stale > now:
            request = self._pending[key]
            request.add_done_callback(lambda task: task.cancelled() or task.exception())
            await asyncio.wait([request], timeout=PATIENCE)
            answered = request.done() and not request.cancelled() and request.exception() is None
            current: T = request.result() if answered else found[1]
            return current
        shared: T = await asyncio.shield(self._pending[key])
        return shared

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[T]], seconds: float) -> T:
        me = asyncio.current_task()
        try:
            answer = await asyncio.wait_for(ask(), LONGEST)
        finally:
            current = self._pending.get(key) is me
            if current:
                del self._pending[key]
        if not current:  # somebody has changed what it is about meanwhile
            return answer
        self._held[key] = (time.monotonic() + seconds, answer)
        self._held.move_to_end(key)
        while len(self._held) > self._max_entries:
            self._held.popitem(last=False)
        return answer

    def forget(self, *prefix: Hashable) -> None:
        """Drops what is held, and what is being asked, for keys that begin so: somebody has just changed it."""
        for known in (self._held, self._pending):
            for key in [*known]:
                if isinstance(key, tuple) and key[: len(prefix)] == prefix:
                    del known[key]
