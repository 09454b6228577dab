"""Tells Temporal of tasks whose worker has died on this host, so that they begin again within seconds.

Else Temporal waits for `heartbeat_timeout`, since a worker that it does not hear of may only be cut off.
"""

import asyncio
import logging

from temporalio.client import AsyncActivityCancelledError, Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ..activities.attempts.under_way import LostStart, UnderWay

LOOKS_EVERY = 5.0
FORGOTTEN = (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT)
"""The start has ended, or its run, or its namespace was made anew."""

log = logging.getLogger(__name__)


async def look_after_lost_starts(client: Client, under_way: UnderWay) -> None:
    """Looks at once and then now and then, until it is cancelled."""
    while True:
        try:
            with under_way.lost() as found:
                for start in found:
                    await _tell(client, start)
        except (RPCError, OSError) as error:  # looked at again
            log.debug("what dead workers had under way could not be told: %s", error)
        await asyncio.sleep(LOOKS_EVERY)


async def _tell(client: Client, start: LostStart) -> None:
    handle = client.get_async_activity_handle(task_token=start.token)
    lost = ApplicationError("no worker finished the attempt: the one that had it has died", type="WorkerLost")
    cancelled = False
    try:
        try:
            await handle.heartbeat()  # else what is in its folder may be a later start's
        except AsyncActivityCancelledError:
            cancelled = True
        await asyncio.to_thread(start.folder.end_earlier_start)
        await (handle.report_cancellation() if cancelled else handle.fail(lost))
    except RPCError as error:
        if error.status not in FORGOTTEN:
            raise
        return
    log.warning("a worker of this host has died under %s, which begins again", start.folder.path)
