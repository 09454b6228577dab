"""What a child logs and prints, on its way to the worker: one pipe, in which records of `logging` are marked.

A record is a line of its own that begins with RECORD and holds JSON; every other line was printed by somebody.
"""

import json
import logging
import os
import sys
import warnings
from datetime import UTC, datetime

RECORD = "\x1e"
"""ASCII's record separator: no text begins with it by chance."""


class ToWorker(logging.Handler):
    """Writes records where the worker reads them, in order with what is printed."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
            if record.exc_info:
                message += "\n" + logging.Formatter().formatException(record.exc_info)
            fields = {
                "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
                "level": record.levelname.lower(),
                "logger": record.name,
                "filename": record.filename,
                "lineno": record.lineno,
                "event": message,
            }
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os.write(1, f"{RECORD}{json.dumps(fields)}\n".encode())
        except Exception:
            self.handleError(record)


def log_failure(text: str) -> None:
    """Has the worker write *text*, of a failure, as one error; where there is no worker, it is printed."""
    if any(isinstance(handler, ToWorker) for handler in logging.getLogger().handlers):
        logging.getLogger("task").error("%s", text)
    else:
        print(text, file=sys.stderr)


def set_up() -> None:
    """Logs from INFO on, and prints line by line."""
    # New ones: those of the parent were made for a file, and believe that they can seek.
    sys.stdout, sys.stderr = (
        open(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        for number in (1, 2)
    )
    root = logging.getLogger()
    root.handlers[:] = [ToWorker()]
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    warnings.simplefilter("default")
