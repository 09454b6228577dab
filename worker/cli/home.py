"""What commands that run for long have in common: a home, and a log on the terminal."""

import json
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.logging import RichHandler

from ...activities.attempts.log import LogFormat
from ..settings.reading import Settings, read_settings
from .output import errors

Home = Annotated[
    Path | None, typer.Option(help="Where logs and state are kept; by default TIDEMILL_HOME or .tidemill.")
]


class OneLine(logging.Formatter):
    """A record as a line of text, or as an object of JSON with the names that logs of tasks have."""

    def __init__(self, form: LogFormat) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        failure = self.formatException(record.exc_info) if record.exc_info else None
        if self._form is LogFormat.JSON:
            fields = {"timestamp": at, "level": record.levelname.lower(), "logger": record.name}
            message = {"event": record.getMessage()} | ({} if failure is None else {"error_detail": failure})
            return json.dumps(fields | message)
        text = record.getMessage() if failure is None else f"{record.getMessage()}\n{failure}"
        return f"{at} {record.levelname:7} {record.name}: {text}".replace("\n", "\\n")


def set_up_logging(form: LogFormat) -> None:
    """Log on the terminal for people, and where it is none, or JSON is set, a line for each record."""
    handler: logging.Handler = RichHandler(console=errors, show_path=False)
    if form is LogFormat.JSON or not errors.is_terminal:
        handler = logging.StreamHandler(sys.stderr)
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[handler])
    if not isinstance(handler, RichHandler):
        handler.setFormatter(OneLine(form))
    logging.getLogger("temporalio").setLevel(logging.WARNING)


def with_home(home: Path | None) -> Settings:
    settings = read_settings()
    return settings if home is None else settings.model_copy(update={"home": home})
