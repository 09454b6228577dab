"""`tidemill backfill`: running a DAG over a range of the past."""

import asyncio
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ...model.dag.backfill_request import BackfillRequest, ReprocessBehavior
from ...model.dag.backfills import BackfillPlan, BackfillProgress, runs_text
from ...model.errors import explain
from ..client import Tidemill
from .completion import DagId
from .dag_commands import read_conf
from .output import Json, console, fail, in_utc, instant_text, make_table, print_json, run, show

app = typer.Typer(no_args_is_help=True, add_completion=False)

BackfillId = Annotated[str, typer.Argument(help="The backfill's id, as `create` printed it.")]
MAX_SHOWN = 20
"""Dates of a plan that are printed; JSON has all that are worked out."""
REFRESH_SECONDS = 0.5


@app.command()
def create(
    dag_id: DagId,
    from_date: Annotated[str, typer.Option(help="The first logical date; ISO 8601, in UTC unless it has an offset.")],
    to_date: Annotated[str, typer.Option(help="The last logical date; ISO 8601, in UTC unless it has an offset.")],
    run_backwards: Annotated[bool, typer.Option("--run-backwards", help="Newest first.")] = False,
    reprocess: Annotated[
        ReprocessBehavior, typer.Option(help="Which finished runs to run again: none, failed, or completed ones.")
    ] = ReprocessBehavior.NONE,
    max_active_runs: Annotated[int, typer.Option(help="How many of its runs at once, beside the DAG's own.")] = 10,
    conf: Annotated[str | None, typer.Option(help="The runs' conf, as a JSON object.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would run.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it to its end.")] = False,
    as_json: Json = False,
) -> None:
    """Create a run for every interval of a range that has none. With --watch the exit code is 1 if one has failed."""
    fields = {
        "from_date": in_utc(from_date),
        "to_date": in_utc(to_date),
        "run_backwards": run_backwards,
        "reprocess_behavior": reprocess,
        "max_active_runs": max_active_runs,
        "conf": read_conf(conf),
        "dry_run": dry_run,
    }
    try:
        request = BackfillRequest.model_validate(fields)
    except ValidationError as error:
        fail(str(explain(error, f"backfill of DAG {dag_id!r}", BackfillRequest)))

    async def work() -> tuple[BackfillPlan, int]:
        tidemill = await Tidemill.connect()
        plan = await tidemill.backfills.create(dag_id, request)
        if not watch or plan.backfill_id is None:
            return plan, 0
        await follow(tidemill, dag_id, plan.backfill_id)
        return plan, (await find(tidemill, dag_id, plan.backfill_id)).failed

    plan, failed = run(work())
    rows = [(instant_text(i.logical_date), instant_text(i.data_interval.end)) for i in plan.infos[:MAX_SHOWN]]
    if plan.total > len(rows):
        rows.append((f"and {plan.total - len(rows):,} more", ""))
    title = f"{plan.backfill_id or 'dry run'}: {runs_text(plan.total, counted=plan.counted)}"
    show(plan, as_json, make_table(["LOGICAL DATE", "INTERVAL END"], rows, title=title))
    if failed:
        raise typer.Exit(1)


async def follow(tidemill: Tidemill, dag_id: str, backfill_id: str) -> None:
    """A live bar until the backfill has ended, with Airflow's progress line whenever a run of it has ended."""
    printed = None
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        shown = bar.add_task(f"{dag_id} {backfill_id}", total=None)
        while True:
            progress = await find(tidemill, dag_id, backfill_id)
            total = progress.total_dagruns if progress.counted else None
            bar.update(shown, completed=progress.finished, total=total)
            if progress.tasks is not None and progress.finished != printed:
                printed = progress.finished
                bar.console.print(progress.tasks.line, soft_wrap=True)
            if progress.completed_at is not None:
                break
            await asyncio.sleep(REFRESH_SECONDS)


async def find(tidemill: Tidemill, dag_id: str, backfill_id: str) -> BackfillProgress:
    found = {progress.backfill_id: progress for progress in await tidemill.backfills.list(dag_id)}
    if backfill_id not in found:
        fail(f"DAG {dag_id!r} has no backfill {backfill_id!r}. It has: {', '.join(found) or 'none'}")
    return found[backfill_id]


@app.command("list")
def list_backfills(dag_id: DagId, as_json: Json = False) -> None:
    """List a DAG's backfills."""

    async def work() -> list[BackfillProgress]:
        return await (await Tidemill.connect()).backfills.list(dag_id)

    found = run(work())
    rows = [
        (
            p.backfill_id,
            p.state,
            instant_text(p.from_date),
            instant_text(p.to_date),
            f"{p.finished}/{p.total_dagruns}{'' if p.counted else '+'}",
        )
        for p in found
    ]
    show(found, as_json, make_table(["BACKFILL", "STATE", "FROM", "TO", "FINISHED"], rows))


@app.command("show")
def show_backfill(
    dag_id: DagId,
    backfill_id: BackfillId,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it to its end.")] = False,
    as_json: Json = False,
) -> None:
    """Show how far a backfill is. With --watch the exit code is 1 if a run of it has failed."""

    async def work() -> BackfillProgress:
        tidemill = await Tidemill.connect()
        if watch:
            await follow(tidemill, dag_id, backfill_id)
        return await find(tidemill, dag_id, backfill_id)

    progress = run(work())
    if as_json:
        print_json(progress)
    elif not watch:
        console.print(f"{progress.state}, {progress.running} under way")
        if progress.tasks is not None:
            console.print(progress.tasks.line, soft_wrap=True)
    if watch and progress.failed:
        raise typer.Exit(1)


@app.command()
def pause(dag_id: DagId, backfill_id: BackfillId, as_json: Json = False) -> None:
    """Create no more runs of a backfill. Those under way go on."""
    change(dag_id, backfill_id, "pause", as_json)


@app.command()
def resume(dag_id: DagId, backfill_id: BackfillId, as_json: Json = False) -> None:
    """Go on with a paused backfill."""
    change(dag_id, backfill_id, "unpause", as_json)


@app.command()
def cancel(dag_id: DagId, backfill_id: BackfillId, as_json: Json = False) -> None:
    """End a backfill once the runs under way have ended."""
    change(dag_id, backfill_id, "cancel", as_json)


def change(dag_id: str, backfill_id: str, what: str, as_json: bool) -> None:
    async def work() -> BackfillProgress:
        return await (await Tidemill.connect()).backfills.change(dag_id, backfill_id, what)

    progress = run(work())
    show(progress, as_json, make_table(["BACKFILL", "STATE"], [(progress.backfill_id, progress.state)]))
