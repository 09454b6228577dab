"""Tells Temporal of tasks whose worker has died on this host, so that they begin again within seconds.

Else Temporal waits for `heartbeat_timeout`, since a worker that it does not hear of may only be cut off.
"""

import asyncio
import logging
from datetime import timedelta

from temporalio.client import AsyncActivityCancelledError, Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ...activities.attempts.under_way import LostStart, UnderWay

LOOKS_EVERY = 5.0
ANSWER_TIMEOUT = timedelta(seconds=10)
FORGOTTEN = (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT)
"""The start has ended, or its run, or its namespace was made anew."""

log = logging.getLogger(__name__)


async def look_after_lost_starts(client: Client, under_way: UnderWay) -> None:
    """Looks at once and then now and then, until it is cancelled; whatever goes wrong is tried again."""
    while True:
        try:
            await tell_of_lost_starts(client, under_way)
        except Exception as error:
            log.warning("dead workers of this host could not be looked for: %s; looking again", error)
        await asyncio.sleep(LOOKS_EVERY)


async def tell_of_lost_starts(client: Client, under_way: UnderWay) -> None:
    """Looks once. What could not be told stays, and keeps nothing else from being told. Raises OSError."""
    found = await asyncio.to_thread(under_way.lost)  # a home may be far away
    all_reported = False
    try:
        reported = [await _is_reported(client, start) for start in found.starts]
        all_reported = all(reported)
    finally:
        await asyncio.to_thread(found.close, forget=all_reported)


async def _is_reported(client: Client, start: LostStart) -> bool:
    try:
        await _tell(client, start)
    except Exception as error:
        log.warning("the end of a worker under %s could not be told: %s; trying again", start.folder.path, error)
        return False
    return True


async def _tell(client: Client, start: LostStart) -> None:
    handle = client.get_async_activity_handle(task_token=start.token)
    lost = ApplicationError("no worker finished the attempt: the one that had it has died", type="WorkerLost")
    cancelled = False
    try:
        try:
            await handle.heartbeat(rpc_timeout=ANSWER_TIMEOUT)  # else what is in its folder may be a later start's
        except AsyncActivityCancelledError:
            cancelled = True
        await asyncio.to_thread(start.folder.end_earlier_start)
        if cancelled:
            await handle.report_cancellation(rpc_timeout=ANSWER_TIMEOUT)
        else:
            await handle.fail(lost, rpc_timeout=ANSWER_TIMEOUT)
    except RPCError as error:
        if error.status not in FORGOTTEN:
            raise
        return
    log.warning("a worker of this host has died under %s, which begins again", start.folder.path)
