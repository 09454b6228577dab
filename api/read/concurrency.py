"""Asks for many things at a time, of which none may keep the others from being shown."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from temporalio.service import RPCError

from ...model.errors import InvalidInputError
from ...worker.service.connection import NotFoundError, NoWorkerError
from .database import ArchiveError

Item = TypeVar("Item")
Answer = TypeVar("Answer")
AT_ONCE = 20
PATIENCE = 3.0
"""How long it waits for one answer, in seconds."""
LONGEST = 10.0
"""How long it waits for all of them."""
LEAST = 0.05
SILENT = (ArchiveError, NoWorkerError, InvalidInputError, RPCError, TimeoutError)
"""What is raised where nobody answers in time."""


async def after_change(reading: Awaitable[Answer], otherwise: Callable[[], Answer]) -> Answer:
    """Returns what *reading* answers of what has just been changed, or *otherwise* where nobody answers.

    A change that is made is never answered as one that has failed: who is told so makes it again.
    """
    try:
        return await reading
    except (NotFoundError, *SILENT):
        return otherwise()


async def each(
    items: Sequence[Item],
    ask: Callable[[Item], Awaitable[Answer | None]],
    otherwise: Callable[[Item], Awaitable[Answer]] | None = None,
) -> list[Answer]:
    """What is answered of each item, in their order; of a silent one what *otherwise* makes of it.

    What is gone meanwhile is left out, as is what is silent where there is no *otherwise*.
    """
    room, until = asyncio.Semaphore(AT_ONCE), asyncio.get_running_loop().time() + LONGEST

    async def one(item: Item) -> Answer | None:
        async with room:
            left = until - asyncio.get_running_loop().time()
            try:
                return await asyncio.wait_for(ask(item), max(LEAST, min(PATIENCE, left)))
            except NotFoundError:
                return None
            except SILENT:
                return await otherwise(item) if otherwise is not None else None

    return [found for found in await asyncio.gather(*map(one, items)) if found is not None]
