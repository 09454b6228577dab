"""How commands print: tables for people, JSON for programs, one clear line for errors."""

import asyncio
import json
import sys
from collections.abc import Coroutine, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from temporalio.exceptions import TemporalError
from temporalio.service import RPCError

from ...model.base import Instant
from ...model.errors import InvalidInputError, explain
from ..service.connection import NotFoundError, NoWorkerError

T = TypeVar("T")
INSTANT: TypeAdapter[datetime] = TypeAdapter(Instant)

NOT_WRAPPED = 10_000
"""Columns of what is piped: a line of a table is a line of the output."""


class Markup(str):
    """Text with rich's markup in it, meant as such. Every other text is shown as it is."""

    __slots__ = ()


class Printer(Console):
    """A console that shows texts as they are, whatever brackets they have; what is meant as markup is `Markup`."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print *objects*, as rich's Console does."""
        plain = (escape(one) if isinstance(one, str) and not isinstance(one, Markup) else one for one in objects)
        super().print(*plain, **options)


console = Printer(highlight=False, width=None if sys.stdout.isatty() else NOT_WRAPPED)
errors = Printer(stderr=True, highlight=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

IDS = ("DAG", "RUN", "RUN ID", "TASK", "POOL", "BUNDLE", "BACKFILL")
"""Columns of names that people copy."""
STATE_STYLES = {
    "success": "green",
    "failed": "bold red",
    "upstream_failed": "red",
    "running": "cyan",
    "queued": "blue",
    "scheduled": "blue",
    "up_for_retry": "yellow",
    "skipped": "magenta",
    "none": "dim",
}


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs *work*; what a user can mend ends the command with one line and exit code 1."""
    try:
        return asyncio.run(work)
    except typer.Exit:  # a RuntimeError, too; what there is to say has been said
        raise
    except (InvalidInputError, NotFoundError, NoWorkerError, OSError, RPCError, RuntimeError) as error:
        fail(str(error))
    except ValidationError as error:
        fail(str(explain(error, "settings (environment variables TIDEMILL_*)")))
    except TemporalError as error:
        fail(f"Temporal: {error}")


def fail(message: str) -> NoReturn:
    errors.print(Markup(f"[bold red]error:[/] {escape(message)}"), soft_wrap=True)
    raise typer.Exit(1)


def print_json(value: Any) -> None:
    plain = [to_jsonable_python(v) for v in value] if isinstance(value, list | tuple) else to_jsonable_python(value)
    sys.stdout.write(json.dumps(plain, indent=2) + "\n")


def show(value: BaseModel | Sequence[Any], as_json: bool, table: Table) -> None:
    """Prints *value* as JSON, or *table* in its place."""
    if as_json:
        print_json(value)
    else:
        console.print(table)


def make_table(columns: Iterable[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    rows = [*rows]
    for number, column in enumerate(columns):
        if column in IDS:  # to be copied: never broken in the middle
            widest = max((len(str(row[number])) for row in rows), default=0)
            table.add_column(column, no_wrap=True, min_width=max(widest, len(column)))
        else:
            table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(
            *("" if cell is None else cell if isinstance(cell, Markup) else escape(str(cell)) for cell in row)
        )
    return table


def state_text(state: str) -> Markup:
    style = STATE_STYLES.get(state, "")
    return Markup(f"[{style}]{state}[/]" if style else state)


def instant_text(value: datetime | None) -> str:
    """*value* in UTC to the second, as Airflow's CLI prints it."""
    return "" if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def typed_date(text: str | None) -> datetime | None:
    """*text* as a date that somebody has typed, aware or not; None if it is none."""
    try:
        return datetime.fromisoformat(text or "")
    except ValueError:
        return None


def in_utc(text: str | None) -> str | None:
    """*text*, with UTC where it is a date without a zone (as Airflow's command line reads it)."""
    date = typed_date(text)
    return text if date is None or date.tzinfo is not None else date.replace(tzinfo=UTC).isoformat()


def read_instant(text: str, field: str) -> datetime:
    """*text* as an instant, in UTC unless it has an offset; one clear line where it is none."""
    try:
        return INSTANT.validate_python(in_utc(text))
    except ValidationError as error:
        fail(str(explain(error, f"{field} = {text!r}")))


def duration_text(start: datetime | None, end: datetime | None) -> str:
    if start is None:
        return ""
    seconds = ((end or datetime.now(UTC)) - start).total_seconds()
    return f"{seconds:.1f}s" if seconds < 60 else str(timedelta(seconds=int(seconds)))
