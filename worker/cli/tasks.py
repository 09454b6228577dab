"""`tidemill tasks`: operating and looking into the tasks of a run."""

import json
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from temporalio.exceptions import ApplicationError

from ...activities.dag_files import rendered_locally
from ...model.errors import InvalidInputError
from ...model.run.attempts import WHOLE_RUN, attempt_path
from ...model.run.identity import TriggerRequest, manual_run
from ...model.run.instance_keys import split_key
from ...model.run.messages import Answer
from ...model.run.ranges import runs_around
from ...model.run.revisions import ClearRequest, MarkRequest
from ...model.run.spark_figures import compared
from ...model.run.state import DagRunState
from ...model.run.task_instances import Failure, TaskInstance
from ...model.run.views import RunDetails, RunView, TaskView, TryView
from ...model.spec.dag import DagSpec
from ...model.states import TaskState
from ..client import Tidemill
from ..local.run import try_locally
from ..service.connection import NotFoundError
from ..service.task_logs import TaskLog
from ..settings.reading import read_settings
from ..spark.tries import SparkTry, spark_tries
from .completion import DagId, RunId, Task, TaskId, Tasks, task_ids
from .dag_commands import dag_in, read_conf, show_logs
from .output import (
    Json,
    Markup,
    console,
    fail,
    instant_text,
    make_table,
    print_json,
    read_instant,
    run,
    show,
    state_text,
    typed_date,
)
from .runs import Latest, announced_version, resolve

app = typer.Typer(no_args_is_help=True, add_completion=False)

Upstream = Annotated[bool, typer.Option("--upstream", help="Also everything upstream of them.")]
Downstream = Annotated[bool, typer.Option("--downstream", help="Also everything downstream of them.")]
Past = Annotated[bool, typer.Option("--past", help="Also in all earlier runs.")]
Future = Annotated[bool, typer.Option("--future", help="Also in all later runs.")]
FOLLOW_SECONDS = 0.3


class Markable(StrEnum):
    """What a person can make of a task."""

    SUCCESS = TaskState.SUCCESS.value
    FAILED = TaskState.FAILED.value
    SKIPPED = TaskState.SKIPPED.value


@app.command()
def clear(
    dag_id: DagId,
    run_id: RunId,
    tasks: Tasks = None,
    upstream: Upstream = False,
    downstream: Downstream = False,
    past: Past = False,
    future: Future = False,
    only_failed: Annotated[bool, typer.Option("--only-failed", help="Only those that have failed.")] = False,
    latest: Latest = None,
    as_json: Json = False,
) -> None:
    """Have tasks run again. A run that has ended goes on under its run_id."""
    names = tuple(tasks or ())
    request = ClearRequest(
        tasks=names, upstream=upstream, downstream=downstream, only_failed=only_failed, run_on_latest_version=latest
    )

    async def work() -> tuple[dict[str, list[str]], str | None]:
        tidemill = await Tidemill.connect()
        hint = await announced_version(tidemill, dag_id, await resolve(tidemill, dag_id, run_id), latest)

        async def cleared(one: str) -> list[str]:
            return await tidemill.runs.clear(dag_id, one, request)

        return await in_each(tidemill, dag_id, run_id, cleared, past=past, future=future), hint

    cleared, hint = run(work())
    show_changes(cleared, as_json, "cleared")
    if hint is not None and not as_json and any(cleared.values()):
        console.print(hint)


@app.command()
def mark(
    dag_id: DagId,
    run_id: RunId,
    state: Annotated[Markable, typer.Argument(help="What they become.")],
    tasks: Annotated[
        list[str], typer.Argument(help="task_ids, or instances such as load[3].", autocompletion=task_ids)
    ],
    upstream: Upstream = False,
    downstream: Downstream = False,
    past: Past = False,
    future: Future = False,
    as_json: Json = False,
) -> None:
    """Give tasks a state without running them. One that runs is ended first."""
    fields = {"tasks": tuple(tasks), "upstream": upstream, "downstream": downstream, "state": state}
    request = MarkRequest.model_validate(fields)

    async def work() -> dict[str, list[str]]:
        tidemill = await Tidemill.connect()

        async def marked(one: str) -> list[str]:
            return await tidemill.tasks.mark(dag_id, one, request)

        return await in_each(tidemill, dag_id, run_id, marked, past=past, future=future)

    show_changes(run(work()), as_json, f"marked {state}")


async def in_each(
    tidemill: Tidemill,
    dag_id: str,
    run_id: str,
    change: Callable[[str], Awaitable[list[str]]],
    *,
    past: bool,
    future: bool,
) -> dict[str, list[str]]:
    """What *change* has changed, by run_id, oldest first: the run, and with *past* and *future* those around it.

    The named one comes first. Another that refuses, as one of a version without the task, is left out and named.
    """
    named = await resolve(tidemill, dag_id, run_id)
    others = await tidemill.runs.list(dag_id) if past or future else []
    runs = runs_around(named, others, past=past, future=future)
    changed = {named.run_id: await change(named.run_id)}
    for view in runs:
        if view.run_id not in changed:
            try:
                changed[view.run_id] = await change(view.run_id)
            except InvalidInputError as error:
                print(f"{view.run_id} is left out: {error}", file=sys.stderr)
    return {view.run_id: changed[view.run_id] for view in runs if view.run_id in changed}


def show_changes(changed: dict[str, list[str]], as_json: bool, how: str) -> None:
    if as_json:
        return print_json(changed)
    for run_id, keys in changed.items():
        console.print(f"{run_id}: {how} {', '.join(keys) or 'the run'}")
    return None


@app.command()
def explain(dag_id: DagId, run_id: RunId, task: Task, as_json: Json = False) -> None:
    """Say why a task has the state that it has."""

    async def work() -> TaskView:
        tidemill = await Tidemill.connect()
        view = await resolve(tidemill, dag_id, run_id)
        return instance_of(await tidemill.runs.describe_listed(dag_id, view), view.run_id, task)

    view = run(work())
    if as_json:
        print_json(view)
    else:
        console.print(f"{task} is {view.state}: {view.why}", soft_wrap=True)
        if view.error is not None and view.error not in view.why:
            console.print(view.error, soft_wrap=True)


@app.command("show")
def show_task(dag_id: DagId, run_id: RunId, task: Task, as_json: Json = False) -> None:
    """Show a task of a run: its state, its tries, and what their Spark applications came to.

    These are read from this host's TIDEMILL_HOME or from TIDEMILL_LOG_URL, and stand beside those of the last good run.
    """
    settings = read_settings()

    async def work() -> tuple[TaskView, list[SparkTry]]:
        tidemill = await Tidemill.connect()
        view = await resolve(tidemill, dag_id, run_id)
        one = instance_of(await tidemill.runs.describe_listed(dag_id, view), view.run_id, task)

        async def details_of(other: RunView) -> RunDetails | None:
            try:
                return await tidemill.runs.describe_listed(dag_id, other)
            except NotFoundError:
                return None

        runs = partial(tidemill.runs.list, dag_id)
        return one, await spark_tries(settings, dag_id, view, one, runs, details_of)

    view, tries = run(work())
    if as_json:
        return print_json({**view.model_dump(mode="json"), "spark": [plain_try(one) for one in tries]})
    console.print(f"{task} is {view.state}: {view.why}", soft_wrap=True)
    rows = [
        (
            one.try_number,
            state_text(one.state),
            instant_text(one.started_at),
            instant_text(one.ended_at),
            reason_of(one),
        )
        for one in view.tries
    ]
    console.print(make_table(["TRY", "STATE", "STARTED", "ENDED", "WHY"], rows))
    for each in tries:
        title = escape(f"Spark application of try {each.try_number}{f', {each.page}' if each.page else ''}")
        beside = escape(f"BESIDE {each.good_run}") if each.good_run else ""
        console.print(make_table(["FIGURE", "VALUE", beside], each.rows, title=title))
    return None


def reason_of(one: TryView) -> str:
    """The first line of a try's failure."""
    failure = one.failure
    return f"{failure.error_type}: {failure.message}".split("\n")[0] if failure is not None else ""


def plain_try(one: SparkTry) -> dict[str, Any]:
    """*one* as JSON."""
    times = compared(one.figures, one.good) if one.good is not None else {}
    return {
        **one.figures.model_dump(mode="json", exclude_none=True),
        "try_number": one.try_number,
        "history": one.page,
        "compared_with": one.good_run,
        "times_as_much": {name: round(ratio, 2) for name, ratio in times.items()},
    }


def instance_of(details: RunDetails, run_id: str, task: str) -> TaskView:
    """The instance that is called *task*; ends the command where there is none."""
    found = {each.key: each for each in details.tasks}
    if task not in found:
        fail(f"run {run_id!r} has no task {task!r}. Its tasks are: {', '.join(found)}")
    return found[task]


@app.command()
def respond(
    dag_id: DagId,
    run_id: RunId,
    task: Task,
    chosen: Annotated[list[str], typer.Argument(help="The answer: one of the task's options, or several.")],
    by: Annotated[str | None, typer.Option(help="Who answers.")] = None,
    params: Annotated[str | None, typer.Option(help="What the task's form asks for, as a JSON object.")] = None,
) -> None:
    """Answer a task that waits for a person."""
    given = read_conf(params)

    async def work() -> None:
        tidemill = await Tidemill.connect()
        view = await resolve(tidemill, dag_id, run_id)
        await tidemill.tasks.respond(dag_id, view.run_id, Answer(task=task, chosen=tuple(chosen), by=by, params=given))

    run(work())
    console.print(f"{task}: {', '.join(chosen)}")


@app.command("list")
def list_tasks(dag_id: DagId, as_json: Json = False) -> None:
    """List a DAG's tasks, in the order in which the file defines them."""

    async def work() -> DagSpec:
        return await (await Tidemill.connect()).dags.spec(dag_id)

    tasks = run(work()).tasks
    rows = [(task.task_id, task.kind, ", ".join(task.upstream), task.trigger_rule, task.pool) for task in tasks]
    show(tasks, as_json, make_table(["TASK", "KIND", "AFTER", "TRIGGER RULE", "POOL"], rows))


@app.command("test")
def try_task(
    dag_id: DagId,
    task: TaskId,
    logical_date: Annotated[
        str | None, typer.Argument(help="The logical date; ISO 8601, in UTC unless it has an offset. Now, by default.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="The DAG file; by default the one that the DAG was registered from.")
    ] = None,
    conf: Annotated[str | None, typer.Option("--conf", "-c", help="The run's conf, as a JSON object.")] = None,
) -> None:
    """Run one task here and now, once, whatever it depends on; nothing of it is recorded."""

    async def source() -> Path:
        spec = await (await Tidemill.connect()).dags.spec(dag_id)
        if spec.source is None:
            fail(f"DAG {dag_id!r} was not registered from a file. Say with --file where it is")
        return Path(spec.source.path)

    path = file or run(source())
    dag = dag_in(path, dag_id)
    date = read_instant(logical_date, "logical_date") if logical_date is not None else datetime.now(UTC)
    show_logs()
    try:
        outcome = try_locally(dag, task, logical_date=date, conf=read_conf(conf))
    except InvalidInputError as error:
        fail(str(error))
    if isinstance(outcome, Failure):
        fail(f"{task}: {outcome.error_type}: {outcome.message}")
    console.print(Markup(f"{escape(task)}: {state_text(outcome.state)}"))
    if outcome.xcom:
        print_json(outcome.xcom)


@app.command("render")
def render_task(
    dag_id: DagId,
    task: TaskId,
    logical_date: Annotated[
        str,
        typer.Argument(help="A logical date, ISO 8601, in UTC without an offset; or a run's id, or `latest`."),
    ],
) -> None:
    """Show a task's templates filled in for a date, or as for a run with its results, without running it."""

    async def work() -> object:
        tidemill = await Tidemill.connect()
        spec = await tidemill.dags.spec(dag_id)
        if task not in spec.by_id:
            fail(f"DAG {dag_id!r} has no task {task!r}. Its tasks are: {', '.join(spec.by_id)}")
        state = await state_to_render(tidemill, spec, logical_date)
        attempt = state.attempt(TaskInstance(task_id=task, try_number=1), "render")
        try:
            settings = read_settings()
            return rendered_locally(attempt, settings.results_url)
        except ApplicationError as error:
            fail(error.message)

    sys.stdout.write(json.dumps(run(work()), indent=2, default=str) + "\n")


async def state_to_render(tidemill: Tidemill, spec: DagSpec, wanted: str) -> DagRunState:
    """A run of the date *wanted* in which nothing has run yet; or the run of that id, with its results."""
    if typed_date(wanted) is not None:
        date = read_instant(wanted, "logical_date")
        return DagRunState(
            run=manual_run(spec.dag_id, spec.schedule, TriggerRequest(logical_date=date), date), spec=spec
        )
    view = await resolve(tidemill, spec.dag_id, wanted)
    return await tidemill.runs.state(view.workflow_id)


@app.command()
def logs(
    dag_id: DagId,
    run_id: RunId,
    task: Task,
    try_number: Annotated[int | None, typer.Option("--try", min=1, help="Which try; by default the last.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print what is added until the task ends.")] = False,
) -> None:
    """Print a task's log, from this host's TIDEMILL_HOME or from TIDEMILL_LOG_URL.

    In the place of a task, __run__ is what the DAG's own callbacks have printed.
    """

    async def look() -> tuple[str, int, bool]:
        tidemill = await Tidemill.connect()
        view = await resolve(tidemill, dag_id, run_id)
        if task == WHOLE_RUN:
            return view.run_id, try_number or 1, view.state.finished
        one = instance_of(await tidemill.runs.describe_listed(dag_id, view), view.run_id, task)
        if one.state.finished and not one.try_number and try_number is None:
            fail(f"task {task!r} of run {view.run_id!r} has no log, since it has not run. It is {one.state}: {one.why}")
        return view.run_id, try_number or max(1, one.try_number), one.state.finished

    found, number, ended = run(look())
    task_id, map_index = split_key(task)
    log = TaskLog(read_settings(), attempt_path(dag_id, found, task_id, number, map_index) + ".log")
    read = print_from(log, 0)
    if not (read or log.is_there) and not (follow and not ended):
        fail(
            f"there is no log in {log.places}. The try ran on another host: set TIDEMILL_LOG_URL to a store that "
            "workers and this command reach, or TIDEMILL_HOME to the folder of that host"
        )
    while follow and not ended:
        time.sleep(FOLLOW_SECONDS)
        _, now, finished = run(look())
        ended = finished or now != number
        read = print_from(log, read)


def print_from(log: TaskLog, offset: int) -> int:
    """Prints what the log has from *offset* on; how far that was."""
    added = log.read(offset)
    sys.stdout.write(added.decode(errors="replace"))
    sys.stdout.flush()
    return offset + len(added)
