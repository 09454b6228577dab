"""Waits for storage that takes nothing: a full disk, a home that is read-only, a store that is away.

Meanwhile the attempt keeps its start, and heartbeats say what it waits for.
"""

import errno
import logging
import time
from collections.abc import Callable
from typing import TypeVar

from .supervision import AttemptSupervisor

T = TypeVar("T")
log = logging.getLogger(__name__)
TIMEOUT = 3600.0
"""For so many seconds it is tried again."""
FOR_GOOD = (errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP)
"""What no waiting changes."""
CHECKS_EVERY = 0.2
LONGEST_PAUSE = 30.0


def until_stored(store: Callable[[], T], message: str, supervisor: AttemptSupervisor) -> T:
    """Returns what *store* returns, tried again while it raises OSError. *message* says what cannot be done meanwhile.

    Raises an OSError that no waiting changes, the last one after TIMEOUT seconds, and what *supervisor* raises,
    so that the attempt stops.
    """
    began, pause = time.monotonic(), 1.0
    while True:
        try:
            return store()
        except OSError as error:
            if error.errno in FOR_GOOD or time.monotonic() - began > TIMEOUT:
                raise
            problem = f"{message}: {error}"
            log.warning("%s. It is tried again in %g s", problem, pause)
            until = time.monotonic() + pause
            while time.monotonic() < until:
                supervisor.check({"waiting": problem})
                time.sleep(CHECKS_EVERY)
            pause = min(2 * pause, LONGEST_PAUSE)
