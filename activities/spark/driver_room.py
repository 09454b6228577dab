"""How much room one worker has for Spark's drivers: how many at a time, and how much memory they may take together."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ...model.run.task_instances import Failure
from .. import host
from ..attempts.supervision import POLL_EVERY, AttemptSupervisor, task_failure

SHARE = 0.8
"""Of the host's memory, or of the container's; the rest is for the worker, its Python tasks, and the system."""
DRIVERS_PER_CORE = 2
"""More JVMs than that only take the time from each other."""
SUBMISSION_MEGABYTES = 512
"""What spark-submit takes of its host where it hands an application over."""


class DriverRoom:
    """What is left for drivers below this worker. Safe to use from many threads."""

    def __init__(self, megabytes: int, drivers: int, called: str = "a driver") -> None:
        self.megabytes = megabytes
        self.drivers = drivers
        self._called = called
        self._free = megabytes
        self._places = drivers
        self._lock = threading.Lock()
        self._waiting: list[object] = []
        """Those that wait, in the order of asking: else small drivers would overtake a large one for ever."""

    @contextmanager
    def reserved(self, wanted: int, supervisor: AttemptSupervisor) -> Iterator[None]:
        """Hold a place and *wanted* MiB as long as the block; wait for them before, which the heartbeat says.

        The time of the attempt counts from then on.
        """
        if wanted > self.megabytes:
            message = (
                f"the driver would take {wanted:,} MiB (its memory and Spark's overhead), and drivers on this worker "
                f"have {self.megabytes:,} MiB. Ask for less driver_memory, or set TIDEMILL_SPARK_MEMORY_MB higher"
            )
            raise task_failure(Failure(error_type="InvalidInput", message=message, retryable=False))
        self._wait(wanted, supervisor)
        try:
            yield
        finally:
            with self._lock:
                self._free += wanted
                self._places += 1

    def _wait(self, wanted: int, supervisor: AttemptSupervisor) -> None:
        me = object()
        with self._lock:
            self._waiting.append(me)
        try:
            while (missing := self._take(wanted, me)) is not None:
                supervisor.restart()
                supervisor.check({"waits_for": missing})
                threading.Event().wait(4 * POLL_EVERY)
        finally:
            with self._lock:
                self._waiting.remove(me)

    def _take(self, wanted: int, me: object) -> str | None:
        """Take a place and the memory; return what there is too little of."""
        with self._lock:
            if (before := self._waiting.index(me)) > 0:
                return f"room on this worker, behind {before} others"
            if not self._places:
                limit = f"it has {self.drivers}, its most (TIDEMILL_MAX_SPARK_DRIVERS)"
                return f"{self._called} of this worker to end: {limit}"
            if wanted > self._free:
                return f"memory: {wanted:,} MiB wanted, {self._free:,} of {self.megabytes:,} free"
            self._free -= wanted
            self._places -= 1
            return None


def memory_of_host() -> int:
    """Return what drivers may take together on this host or in this container, in MiB."""
    return int(host.memory() * SHARE) // 2**20


def drivers_of_host() -> int:
    """Return how many drivers there may be at a time on this host or in this container."""
    return max(1, round(host.cores() * DRIVERS_PER_CORE))
