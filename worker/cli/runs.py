"""`tidemill runs`: listing runs, looking into one, reading its logs."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from ...model.attempts import attempt_path
from ...model.views import RunDetails, RunView, TaskView
from ..client import Tidemill
from ..settings import Settings
from .output import Json, console, duration_text, fail, instant_text, make_table, print_json, run, show, state_text

app = typer.Typer(no_args_is_help=True, help="List runs, look into one, read its logs.")

DagId = Annotated[str, typer.Argument(help="The DAG's id.")]
RunId = Annotated[str, typer.Argument(help="The run's id, or `latest`.")]
REFRESH_SECONDS = 0.5


@app.command("list")
def list_runs(
    dag_id: DagId,
    state: Annotated[str | None, typer.Option(help="Only runs in this state.")] = None,
    as_json: Json = False,
) -> None:
    """List a DAG's queued, running and recent runs, newest first."""

    async def work() -> list[RunView]:
        return await (await Tidemill.connect()).runs(dag_id)

    views = [view for view in run(work()) if state is None or view.state == state]
    show(views, as_json, runs_table(views))


def runs_table(views: list[RunView]) -> Table:
    rows = [
        (
            view.run_id,
            state_text(view.state),
            view.run_type,
            instant_text(view.logical_date),
            duration_text(view.started_at, view.ended_at) if view.started_at else "",
            (view.reason or "").split("\n")[0][:80] if view.state == "failed" else "",
        )
        for view in views
    ]
    return make_table(["RUN", "STATE", "TYPE", "LOGICAL DATE", "DURATION", ""], rows)


@app.command("show")
def show_run(
    dag_id: DagId,
    run_id: RunId,
    watch: Annotated[bool, typer.Option("--watch", help="Follow the run until it ends.")] = False,
    as_json: Json = False,
) -> None:
    """Show a run with its tasks."""

    async def look() -> RunDetails:
        tidemill = await Tidemill.connect()
        return await tidemill.run_by_workflow((await resolve(tidemill, dag_id, run_id)).workflow_id)

    async def follow() -> None:
        tidemill = await Tidemill.connect()
        view = await resolve(tidemill, dag_id, run_id)
        with Live(console=console, refresh_per_second=4) as live:
            while True:
                details = await tidemill.run_by_workflow(view.workflow_id)
                live.update(run_group(details))
                if details.state.finished:
                    return
                await asyncio.sleep(REFRESH_SECONDS)

    if watch:
        return run(follow())
    details = run(look())
    return print_json(details) if as_json else console.print(run_group(details))


async def resolve(tidemill: Tidemill, dag_id: str, run_id: str) -> RunView:
    """The run *run_id*, or the newest one for `latest`."""
    if run_id != "latest":
        return await tidemill.find_run(dag_id, run_id)
    views = await tidemill.runs(dag_id)
    if not views:
        fail(f"DAG {dag_id!r} has no run yet. Make one with `tidemill dags trigger {dag_id}`")
    return views[0]


def run_group(details: RunDetails) -> Group:
    counts = details.progress
    tree = Tree(
        f"[bold]{details.run.run_id}[/]  {state_text(details.state)}  "
        f"{counts.finished} of {counts.total_tasks} tasks finished"
    )
    for task in details.tasks:
        tree.add(task_line(task))
    return Group(tree)


def task_line(task: TaskView) -> str:
    tries = f"  try {task.try_number} of {task.max_tries + 1}" if task.try_number > 1 or task.max_tries else ""
    parts = [
        f"{task.task_id:<24} {state_text(task.state)}{tries}",
        duration_text(task.started_at, task.ended_at),
        progress_text(task),
    ]
    if task.error is not None and task.state != "success":
        parts.append(f"[red]{escape(task.error.split(chr(10))[0][:160])}[/]")
    elif task.state in ("none", "scheduled", "queued", "up_for_retry", "skipped", "upstream_failed"):
        parts.append(f"[dim]{escape(task.why)}[/]")
    return "  ".join(part for part in parts if part)


def progress_text(task: TaskView) -> str:
    """What Spark is at: the stage and its counts. No percentage of a job: its later stages are not known yet."""
    told = task.progress
    if not told or "stage" not in told:
        return ""
    return f"[cyan]stage {told['stage']}: {told['tasks_done']}/{told['tasks']} tasks[/]"


@app.command()
def logs(
    dag_id: DagId,
    run_id: RunId,
    task_id: Annotated[str, typer.Argument(help="The task's id.")],
    try_number: Annotated[int | None, typer.Option("--try", min=1, help="Which try; by default the last.")] = None,
) -> None:
    """Print a task's log, from this host's TIDEMILL_HOME."""

    async def work() -> tuple[str, int]:
        tidemill = await Tidemill.connect()
        view = await resolve(tidemill, dag_id, run_id)
        details = await tidemill.run_by_workflow(view.workflow_id)
        tasks = {task.task_id: task for task in details.tasks}
        if task_id not in tasks:
            fail(f"run {view.run_id!r} has no task {task_id!r}. Its tasks are: {', '.join(tasks)}")
        return view.run_id, try_number or max(1, tasks[task_id].try_number)

    found, number = run(work())
    path = Path(Settings().home, "logs", attempt_path(dag_id, found, task_id, number) + ".log")
    if not path.is_file():
        fail(f"there is no log at {path}. The try ran on another host, or TIDEMILL_HOME is another folder there")
    sys.stdout.write(path.read_text(errors="replace"))
