"""The log of one attempt: what its processes print and log, with time and level, without secrets, and bounded.

What cannot be written is left out, and said: a task is worth more than its lines.
"""

import json
import logging
import re
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..masking import Masker
from ..processes.unicode import plain_json
from ..work.logs import RECORD
from .log_end import LogEnd
from .lossy_file import LossyFile

worker_log = logging.getLogger(__name__)
TAIL_LINES = 200
INDENT = " " * 4
"""Before each further line of a record's text."""
LONGEST_LINE = 64 * 1024
"""Of a longer line without an end the beginning is written as a line of its own."""
LONGEST_RECORD = 2**20
TEXT_LINE = re.compile(r"^(\d{4}-\d\d-\d\dT\S+) ([A-Z]+) +(.*)$")
LOGGER = re.compile(r"(?:(?:[A-Za-z_]\w*\.)+[\w<>-]+|tidemill|task|__main__): ")
"""What begins the text of a record whose logger is known by it; what is printed so is written behind a space."""
RECORD_FIELDS = ("timestamp", "level", "event")
LIMIT_BYTES = 100 * 2**20


class LogFormat(StrEnum):
    """How lines are written."""

    TEXT = "text"
    """`2026-01-31T06:00:00.000+00:00 INFO message`"""
    JSON = "json"
    """An object a line, with Airflow's names of fields: timestamp, level, logger, event."""


class AttemptLog:
    """Takes the bytes of a pipe, writes whole lines. Every line that it keeps or returns is masked."""

    def __init__(
        self, path: Path, masker: Masker, *, form: LogFormat = LogFormat.TEXT, limit: int = LIMIT_BYTES
    ) -> None:
        self.path = path
        self._masker = masker
        self._form = form
        self._rest = b""
        self.has_error = False
        """Whether there is a record of an error in it."""
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._file = LossyFile(path)
        self.is_new = self._file.size == 0
        """Whether nothing has been written before."""
        self._free = limit // 2 - self._file.size
        self._end = LogEnd(path, limit // 2)
        if self._end.is_begun:  # of a worker that was killed
            with suppress(OSError):
                self._close_end()

    def feed(self, data: bytes) -> None:
        """Writes the whole lines of *data* and of what came before; the beginning of another one waits for its end."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        if len(self._rest) > (LONGEST_RECORD if RECORD.encode() in self._rest else LONGEST_LINE):
            # Masked before it is cut, and cut in the middle: a secret at the end may not be whole yet.
            text = self._masker.masked(self._rest.decode(errors="replace"))
            self._print(text[: len(text) // 2])
            self._rest = text[len(text) // 2 :].encode()
        self._flush()

    def note(self, message: str) -> None:
        """Writes a line of the worker's own."""
        self._write(_own("info", self._masker.masked(message)))
        self._flush()

    def error(self, message: str) -> None:
        """Writes an error of the worker's own."""
        self._write(_own("error", message))
        self._flush()

    def _flush(self) -> None:
        lost, problem = self._file.lost, self._file.problem
        if self._file.flush() and lost:
            self._file.lost = 0
            self._file.write(
                self._formatted(_own("warning", f"{lost:,} bytes of the log could not be written: {problem}"))
            )
            self._file.flush()
        with suppress(OSError):
            self._end.flush()

    def end_line(self) -> None:
        """Takes what has been printed without an end of its own for a line: nothing more comes."""
        if self._rest:
            self._line(self._rest)
            self._rest = b""

    def close(self) -> None:
        """Writes what is left, and says how much the limit has cost."""
        self.end_line()
        if self._end.is_begun:
            with suppress(OSError):
                self._close_end()
        self._flush()
        if self._file.lost:
            message = "%d bytes of %s could not be written: %s"
            worker_log.warning(message, self._file.lost, self.path, self._file.problem)
        self._file.close()

    def _close_end(self) -> None:
        """Puts the newest lines behind the oldest ones, and says what is left out between them, and at the end."""
        kept, left_out = self._end.take(), self._end.left_out
        self._free = 0
        if left_out:
            self._file.write(self._formatted(_own("warning", f"{left_out:,} bytes are left out here")))
        self._file.write(kept)
        if left_out:
            notice = f"the log had reached its limit: {left_out:,} bytes in its middle were not kept"
            self._file.write(self._formatted(_own("info", notice)))

    @property
    def last_line(self) -> str | None:
        """The last line that was printed, be it empty (as in Airflow); records of `logging` do not count."""
        return self._tail[-1].strip() if self._tail else None

    @property
    def tail(self) -> tuple[str, ...]:
        """The last lines that were printed."""
        return tuple(self._tail)

    def _line(self, line: bytes) -> None:
        printed, mark, rest = line.decode(errors="replace").rstrip("\r").partition(RECORD)
        if not mark:
            self._print(printed)
            return
        if printed:  # without an end of its own
            self._print(printed)
        record = _record(rest)
        if record is None:
            self._print(rest)
        else:
            self._write(record)

    def _print(self, text: str) -> None:
        text = self._masker.masked(text)
        self._tail.append(text)
        self._write({"timestamp": _now(), "level": "info", "event": text})

    def _write(self, record: dict[str, Any]) -> None:
        record["event"] = self._masker.masked(record["event"])
        self.has_error = self.has_error or record["level"] in ("error", "critical")
        line = self._formatted(record)
        if len(line) > self._free:
            if not self._end.is_begun:
                self._file.write(
                    self._formatted(_own("info", "the log is long: its end follows when the try has ended"))
                )
            self._free = 0  # from here on in order, behind each other
            with suppress(OSError):
                self._end.write(line)
            return
        self._free -= len(line)
        self._file.write(line)

    def _formatted(self, record: dict[str, Any]) -> bytes:
        return (json.dumps(record) if self._form is LogFormat.JSON else as_text(record)).encode() + b"\n"


def _own(level: str, message: str) -> dict[str, Any]:
    """A line of the worker's own."""
    return {"timestamp": _now(), "level": level, "logger": "tidemill", "event": message}


def _record(text: str) -> dict[str, Any] | None:
    """The record of `logging` in *text*; None if it is something else that begins with the same mark."""
    try:
        found = plain_json(text)
    except ValueError:
        return None
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in RECORD_FIELDS):
        return None
    return found


def as_text(record: dict[str, Any]) -> str:
    """*record* as people read it: one line, and those of its text that follow, indented."""
    event = record["event"].replace("\n", f"\n{INDENT}")
    name = record.get("logger")
    if name not in (None, "root"):
        event = f"{name}: {event}"
    elif LOGGER.match(event.lstrip(" ")):
        event = f" {event}"
    return f"{record['timestamp']} {record['level'].upper():<7} {event}"


def from_text(line: str) -> dict[str, Any] | None:
    """Read what `as_text` has written, but for the lines below it; None for any other line."""
    found = TEXT_LINE.match(line)
    if found is None:
        return None
    # One space stands behind the level, which has seven letters at least.
    at, level = found[1], found[2]
    event = line[len(at) + 1 + max(7, len(level)) + 1 :]
    record = {"timestamp": at, "level": level.lower(), "event": event}
    if (logger := LOGGER.match(event)) is not None:
        return {**record, "event": event[logger.end() :], "logger": logger[0].removesuffix(": ")}
    return {**record, "event": event[1:]} if LOGGER.match(event.lstrip(" ")) else record


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def last_printed(path: Path) -> str | None:
    """The last line in the log at *path* that was printed, whatever form it was written in."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LONGEST_LINE))
            lines = file.read().decode(errors="replace").removesuffix("\n").split("\n")
    except FileNotFoundError:
        return None
    return next((event for line in reversed(lines) if (event := _printed(line)) is not None), None)


def _printed(line: str) -> str | None:
    """What was printed as *line*; None if that is a record, or no whole one."""
    if line.startswith("{"):
        try:
            record = plain_json(line)
        except ValueError:
            return None
        return None if "logger" in record else str(record.get("event", "")).strip()
    found = from_text(line)
    return found["event"].strip() if found is not None and "logger" not in found else None


def last_lines(path: Path, lines: int = 15) -> tuple[str, ...]:
    """The last lines of the log at *path*, as they are there; none if it is not there."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LONGEST_LINE))
            return tuple(file.read().decode(errors="replace").rstrip().split("\n")[-lines:])
    except FileNotFoundError:
        return ()
