"""`tidemill runs`: listing runs, looking into one, running one again."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree
from temporalio.service import RPCError

from ...model.errors import InvalidInputError
from ...model.run.identity import RunIdentity, RunType
from ...model.run.revisions import ClearRequest, RunMark, to_clear
from ...model.run.row import RunRow
from ...model.run.views import RunDetails, RunView, TaskView
from ...model.states import RunState
from ..client import Tidemill
from ..pictures.gantt import draw_gantt
from ..service.connection import NotFoundError, NoWorkerError, connect
from ..service.listing import run_rows
from .completion import AnyDagId, DagId, RunId, run_ids
from .dag_commands import read_conf
from .durations import read_duration
from .output import Json, console, duration_text, fail, instant_text, make_table, print_json, run, show, state_text

app = typer.Typer(no_args_is_help=True, add_completion=False)

Latest = Annotated[
    bool | None,
    typer.Option(
        "--latest/--own-version",
        help="Go on with the version of the DAG that is in place now, or with its own. By default as the DAG says: one "
        "of a plain folder goes on with the version in place.",
    ),
]
REFRESH_SECONDS = 0.5
MAX_CLEARED = 1000
"""So many failed runs are run again at a time."""


@app.command("list")
def list_runs(
    dag_id: AnyDagId = None,
    state: Annotated[RunState | None, typer.Option(help="Only runs in this state.")] = None,
    run_type: Annotated[RunType | None, typer.Option("--type", help="Only runs of this type.")] = None,
    all_dags: Annotated[bool, typer.Option("--all-dags", help="The same as to name no DAG.")] = False,
    since: Annotated[
        str | None, typer.Option(help="Only runs that go on, or have ended within this time: 12h, 30m.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
    as_json: Json = False,
) -> None:
    """List a DAG's queued, running and recent runs, newest first, or those of every DAG without the queued."""
    if dag_id is not None and all_dags:
        fail("--all-dags does not go with a DAG. Leave one of them out")
    ended_after = datetime.now(UTC) - read_duration("--since", since) if since is not None else None
    if dag_id is None:
        if state is RunState.QUEUED:
            fail("--state queued: a run that is queued is known to its DAG alone. Name the DAG")
        rows = run(of_all_dags(state, run_type, ended_after, limit))
        show(rows, as_json, all_runs_table(rows))
        return

    async def work() -> list[RunView]:
        return await (await Tidemill.connect()).runs.list(dag_id)

    def wanted(view: RunView) -> bool:
        return state in (None, view.state) and run_type in (None, view.run_type) and _ended_since(view, ended_after)

    views = [view for view in run(work()) if wanted(view)][:limit]
    show(views, as_json, runs_table(views))


async def of_all_dags(
    state: RunState | None, run_type: RunType | None, ended_after: datetime | None, limit: int
) -> list[RunRow]:
    client = await connect()
    found = run_rows(client, state=state, run_type=run_type, ended_after=ended_after, limit=limit)
    return [row async for row in found]


def data_text(run: RunRow | RunView) -> str:
    """Which data a run is about: its logical date, or its partition; nothing where it is about none."""
    return instant_text(run.logical_date) if run.logical_date is not None else run.partition_key or ""


def all_runs_table(found: list[RunRow]) -> Table:
    rows = [
        (
            row.dag_id,
            row.run_id,
            state_text(row.state) if row.problem is None else "failing",
            data_text(row),
            row.triggering_user_name or row.triggered_by,
            instant_text(row.started_at),
            duration_text(row.started_at, row.ended_at),
            ", ".join(f"{n} {task_state}" for task_state, n in row.counts.items()),
            row.reason if row.state is RunState.FAILED else "",
        )
        for row in found
    ]
    columns = ["DAG", "RUN", "STATE", "DATE, PARTITION", "BY", "STARTED", "DURATION", "TASKS", "WHY"]
    return make_table(columns, rows)


def runs_table(views: list[RunView]) -> Table:
    rows = [
        (
            view.run_id,
            state_text(view.state),
            view.run_type,
            data_text(view),
            instant_text(view.run_after),
            duration_text(view.started_at, view.ended_at) if view.started_at else "",
            (view.reason or "").split("\n")[0] if view.state == "failed" else "",
        )
        for view in views
    ]
    return make_table(["RUN", "STATE", "TYPE", "DATE, PARTITION", "RUN AFTER", "DURATION", ""], rows)


@app.command("show")
def show_run(
    dag_id: DagId,
    run_id: RunId,
    watch: Annotated[bool, typer.Option("--watch", help="Follow the run until it ends.")] = False,
    as_json: Json = False,
) -> None:
    """Show a run with its tasks. With --watch the exit code is 1 if the run has failed."""

    async def look() -> RunDetails:
        tidemill = await Tidemill.connect()
        return await tidemill.runs.describe_listed(dag_id, await resolve(tidemill, dag_id, run_id))

    async def follow() -> RunDetails:
        tidemill = await Tidemill.connect()
        view = await resolve(tidemill, dag_id, run_id)
        with Live(console=console, refresh_per_second=4) as live:
            while True:
                details = await tidemill.runs.describe_listed(dag_id, view)
                view = await tidemill.runs.find(dag_id, view.run_id)
                live.update(run_group(details))
                if details.state.finished:
                    return details
                await asyncio.sleep(REFRESH_SECONDS)

    if watch:
        if run(follow()).state is not RunState.SUCCESS:
            raise typer.Exit(1)
        return
    details = run(look())
    if as_json:
        print_json(details)
    else:
        console.print(run_group(details))


async def resolve(tidemill: Tidemill, dag_id: str, run_id: str) -> RunView:
    """The run *run_id*, or for `latest` the newest, as every list has it: by its run_after."""
    if run_id != "latest":
        return await tidemill.runs.find(dag_id, run_id)
    views = await tidemill.runs.list(dag_id)
    if not views:
        fail(f"DAG {dag_id!r} has no run yet. Make one with `tidemill dags trigger {dag_id}`")
    return views[0]


def run_group(details: RunDetails) -> Group:
    counts = details.progress
    tree = Tree(
        f"[bold]{details.run.run_id}[/]  {state_text(details.state)}  "
        f"{counts.finished} of {counts.total_tasks} tasks finished"
    )
    tree.add(dates_line(details.run))
    for task in details.tasks:
        tree.add(task_line(task))
    return Group(tree)


def dates_line(identity: RunIdentity) -> str:
    """What the run is about, and from when it could start."""
    parts = [f"run after {instant_text(identity.run_after)}"]
    if (interval := identity.data_interval) is not None:
        parts.insert(0, f"data interval {instant_text(interval.start)} to {instant_text(interval.end)}")
    if identity.logical_date is not None:
        parts.insert(0, f"logical date {instant_text(identity.logical_date)}")
    return f"[dim]{', '.join(parts)}[/]"


def task_line(task: TaskView) -> str:
    tries = f"  try {task.try_number} of {task.max_tries + 1}" if task.try_number > 1 or task.max_tries else ""
    parts = [
        f"{escape(task.key):<24} {state_text(task.state)}{tries}",
        duration_text(task.started_at, task.ended_at),
        progress_text(task),
    ]
    if task.error is not None and task.state != "success":
        parts.append(f"[red]{escape(task.error)}[/]")
    elif task.state not in ("success", "running"):
        parts.append(f"[dim]{escape(task.why)}[/]")
    return "  ".join(part for part in parts if part)


def progress_text(task: TaskView) -> str:
    """What Spark is at: the stage and its counts, the flows of a pipeline, what is waited for, the driver's address.

    No percentage of a job, whose later stages are not known yet: only where the script itself tells one.
    """
    progress = task.progress or {}
    parts = [f"{progress['fraction']:.0%}"] if "fraction" in progress else []
    if "stage" in progress:
        job = f" of {progress['job']}" if progress.get("job") else ""
        parts.append(f"stage {progress['stage']}{job}: {progress['tasks_done']}/{progress['tasks']} tasks")
    elif progress.get("cluster"):
        parts.append(str(progress["cluster"]).lower())
    if progress.get("flows"):
        parts.append(f"flows: {progress['flows']}")
    if progress.get("waits_for"):
        parts.append(f"waits for {progress['waits_for']}")
    if progress.get("ui"):
        parts.append(str(progress["ui"]))
    return f"[cyan]{escape(', '.join(parts))}[/]" if parts else ""


@app.command()
def clear(
    dag_id: AnyDagId = None,
    run_id: Annotated[str | None, typer.Argument(help="The run's id, or `latest`.", autocompletion=run_ids)] = None,
    only_failed: Annotated[bool, typer.Option("--only-failed", help="Only its tasks that have failed.")] = False,
    latest: Latest = None,
    dag: Annotated[str | None, typer.Option("--dag", help="With --failed: of this DAG, as DAG_ID.")] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Instead of one run all that are failed: of the DAG, or of every DAG.")
    ] = False,
    since: Annotated[str | None, typer.Option(help="With --failed: those that ended within this time: 12h.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run again.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --failed: do not ask.")] = False,
) -> None:
    """Rerun a run under its run_id; or with --failed the failed tasks of all runs that are failed now."""
    if dag is not None:
        if not failed or dag_id is not None:
            fail("--dag goes with --failed, in the place of DAG_ID. Give one of them")
        dag_id = dag
    if failed:
        if run_id is not None or only_failed:
            fail("--failed is about the failed tasks of all failed runs. Leave RUN_ID and --only-failed out")
        clear_failed(dag_id, since, latest=latest, dry_run=dry_run, yes=yes)
        return
    if dag_id is None or run_id is None:
        fail("which run? Give DAG_ID and RUN_ID, or --failed for all that are failed")
    if since is not None:
        fail("--since goes with --failed. Leave it out")

    async def work() -> tuple[list[str], str | None]:
        tidemill = await Tidemill.connect()
        view = await resolve(tidemill, dag_id, run_id)
        hint = await announced_version(tidemill, dag_id, view, latest)
        request = ClearRequest(only_failed=only_failed, run_on_latest_version=latest)
        if dry_run:
            state = await tidemill.runs.state(view.workflow_id) if view.started_at is not None else None
            return to_clear(state.spec, state.states, request) if state is not None else [], hint
        return await tidemill.runs.clear(dag_id, view.run_id, request), hint

    cleared, hint = run(work())
    console.print(f"{'would be cleared' if dry_run else 'cleared'}: {', '.join(cleared) or 'nothing'}")
    if hint is not None and cleared:
        console.print(hint)


def clear_failed(dag_id: str | None, since: str | None, *, latest: bool | None, dry_run: bool, yes: bool) -> None:
    """Reruns the failed tasks of every run that is failed now. Ends with exit code 1 if one could not be cleared."""
    ended_after = datetime.now(UTC) - read_duration("--since", since) if since is not None else None
    found, table = run(_failed_runs(dag_id, ended_after))
    console.print(table if found else "no run is failed")
    if len(found) >= MAX_CLEARED:
        console.print(f"These are the newest {MAX_CLEARED:,}. Run the command again for older ones")
    if dry_run or not found:
        return
    if not yes:
        typer.confirm(f"Run the failed tasks of {len(found)} runs again?", abort=True)

    async def work() -> list[str]:
        tidemill, refused = await Tidemill.connect(), []
        for dag, run_id in found:
            try:
                await tidemill.runs.clear(dag, run_id, ClearRequest(only_failed=True, run_on_latest_version=latest))
            except (
                InvalidInputError,
                NotFoundError,
                NoWorkerError,
                RPCError,
            ) as error:  # the others are run all the same
                refused.append(f"{dag} {run_id}: {error}")
        return refused

    refused = run(work())
    console.print(f"cleared: {len(found) - len(refused)} runs")
    if not latest:
        console.print("They go on with the versions of their DAGs that they began with: --latest takes those in place")
    if refused:
        fail("; ".join(refused))


async def _failed_runs(dag_id: str | None, ended_after: datetime | None) -> tuple[list[tuple[str, str]], Table]:
    """The runs that are failed now, of a DAG or of all, by dag_id and run_id; and a table of them."""
    if dag_id is None:
        rows = await of_all_dags(RunState.FAILED, None, ended_after, MAX_CLEARED)
        return [(row.dag_id, row.run_id) for row in rows], all_runs_table(rows)
    views = [view for view in await (await Tidemill.connect()).runs.list(dag_id) if _ended_since(view, ended_after)]
    failed = [view for view in views if view.state is RunState.FAILED]
    return [(dag_id, view.run_id) for view in failed], runs_table(failed)


def _ended_since(view: RunView, ended_after: datetime | None) -> bool:
    """Whether a run goes on, or has ended after that."""
    return ended_after is None or view.ended_at is None or view.ended_at >= ended_after


async def announced_version(tidemill: Tidemill, dag_id: str, view: RunView, latest: bool | None) -> str | None:
    """Says with which version of its DAG a run goes on, where the one in place is another than its own."""
    spec = await tidemill.dags.spec(dag_id)
    in_place = spec.version
    if view.started_at is None:
        return None
    own = (await tidemill.runs.state(view.workflow_id)).spec.version
    if own == in_place:
        return None
    if not view.state.finished:
        return f"It is under way, and keeps version {own} of its DAG; {in_place} is in place"
    if spec.reruns_latest if latest is None else latest:
        return f"It goes on with version {in_place} of its DAG, which is in place, and not with its own {own}"
    return f"It goes on with version {own} of its DAG, and {in_place} is in place: --latest takes that"


@app.command()
def mark(dag_id: DagId, run_id: RunId, state: Annotated[RunState, typer.Argument(help="success or failed.")]) -> None:
    """End a run as success or failed, or change how an ended one counts. Tasks that run are ended first."""
    if not state.finished:
        fail(f"state = {state}: a run can be marked success or failed. Choose one of them")

    async def work() -> None:
        tidemill = await Tidemill.connect()
        view = await resolve(tidemill, dag_id, run_id)
        await tidemill.runs.mark(dag_id, view.run_id, RunMark.model_validate({"state": state}))

    run(work())
    console.print(f"{run_id} is marked {state}")


@app.command()
def set_conf(
    dag_id: DagId,
    run_id: RunId,
    conf: Annotated[str, typer.Argument(help="The run's conf, as a JSON object.")],
    as_json: Json = False,
) -> None:
    """Change the conf of a queued run: it is validated against the DAG's params, as at a trigger."""

    async def work() -> RunIdentity:
        tidemill = await Tidemill.connect()
        view = await resolve(tidemill, dag_id, run_id)
        return await tidemill.runs.set_conf(dag_id, view.run_id, read_conf(conf))

    changed = run(work())
    show(changed, as_json, make_table(["RUN", "CONF"], [(changed.run_id, json.dumps(changed.conf))]))


@app.command()
def cancel(dag_id: DagId, run_id: RunId) -> None:
    """End a run that is under way: what runs is stopped, the run has failed."""

    async def work() -> str:
        tidemill = await Tidemill.connect()
        view = await resolve(tidemill, dag_id, run_id)
        if view.state.finished:
            fail(f"run {view.run_id!r} of DAG {dag_id!r} has ended as {view.state}: there is nothing to cancel")
        await tidemill.runs.cancel(dag_id, view.run_id)
        return view.run_id

    console.print(f"{run(work())} is being cancelled")


@app.command()
def delete(dag_id: DagId, run_id: RunId) -> None:
    """Forget a run that is queued or has ended, with its history: its date can be run again."""

    async def work() -> str:
        tidemill = await Tidemill.connect()
        found = (await resolve(tidemill, dag_id, run_id)).run_id
        await tidemill.runs.delete(dag_id, found)
        return found

    console.print(f"deleted: {run(work())}")


@app.command()
def gantt(
    dag_id: DagId,
    run_id: RunId,
    output: Annotated[Path, typer.Option("--output", "-o", help="A file that ends in .png, .svg or .pdf.")] = Path(
        "gantt.png"
    ),
) -> None:
    """Draw when each task of a run ran, try by try."""

    async def work() -> RunDetails:
        tidemill = await Tidemill.connect()
        return await tidemill.runs.describe_listed(dag_id, await resolve(tidemill, dag_id, run_id))

    details = run(work())
    try:
        draw_gantt(details, output)
    except ValueError as error:
        fail(str(error))
    console.print(f"wrote {output}")
