"""Replays for pages: one at a time, and no page waits for ever."""

import asyncio

from temporalio.client import Client

from ...model.errors import InvalidInputError
from ...model.replay.steps import Step
from ...worker.replay import replayed

MOST_EVENTS = 5000
"""Of a history that is replayed for a page."""
TURN_WITHIN_SECONDS = 30
ANSWER_WITHIN_SECONDS = 60
ONE_AT_A_TIME = asyncio.Semaphore(1)
UNDER_WAY: set[asyncio.Task[list[Step]]] = set()
"""A thread cannot be ended: a replay that a page waits for no more still has its turn until it is done."""


async def replayed_for_page(client: Client, workflow_id: str) -> list[Step]:
    """The steps of a workflow. Raises InvalidInputError for a history that is too long, or where others take long."""
    try:
        async with asyncio.timeout(TURN_WITHIN_SECONDS):
            await ONE_AT_A_TIME.acquire()
    except TimeoutError:
        raise InvalidInputError("other pages have decisions replayed: try again, or use `tidemill replay`") from None
    replay = asyncio.create_task(_in_turn(client, workflow_id))
    UNDER_WAY.add(replay)
    replay.add_done_callback(UNDER_WAY.discard)
    try:
        async with asyncio.timeout(ANSWER_WITHIN_SECONDS):
            return await asyncio.shield(replay)
    except TimeoutError:
        raise InvalidInputError("its history takes long to replay: use `tidemill replay`") from None


async def _in_turn(client: Client, workflow_id: str) -> list[Step]:
    try:
        return await replayed(client, workflow_id, most_events=MOST_EVENTS)
    finally:
        ONE_AT_A_TIME.release()
