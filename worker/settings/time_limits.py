"""A limit in time for code that runs in this process, as a run without a server has it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from ...activities.attempts.supervision import task_timed_out


class TimeIsOver(BaseException):
    """Not an Exception: code that catches those goes on in no task of a worker either, which ends its process."""


@contextmanager
def limited(limit: timedelta | None) -> Iterator[None]:
    """Ends what runs in it after *limit*; None, or in another thread than the main one: never.

    Raises the task's failure, see `task_timed_out`.
    """
    if limit is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    is_over, is_at_work = False, True

    def end(*_: Any) -> None:
        nonlocal is_over
        if is_at_work:
            is_over = True
            raise TimeIsOver

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, limit.total_seconds())
    try:
        yield
        is_at_work = False
    except BaseException:
        is_at_work = False
        if not is_over:
            raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if is_over:  # also where the code has made a failure of it, or nothing
        raise task_timed_out(limit.total_seconds())
