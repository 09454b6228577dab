"""How much memory the drivers of one worker may take together."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from ...model.run.task_instances import Failure
from ..attempts.supervision import POLL_EVERY, AttemptSupervisor, task_failure

SHARE = 0.8
"""Of the host's memory, or of the container's; the rest is for the worker, its Python tasks, and the system."""
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


class MemoryBudget:
    """What is left for drivers below this worker. Safe to use from many threads."""

    def __init__(self, megabytes: int) -> None:
        self.megabytes = megabytes
        self._free = megabytes
        self._lock = threading.Lock()

    @contextmanager
    def reserved(self, wanted: int, watch: AttemptSupervisor) -> Iterator[None]:
        """Holds *wanted* MiB as long as the block; waits for them before, which the heartbeat tells."""
        if wanted > self.megabytes:
            told = (
                f"the driver would take {wanted:,} MiB (its memory and Spark's overhead), and drivers on this worker "
                f"have {self.megabytes:,} MiB. Ask for less driver_memory, or set TIDEMILL_SPARK_MEMORY_MB higher"
            )
            raise task_failure(Failure(error_type="InvalidInput", message=told, retryable=False))
        while not self._take(wanted):
            watch.check({"waiting_for": f"memory: {wanted:,} MiB wanted, {self._free:,} of {self.megabytes:,} free"})
            threading.Event().wait(4 * POLL_EVERY)
        try:
            yield
        finally:
            with self._lock:
                self._free += wanted

    def _take(self, wanted: int) -> bool:
        with self._lock:
            if wanted > self._free:
                return False
            self._free -= wanted
            return True


def budget_of_host() -> int:
    """What drivers may take together on this host or in this container, in MiB."""
    total = psutil.virtual_memory().total
    with suppress(OSError, ValueError):  # no container, or one without a limit
        total = min(total, int(_CGROUP_LIMIT.read_text()))
    return int(total * SHARE) // 2**20
