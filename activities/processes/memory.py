"""Memory that runs out: whom the kernel ends first, and whether it has ended anybody. Linux; elsewhere nothing."""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

ENDED_FIRST = 500
"""Of 1000: a task goes before its worker, and before any other process of its size."""


def be_ended_first() -> None:
    """Has the kernel end this process, and what it starts, before the worker's own."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(ENDED_FIRST))


def ended_for_memory() -> int:
    """Returns how many processes the kernel has ended so far where this one's memory is counted: its cgroup or host."""
    counter = _counter()
    return 0 if counter is None else _read(counter) or 0


@cache
def _counter() -> Path | None:
    return next((counter for counter in _counters() if _read(counter) is not None), None)


def _read(counter: Path) -> int | None:
    with suppress(OSError):
        for line in counter.read_text().splitlines():
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                return int(number)
    return None


def _counters() -> Iterator[Path]:
    root = Path("/sys/fs/cgroup")
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            number, controllers, group = line.split(":", 2)
            if "memory" in controllers.split(","):  # version 1; in a container its own group is the root
                yield root / "memory" / group.lstrip("/") / "memory.oom_control"
                yield root / "memory" / "memory.oom_control"
            elif number == "0":
                yield root / group.lstrip("/") / "memory.events"
                yield root / "memory.events"
    yield Path("/proc/vmstat")
