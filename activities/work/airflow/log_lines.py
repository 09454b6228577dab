"""What processes below a task log as Airflow's own JSON lines, on its way into the task's log."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..logs import RECORD


@contextmanager
def log_pipe() -> Iterator[int]:
    """The end of a pipe to hand over: what is written there comes into the log. Closed here after the block."""
    reading, writing = os.pipe()
    threading.Thread(target=_pass_on, args=(reading,), name="airflow-log", daemon=True).start()
    try:
        yield writing
    finally:
        os.close(writing)


def _pass_on(reading: int) -> None:
    with os.fdopen(reading, encoding="utf-8", errors="backslashreplace") as lines:
        for line in lines:
            os.write(1, _as_record(line).encode())


def _as_record(line: str) -> str:
    try:
        fields = json.loads(line)
        event = str(fields.get("event", ""))
    except (ValueError, AttributeError):
        return line
    known = {name: fields[name] for name in ("timestamp", "level", "logger", "filename", "lineno") if name in fields}
    return f"{RECORD}{json.dumps({**known, 'event': event})}\n"
