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
from ..connection import NotFoundError, NoWorkerError

T = TypeVar("T")
INSTANT: TypeAdapter[datetime] = TypeAdapter(Instant)

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

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
    except (InvalidInputError, NotFoundError, NoWorkerError, OSError, RPCError, RuntimeError) as error:
        fail(str(error))
    except ValidationError as error:
        fail(str(explain(error, "settings (environment variables TIDEMILL_*)")))
    except TemporalError as error:
        fail(f"Temporal: {error}")


def fail(message: str) -> NoReturn:
    errors.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)
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
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(
            *("" if cell is None else cell if isinstance(cell, Markup) else escape(str(cell)) for cell in row)
        )
    return table


class Markup(str):
    """Text with rich's markup in it, meant as such. Every other text is shown as it is."""

    __slots__ = ()


def state_text(state: str) -> Markup:
    style = STATE_STYLES.get(state, "")
    return Markup(f"[{style}]{state}[/]" if style else state)


def instant_text(value: datetime | None) -> str:
    """*value* in UTC to the second, as Airflow's CLI prints it."""
    return "" if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def read_instant(text: str, field: str) -> datetime:
    """*text* as an instant; one clear line where it is none."""
    try:
        return INSTANT.validate_python(text)
    except ValidationError as error:
        fail(str(explain(error, f"{field} = {text!r}")))


def duration_text(start: datetime | None, end: datetime | None) -> str:
    if start is None:
        return ""
    seconds = ((end or datetime.now(UTC)) - start).total_seconds()
    return f"{seconds:.1f}s" if seconds < 60 else str(timedelta(seconds=int(seconds)))
