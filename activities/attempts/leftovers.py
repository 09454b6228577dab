"""Folders of attempts that have ended: kept until their outcome is known to Temporal for sure, then removed."""

import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from ...model.run.attempts import TaskAttempt
from .folder import AttemptFolder

KEPT_SECONDS = 3600.0
"""A worker that could not report an outcome for so long has its attempts started again without it."""


class Leftovers:
    """The ended attempts of one worker. Safe to use from many threads."""

    def __init__(self, home: Path, kept_seconds: float = KEPT_SECONDS) -> None:
        self._home = home
        self._kept_seconds = kept_seconds
        self._ended: deque[tuple[float, Path]] = deque()
        self._lock = threading.Lock()

    def add(self, folder: Path) -> None:
        """Has *folder* removed after a while; removes those whose time has come."""
        now = time.monotonic()
        expired = []
        with self._lock:
            self._ended.append((now + self._kept_seconds, folder))
            while self._ended and self._ended[0][0] <= now:
                expired.append(self._ended.popleft()[1])
        for old in expired:
            self._remove(AttemptFolder(old, old))

    def forget_poke_before(self, attempt: TaskAttempt) -> None:
        """Removes what the poke before left: that there is another one says that its outcome is known."""
        if attempt.poke > 2:
            before = attempt.model_copy(update={"poke": attempt.poke - 1})
            AttemptFolder.of(self._home, before).remove()

    def _remove(self, folder: AttemptFolder) -> None:
        folder.remove()
        with suppress(OSError):  # the first one that is not empty
            for parent in folder.path.parents:
                if parent.name == "attempts":
                    break
                parent.rmdir()
