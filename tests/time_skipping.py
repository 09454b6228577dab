"""Temporal's time-skipping server, for tests."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import psutil
from temporalio.service import RPCError

T = TypeVar("T")
STANDS_STILL_AFTER = 80


def time_skipping_server() -> str:
    beside = Path(sys.executable).with_name("temporal-test-server")
    found = str(beside) if beside.is_file() else shutil.which("temporal-test-server")
    assert found is not None
    return found


async def with_skipped_time(work: Callable[[], Awaitable[T]]) -> T:
    """What *work* comes to. When its server's time stands still for good, that is ended, and *work* begun anew."""
    last: Exception | None = None
    for _ in range(3):
        watchdog = asyncio.get_running_loop().call_later(STANDS_STILL_AFTER, _end_server)
        try:
            return await work()
        except (RPCError, RuntimeError) as error:
            if not watchdog.cancelled() and watchdog.when() > asyncio.get_running_loop().time():
                raise
            last = error
        finally:
            watchdog.cancel()
    raise AssertionError("the time-skipping server's time has stood still three times") from last


def _end_server() -> None:
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "temporal-test-server" in process.name():
                process.kill()
