"""Replays for pages: one at a time, and no page waits for ever."""

import asyncio

from temporalio.client import Client

from ...model.errors import InvalidInputError
from ...model.replay.steps import Step
from ...worker.pictures.replay import replayed

MAX_EVENTS = 5000
"""Of a history that is replayed for a page."""


class Replays:
    """Those of one web server."""

    def __init__(self, turn_timeout: float = 30, answer_timeout: float = 60) -> None:
        self.turn_timeout, self.answer_timeout = turn_timeout, answer_timeout
        """How long a page waits for its turn, and then for its answer, in seconds."""
        self._turn = asyncio.Semaphore(1)
        self._under_way: set[asyncio.Task[list[Step]]] = set()
        """A thread cannot be ended: a replay that a page waits for no more still has its turn until it is done."""

    async def of(self, client: Client, workflow_id: str) -> list[Step]:
        """The steps of a workflow. Raises InvalidInputError for a history that is too long, or takes too long."""
        try:
            async with asyncio.timeout(self.turn_timeout):
                await self._turn.acquire()
        except TimeoutError:
            raise InvalidInputError(
                "other pages have decisions replayed: try again, or use `tidemill replay`"
            ) from None
        replay = asyncio.create_task(self._in_turn(client, workflow_id))
        self._under_way.add(replay)
        replay.add_done_callback(self._under_way.discard)
        try:
            async with asyncio.timeout(self.answer_timeout):
                return await asyncio.shield(replay)
        except TimeoutError:
            raise InvalidInputError("its history takes long to replay: use `tidemill replay`") from None

    async def _in_turn(self, client: Client, workflow_id: str) -> list[Step]:
        try:
            return await replayed(client, workflow_id, max_events=MAX_EVENTS)
        finally:
            self._turn.release()
