"""Sees to it that each run is in the archive before Temporal forgets it. Any number of servers may do so."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from ...model.run.row import RunRow
from ...worker.service.connection import NotFoundError
from ...worker.service.listing import ended_rows
from .cached_client import CachedClient
from .database import patiently

log = logging.getLogger(__name__)
EVERY = 30.0
"""Between two looks for runs that have ended, in seconds."""
LAG = timedelta(minutes=10)
"""Temporal's lists may show an end so much later."""
AT_ONCE = 4
"""So many runs are asked at a time: each may have to be replayed by a worker."""


async def archive_for_ever(client: CachedClient) -> None:
    """Keeps runs that end, until it is cancelled."""
    while True:
        try:
            with patiently():
                await client.delete_what_was_meant()
                await sweep(client)
        except Exception:  # an outage of Temporal, of its workers, or of the database
            log.exception("runs that have ended could not be archived, and are looked for again")
        await asyncio.sleep(EVERY)


async def sweep(client: CachedClient) -> int:
    """Keeps the runs that have ended since the last sweep; how many. Those that cannot be asked are left for the next.

    Raises RPCError where Temporal does not answer.
    """
    began = datetime.now(UTC)
    since = await client.ended.swept_until()
    room, kept, left = asyncio.Semaphore(AT_ONCE), 0, 0

    async def keep(row: RunRow) -> None:
        nonlocal kept, left
        try:
            kept += await client.archive(row)
        except NotFoundError:  # Temporal has forgotten it meanwhile
            return
        except Exception as error:  # one that cannot be read keeps no other from being kept
            left += 1
            log.warning("run %s of DAG %s is not archived yet: %s", row.run_id, row.dag_id, error)
        finally:
            room.release()

    keeping: set[asyncio.Task[None]] = set()
    try:
        async for row in ended_rows(client.tidemill.client, since):
            await room.acquire()
            task = asyncio.create_task(keep(row))
            keeping.add(task)
            task.add_done_callback(keeping.discard)
    finally:
        await asyncio.gather(*keeping)
    if not left:
        await client.ended.set_swept_until(began - LAG)
    return kept
