"""What this host has to give, or the container in it."""

import os
from contextlib import suppress
from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")


def memory() -> int:
    """Return the bytes of memory that there are in all."""
    total = psutil.virtual_memory().total
    with suppress(OSError, ValueError):  # no container, or one without a limit
        total = min(total, int((CGROUP / "memory.max").read_text()))
    return int(total)


def cores() -> float:
    """Return how many processors this process may use: those that it is bound to, or its container's share of them."""
    bound = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    with suppress(OSError, ValueError):
        quota, period = (CGROUP / "cpu.max").read_text().split()
        bound = min(bound, int(quota) / int(period))
    return bound
