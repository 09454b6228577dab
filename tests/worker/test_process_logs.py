"""What workers and the web log is a line a record where nobody reads along: for files, journals and collectors."""

from __future__ import annotations

import json
import logging
import sys

from tidemill.activities.attempts.log import LogFormat
from tidemill.worker.cli.home import OneLine


def record(message: str) -> logging.LogRecord:
    try:
        raise ValueError("no\nway")
    except ValueError:
        return logging.LogRecord("tidemill.x", logging.ERROR, __file__, 1, message, ("a",), sys.exc_info())


def test_a_record_is_one_line_of_text() -> None:
    line = OneLine(LogFormat.TEXT).format(record("%s is\nlost"))
    assert "\n" not in line
    assert line.split(" ", 1)[1].startswith("ERROR   tidemill.x: a is\\nlost\\nTraceback (most recent call last):\\n")
    assert line.endswith("ValueError: no\\nway")


def test_a_record_is_one_object() -> None:
    found = json.loads(OneLine(LogFormat.JSON).format(record("%s is lost")))
    assert (found["level"], found["logger"], found["event"]) == ("error", "tidemill.x", "a is lost")
    assert found["error_detail"].endswith("ValueError: no\nway")
