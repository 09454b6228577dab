"""An attempt goes on while its activity does: heartbeats, and when it has to stop."""

import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from ...model.run.task_instances import Failure
from .. import metrics
from ..names import INFRASTRUCTURE, TASK_FAILED

HEARTBEAT_EVERY = 1.0
POLL_EVERY = 0.05
TOUCH_EVERY = 600.0
CLEANUP_TIMEOUT = timedelta(minutes=1)
cut_off = threading.Event()
"""Set while this process has to end its tasks because they may begin elsewhere: it does not reach Temporal, alone."""


def task_failure(failure: Failure) -> ApplicationError:
    """The task itself failed: the run decides about another try, Temporal does not."""
    return ApplicationError(
        f"{failure.error_type}: {failure.message}" if failure.message else failure.error_type,
        failure.model_dump(mode="json"),
        type=TASK_FAILED,
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,  # the run's matter, not the worker's: no stack trace in its log
    )


def infrastructure_error(reason: str) -> ApplicationError:
    """The worker cannot go on with a sound attempt: Temporal starts it again elsewhere."""
    return ApplicationError(reason, type=INFRASTRUCTURE)


class Stopped(Exception):  # noqa: N818 - not an error: a request that was followed
    """The attempt was ended from outside: cancelled, timed out, or its worker is shutting down."""


def task_timed_out(limit: float) -> ApplicationError:
    """The task took more than *limit* seconds."""
    return task_failure(Failure(error_type="TaskTimeout", message=f"execution_timeout of {limit:g} s was exceeded"))


class AttemptSupervisor:
    """Looks after one attempt while it runs: heartbeats, and says when it has to stop.

    Activities are asked to stop here and nowhere else (`no_thread_cancel_exception`): an exception
    thrown into a thread at any moment could leave a process behind that nobody knows of.
    """

    def __init__(
        self,
        timeout: timedelta | None,
        progress: Callable[[], Any] = lambda: None,
        *,
        drain: timedelta = timedelta(),
        too_long: Callable[[float], Exception] = task_timed_out,
    ) -> None:
        self._drain = drain.total_seconds()
        self._draining_since: float | None = None
        self._timeout = None if timeout is None else timeout.total_seconds()
        self._too_long = too_long
        self._started = time.monotonic()
        self._progress = progress
        self._kept: tuple[Path, ...] = ()
        self._next_touch = self._started + TOUCH_EVERY
        # Not at once: most tasks are over before, and each heartbeat is a way to the server and back.
        self._next_heartbeat = self._started + HEARTBEAT_EVERY

    def check(self, details: Any = None) -> None:
        """Raises Stopped, or the failure of a timeout, when the attempt may not go on.

        Tells *details* in the heartbeat, else the progress.
        """
        now = time.monotonic()
        self._heed_stop()
        if self._timeout is not None and now - self._started > self._timeout:
            raise self._too_long(self._timeout)
        if now >= self._next_heartbeat:
            self._next_heartbeat = now + HEARTBEAT_EVERY
            self._beat(details if details is not None else self._progress())
        if now >= self._next_touch:
            self._next_touch = now + TOUCH_EVERY
            for path in self._kept:
                with suppress(FileNotFoundError):
                    path.touch()

    def keep(self, *paths: Path) -> None:
        """Keeps files and folders young, so that no cleanup takes what the attempt still needs for old."""
        self._kept = paths

    def restart(self) -> None:
        """The time counts from now: what was waited for before is not the attempt's own."""
        self._started = time.monotonic()

    def _beat(self, details: Any) -> None:
        activity.heartbeat(details)

    def _heed_stop(self) -> None:
        if activity.is_cancelled():
            raise Stopped("cancelled")
        if cut_off.is_set():
            raise Stopped("the loss of its worker's connection")
        if activity.is_worker_shutdown():
            self._draining_since = self._draining_since or time.monotonic()
            if time.monotonic() - self._draining_since >= self._drain:
                raise Stopped("worker shutdown")


class Unattended(AttemptSupervisor):
    """A watch where nobody asks it to stop and nobody waits for heartbeats: only its time counts."""

    def _heed_stop(self) -> None:
        pass

    def _beat(self, details: Any) -> None:
        pass


class Closing(AttemptSupervisor):
    """A watch over cleaning up: it goes on though the attempt has to stop, for a minute at most."""

    def __init__(self) -> None:
        super().__init__(
            CLEANUP_TIMEOUT, too_long=lambda limit: infrastructure_error(f"cleaning up took over {limit:g} s")
        )

    def _heed_stop(self) -> None:
        """Being asked to stop is why it cleans up."""


@contextmanager
def beating() -> Iterator[None]:
    """Heartbeats as long as the block: for work that cannot be asked to stop, so that its worker's death is noticed."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(HEARTBEAT_EVERY):
            activity.heartbeat()

    thread = threading.Thread(target=contextvars.copy_context().run, args=(beat,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def stopping_cleanly() -> Iterator[None]:
    """Turns a stop from outside into what Temporal expects to hear of it."""
    try:
        yield
    except Stopped as stop:
        if activity.is_cancelled():
            raise activity_cancelled(str(stop)) from None
        metrics.handed_over()
        raise infrastructure_error(f"the attempt was stopped by {stop} and is handed to another worker") from None


def activity_cancelled(reason: str) -> Exception:
    from temporalio.exceptions import CancelledError

    return CancelledError(reason)
