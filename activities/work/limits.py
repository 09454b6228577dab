"""Bounds on a part of a child's work: more than that ends the process, whatever it does."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def limited(*, processor_seconds: int, megabytes: int) -> Iterator[None]:
    """Ends this process by SIGXCPU after *processor_seconds* more of processor time in the block.

    More than *megabytes* beyond what the process has now raise MemoryError. Other than a timer's signal, both
    also stop code that never returns to the interpreter.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(usage.ru_utime + usage.ru_stime) + processor_seconds
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    with _lowered(resource.RLIMIT_CPU, seconds), _lowered(resource.RLIMIT_AS, size + megabytes * 2**20):
        yield


@contextmanager
def _lowered(kind: int, limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    lower = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(kind, (lower, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))
