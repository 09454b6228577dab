"""What commands that run for long have in common: a home, and a log on the terminal."""

import logging
from pathlib import Path
from typing import Annotated

import typer
from rich.logging import RichHandler

from ..settings.reading import Settings, read_settings
from .output import errors

Home = Annotated[
    Path | None, typer.Option(help="Where logs and state are kept; by default TIDEMILL_HOME or .tidemill.")
]


def set_up_logging() -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(message)s", handlers=[RichHandler(console=errors, show_path=False)]
    )
    logging.getLogger("temporalio").setLevel(logging.WARNING)


def with_home(home: Path | None) -> Settings:
    settings = read_settings()
    return settings if home is None else settings.model_copy(update={"home": home})
