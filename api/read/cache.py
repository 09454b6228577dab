"""Answers that are held for a moment: who asks meanwhile shares them, and the question is asked once."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")
MOST = 5000


class Cache:
    """By key, an answer and until when it holds. The oldest go first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._held: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._asked: dict[Hashable, asyncio.Task[Any]] = {}

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[T]], seconds: float) -> T:
        """The answer for *key*: held, on its way, or asked for now. Whatever the question raises is not held."""
        found = self._held.get(key)
        if found is not None and found[0] > time.monotonic():
            answer: T = found[1]
            return answer
        if key not in self._asked:
            self._asked[key] = asyncio.ensure_future(self._ask(key, ask, seconds))
        shared: T = await asyncio.shield(self._asked[key])
        return shared

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[T]], seconds: float) -> T:
        try:
            answer = await ask()
        finally:
            self._asked.pop(key, None)
        self._held[key] = (time.monotonic() + seconds, answer)
        self._held.move_to_end(key)
        while len(self._held) > self._most:
            self._held.popitem(last=False)
        return answer

    def forget(self, *prefix: Hashable) -> None:
        """Drops what is held for keys that begin so, which somebody has just changed."""
        for key in [*self._held]:
            if isinstance(key, tuple) and key[: len(prefix)] == prefix:
                del self._held[key]
