"""`tidemill dags list`: imports little, so that it is quick."""

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.markup import escape

from ...model.dag.row import DagRow
from ..service.connection import connect
from ..service.listing import dag_rows, whole_rows
from ..settings.reading import read_settings
from .durations import read_duration
from .output import Json, Markup, console, errors, instant_text, make_table, print_json, run, state_text

NEVER = datetime.max.replace(tzinfo=UTC)
STYLES = {"failing": "bold red", "broken": "bold red", "import error": "bold red", "stale": "yellow"}


def list_dags(
    state: Annotated[
        str | None,
        typer.Option(help="Only those that are active, paused, stale, broken, failing, or have an import error."),
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Only those with a task of this owner.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only those with this tag.")] = None,
    name: Annotated[str | None, typer.Option(help="Only those whose dag_id contains this text.")] = None,
    due_within: Annotated[
        str | None,
        typer.Option(help="Only those whose next run is due within this time, the first one first: 1h, 30m."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the registered DAGs."""
    until = datetime.now(UTC) + read_duration("--due-within", due_within) if due_within is not None else None

    async def work() -> tuple[list[DagRow], dict[str, str]]:
        client, task_queue = await connect(), read_settings().task_queue
        rows, silent = await dag_rows(client, task_queue)
        needs_texts = as_json or owner is not None or tag is not None
        return await whole_rows(client, rows, task_queue) if needs_texts else rows, silent

    def wanted(row: DagRow) -> bool:
        return (
            (state is None or row.status == state.replace("_", " "))
            and (owner is None or owner in row.owners)
            and (tag is None or tag in row.tags)
            and (name is None or name in row.dag_id)
            and (until is None or (row.status == "active" and (row.next_dagrun_create_after or NEVER) <= until))
        )

    rows, silent = run(work())
    rows = [row for row in rows if wanted(row)]
    if until is not None:
        rows.sort(key=lambda row: row.next_dagrun_create_after or NEVER)
    if as_json:
        print_json(rows)
    else:
        columns = ["DAG", "STATUS", "SCHEDULE", "NEXT RUN AFTER", "LAST RUN", "RUNS", "VERSION", "FOR", "FILE"]
        console.print(make_table(columns, [_cells(row) for row in rows]))
    for row in rows:
        if row.problem is not None:
            errors.print(Markup(f"[bold red]DAG {escape(repr(row.dag_id))}:[/] {escape(row.problem)}"), soft_wrap=True)
    for message in silent.values():
        errors.print(Markup(f"[bold red]error:[/] {escape(message)}"), soft_wrap=True)
    if silent:
        raise typer.Exit(1)


def _cells(row: DagRow) -> tuple[object, ...]:
    return (
        row.dag_id,
        status_text(row.status),
        row.timetable_summary,
        instant_text(row.next_dagrun_create_after),
        state_text(row.last_state) if row.last_state else "",
        f"{row.active_runs}+{row.queued_runs}/{row.max_active_runs}",
        row.version,
        row.written_for,
        row.source or "",
    )


def status_text(status: str) -> str:
    return Markup(f"[{STYLES[status]}]{status}[/]") if status in STYLES else status
