"""Reads and changes what is kept below TIDEMILL_XCOM_URL and TIDEMILL_LOG_URL, in threads of its own.

A store that hangs would take the threads that all else of the web has, and none of them could be ended.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
AT_ONCE = 8
TIMEOUT_SECONDS = 10.0
_threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="tidemill-stores")


async def in_time(work: Callable[[], T], seconds: float = TIMEOUT_SECONDS) -> T:
    """Return what *work* does. Raises what it raises, and StoreSilentError where that takes longer than *seconds*."""
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.get_running_loop().run_in_executor(_threads, work)
    except TimeoutError:
        raise StoreSilentError(f"the store of logs and results has not answered within {seconds:g} s") from None


class StoreSilentError(OSError):
    """The store does not answer."""
