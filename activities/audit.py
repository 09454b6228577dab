"""The audit log: lines of JSON in a file that is turned over, of what people changed and of what was refused to whom.

The web writes to one in its own home, workers to one in theirs: what a DAG file or a task was refused because it is
somebody else's.
"""

import json
import logging
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..model.run.attempts import TaskAttempt

AUDIT_FILE = "audit.jsonl"
LARGEST = 32 * 2**20
FILES = 8
"""So many files there are at most: the one that is written to, and those before it."""
LONGEST = 200
"""Of a name or path in a line, in characters."""
LONGEST_REASON = 1000
REPEATED_AFTER = 3600.0
"""In seconds: a refusal that is the same as one before is written again after so long."""
MAX_REFUSALS = 600
"""So many refusals are kept of a minute."""

log = logging.getLogger("tidemill.audit")


class AuditLog:
    """The lines in files at *path*; None: nowhere but in the process's own log."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def add(self, line: Mapping[str, Any]) -> None:
        """Write *line*. One that cannot be written is said in the process's log, and hurts nobody's answer."""
        text = json.dumps(line, default=str)
        log.info("%s", text)
        if self._path is None:
            return
        try:
            self._turn_over()
            opened = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            try:
                os.write(opened, text.encode() + b"\n")  # whole: processes that share the file do not mix their lines
            finally:
                os.close(opened)
        except OSError as error:
            log.error("the audit log %s cannot be written: %s", self._path, error.strerror)

    def _turn_over(self) -> None:
        assert self._path is not None  # noqa: S101
        with suppress(FileNotFoundError):
            if self._path.stat().st_size < LARGEST:
                return
            for number in range(FILES - 1, 0, -1):
                with suppress(FileNotFoundError):
                    self._numbered(number - 1).replace(self._numbered(number))

    def _numbered(self, number: int) -> Path:
        assert self._path is not None  # noqa: S101
        return self._path if number == 0 else self._path.with_name(f"{self._path.name}.{number}")

    def newest(self, limit: int) -> list[dict[str, Any]]:
        """Return the last *limit* lines, the newest first."""
        found: list[dict[str, Any]] = []
        for number in range(FILES if self._path is not None else 0):
            if len(found) >= limit:
                break
            with suppress(FileNotFoundError), self._numbered(number).open() as file:
                found += list(reversed([*_lines(deque(file, maxlen=limit - len(found)))]))
        return found


def _lines(texts: deque[str]) -> Iterator[dict[str, Any]]:
    for text in texts:
        with suppress(ValueError):  # its writer was ended meanwhile
            yield json.loads(text)


class FloodLimit:
    """Counts the refusals of a minute."""

    def __init__(self) -> None:
        self._minute, self._count = 0, 0

    def is_passed(self) -> bool:
        """Count one more; return whether there were so many in this minute that it tells nothing new."""
        minute = int(time.monotonic() // 60)
        self._count = self._count + 1 if minute == self._minute else 1
        self._minute = minute
        return self._count > MAX_REFUSALS


@dataclass(frozen=True)
class Refusals:
    """Keeps in an audit log what DAG files and tasks were refused because it is somebody else's."""

    kept: AuditLog
    _floods: dict[str | None, FloodLimit] = field(default_factory=dict)
    """By bundle: a flood of one hides nothing of another."""
    _last: dict[str, float] = field(default_factory=dict)
    """When each refusal was written last, by what it says: what is tried again and again is one line an hour."""

    def add(self, operation: str, reason: str, bundle: str | None, about: Mapping[str, Any]) -> None:
        """Write that *operation*, such as `task.look_up`, was refused to code of *bundle* for *reason*."""
        about = {name: str(value)[:LONGEST] for name, value in about.items()}
        if (
            self._is_known(f"{operation} {bundle} {about} {reason[:LONGEST_REASON]}")
            or self._floods.setdefault(bundle, FloodLimit()).is_passed()
        ):
            return
        self.kept.add(
            {
                "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "who": f"bundle {bundle}" if bundle is not None else "a DAG of no bundle",
                "role": "dag author",
                "address": None,
                "operation": operation,
                "method": None,
                "path": "",
                "status": 403,
                "about": about,
                "reason": reason[:LONGEST_REASON],
            }
        )

    def _is_known(self, refusal: str) -> bool:
        now = time.monotonic()
        if now - self._last.get(refusal, -REPEATED_AFTER) < REPEATED_AFTER:
            return True
        if len(self._last) >= MAX_REFUSALS:
            self._last.clear()
        self._last[refusal] = now
        return False

    def add_of(self, attempt: TaskAttempt, operation: str, reason: str) -> None:
        """Write that *operation* was refused to a task."""
        about = {"dag_id": attempt.run.dag_id, "run_id": attempt.run.run_id, "task_id": attempt.task.task_id}
        source = attempt.source
        self.add(operation, reason, source.bundle if source is not None else None, about)
