"""One question of a kind at a time: those who ask meanwhile share the next one.

The Temporal service holds one query for a workflow that is busy, and refuses others ("query buffer is full").
Nobody gets an answer to a question that was put before they asked: who has just changed something sees it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class SingleFlight:
    """The questions under way, by their key and event loop."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Any]] = {}
        self._next: dict[Hashable, asyncio.Task[Any]] = {}

    async def ask(self, key: Hashable, question: Callable[[], Awaitable[T]]) -> T:
        """Returns what *question* answers, or raises what it raises, put by whoever is the first of those who wait.

        Who is cancelled leaves the question to the others.
        """
        key = (asyncio.get_running_loop(), key)
        running = self._running.get(key)
        if running is None:
            shared = self._begin(key, question)
        elif key in self._next:
            shared = self._next[key]
        else:
            shared = self._next[key] = asyncio.ensure_future(self._after(running, key, question))
            shared.add_done_callback(_known)
        answer: T = await asyncio.shield(shared)
        return answer

    async def _after(self, running: asyncio.Task[Any], key: Hashable, question: Callable[[], Awaitable[T]]) -> T:
        await asyncio.wait([running])
        del self._next[key]
        return await self._begin(key, question)

    def _begin(self, key: Hashable, question: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
        begun = self._running[key] = asyncio.ensure_future(question())

        def end(task: asyncio.Task[T]) -> None:
            if self._running.get(key) is task:
                del self._running[key]
            _known(task)

        begun.add_done_callback(end)
        return begun


def _known(task: asyncio.Task[Any]) -> None:
    """What it has raised is known to those who asked, if they are still there."""
    if not task.cancelled():
        task.exception()
