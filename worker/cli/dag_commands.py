"""`tidemill dags`: looking at a DAG, trying it out, pausing and triggering it."""

import getpass
import json
import logging
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.markup import escape

from ...activities.dag_files import root_of
from ...activities.work.airflow_detection import NeedsAirflow, noticing
from ...activities.work.dag_code import import_dags
from ...activities.work.failures import describe_failure, print_failure
from ...model.dag.explaining import Explanation
from ...model.dag.row import timetable_summary
from ...model.dag.views import DagView
from ...model.errors import InvalidInputError
from ...model.errors import explain as clear
from ...model.run.identity import RunIdentity, TriggeredBy, TriggerRequest
from ...model.run.task_instances import TaskInstance
from ...model.states import TaskState
from ..client import Tidemill
from ..local.airflow import AirflowFile, go_on_with_airflow
from ..local.run import LocalDag, OfAirflow, run_locally
from ..settings.dev_store import use_dev_store
from ..settings.reading import read_settings
from .completion import DagId, dag_ids
from .output import (
    Json,
    Markup,
    console,
    errors,
    fail,
    in_utc,
    instant_text,
    make_table,
    print_json,
    read_instant,
    run,
    show,
    state_text,
)


def show_dag(dag_id: DagId, as_json: Json = False) -> None:
    """Show a DAG: when it runs next and why, its limits, its last decisions."""

    async def work() -> DagView:
        return await (await Tidemill.connect()).dags.describe(dag_id)

    view = run(work())
    if as_json:
        print_json(view)
        return
    interval = view.next_dagrun_data_interval
    rows: list[tuple[str, Any]] = [
        ("dag_id", view.dag_id),
        ("description", view.description),
        ("schedule", timetable_summary(view.schedule)),
        ("version", view.version),
        ("source", view.source),
        ("is_paused", view.is_paused),
        ("next_dagrun", instant_text(view.next_dagrun)),
        ("next_dagrun_data_interval", interval and f"{instant_text(interval.start)} to {instant_text(interval.end)}"),
        ("next_dagrun_create_after", instant_text(view.next_dagrun_create_after)),
        ("", view.next_dagrun_note),
        ("runs", f"{view.active_runs} running, {view.queued_runs} queued, max_active_runs {view.max_active_runs}"),
    ]
    console.print(make_table(["", ""], [row for row in rows if row[1] not in (None, "")]))
    decisions = [(instant_text(d.at), d.kind, d.about, d.reason) for d in reversed(view.decisions)]
    console.print(make_table(["AT", "DECISION", "ABOUT", "WHY"], decisions))


def explain(dag_id: DagId, as_json: Json = False) -> None:
    """Say why the next run is due when it is, or why nothing is created, and what was decided last."""

    async def work() -> Explanation:
        return await (await Tidemill.connect()).dags.explain(dag_id)

    explanation = run(work())
    if as_json:
        print_json(explanation)
        return
    for line in (f"next run: {explanation.next_run}", *explanation.queued, *explanation.backfills):
        console.print(line, soft_wrap=True)
    decisions = [(instant_text(d.at), d.kind, d.about, d.reason) for d in reversed(explanation.decisions)]
    console.print(make_table(["AT", "DECISION", "ABOUT", "WHY"], decisions))


DATE = re.compile(r"\d{4}-\d\d-\d\d")
"""What a date begins with, that may stand in the place of the file's only DAG."""


def dag_in(path: Path, dag_id: str | None) -> LocalDag:
    """The DAG of that id in the file at *path*, or the only one, imported here; one clear line where it is not.

    For a file that imports Airflow, the Python that has it takes over.
    """
    if not path.is_file():
        fail(f"{path} is not on this host. Say with --file where the DAG file is")
    try:
        with noticing(offered=True):
            dags = {made.dag_id: made for made in import_dags(path.resolve(), [root_of(path)], shortens=False)}
    except NeedsAirflow:
        go_on_with_airflow(read_settings().airflow_python)
        file = AirflowFile(path.resolve())
        return OfAirflow(file, dag_id or only_one(path, [made.dag_id for made in file.code.airflow_dags]))
    except InvalidInputError as error:
        fail(str(error))
    except (Exception, SystemExit) as error:  # the file's own
        print_failure(error)
        fail(f"{path} cannot be imported: {describe_failure(error).error_type}")
    if dag_id is None:
        return dags[only_one(path, [*dags])]
    if dag_id not in dags:
        fail(f"{path} defines no DAG {dag_id!r}. It defines: {', '.join(dags) or 'none'}")
    return dags[dag_id]


def only_one(path: Path, dag_ids: list[str]) -> str:
    """The DAG of a file that has one; one clear line where it has another number of them."""
    if len(dag_ids) != 1:
        fail(f"which DAG of {path}? Name one of those that it defines: {', '.join(dag_ids) or 'none'}")
    return dag_ids[0]


def show_logs() -> None:
    """Has what functions log in this process be shown, as in the log of a task: from INFO on."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout)


def try_dag(
    path: Annotated[Path, typer.Argument(help="A DAG file.", exists=True, dir_okay=False)],
    dag_id: Annotated[
        str | None, typer.Argument(help="The DAG's id; by default the file's only one.", autocompletion=dag_ids)
    ] = None,
    logical_date: Annotated[
        str | None, typer.Argument(help="The logical date; ISO 8601, in UTC unless it has an offset. Now, by default.")
    ] = None,
    conf: Annotated[str | None, typer.Option("--conf", "-c", help="The run's conf, as a JSON object.")] = None,
) -> None:
    """Run a DAG here and now, without a server: Python functions in this process, as for a debugger."""
    if dag_id is not None and logical_date is None and DATE.match(dag_id):
        dag_id, logical_date = None, dag_id
    dag = dag_in(path, dag_id)
    date = read_instant(logical_date, "logical_date") if logical_date is not None else datetime.now(UTC)
    show_logs()
    use_dev_store(read_settings().home)
    try:
        details = run_locally(dag, logical_date=date, conf=read_conf(conf), on_change=_tell)
    except InvalidInputError as error:
        fail(str(error))
    console.print(Markup(f"{details.run.run_id}: {state_text(details.state)}"))
    if details.state == "failed":
        raise typer.Exit(1)


def _tell(instance: TaskInstance) -> None:
    if instance.state is TaskState.QUEUED:
        console.print(f"running {instance.key}, try {instance.try_number}")
        return
    failure = f"  {escape(instance.failure.error_type)}: {escape(instance.failure.message)}" if instance.failure else ""
    console.print(Markup(f"{escape(instance.key)}: {state_text(instance.state)}{failure}"))


def trigger(
    dag_id: DagId,
    conf: Annotated[str | None, typer.Option("--conf", "-c", help="The run's conf, as a JSON object.")] = None,
    run_id: Annotated[str | None, typer.Option(help="The run's id; by default manual__<now>.")] = None,
    logical_date: Annotated[
        str | None, typer.Option(help="ISO 8601, in UTC unless it has an offset. By default now.")
    ] = None,
    no_logical_date: Annotated[
        bool, typer.Option("--no-logical-date", help="The run is about no date: `ds` and its kin are not there.")
    ] = False,
    run_after: Annotated[
        str | None, typer.Option(help="Not before this instant; ISO 8601, in UTC unless it has an offset.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a manual run."""
    if no_logical_date and logical_date is not None:
        fail("--logical-date and --no-logical-date are both given. Leave one of them out")
    now = None if no_logical_date else datetime.now(UTC).isoformat()
    fields = {
        "run_id": run_id,
        "logical_date": in_utc(logical_date) or now,
        "dated_now": logical_date is None and now is not None,
        "run_after": in_utc(run_after),
        "conf": read_conf(conf),
        "triggered_by": TriggeredBy.CLI,
        "triggering_user_name": _user(),
    }
    try:
        request = TriggerRequest.model_validate(fields)
    except ValidationError as error:
        fail(str(clear(error, f"trigger of DAG {dag_id!r}", TriggerRequest)))

    async def work() -> RunIdentity:
        return await (await Tidemill.connect()).runs.trigger(dag_id, request)

    made = run(work())
    show(made, as_json, make_table(["DAG", "RUN"], [(made.dag_id, made.run_id)]))


def _user() -> str | None:
    """Who runs the command. In a container a user may have a number only."""
    try:
        return getpass.getuser()[:100] or None
    except (KeyError, OSError):
        return None


def read_conf(text: str | None) -> dict[str, Any]:
    try:
        conf = json.loads(text) if text is not None else {}
    except json.JSONDecodeError as error:
        fail(f"--conf = {text!r} is not JSON ({error}). Write an object, such as --conf '{{\"day\": 1}}'")
    if not isinstance(conf, dict):
        fail(f"--conf = {text!r} is not a JSON object. Write one, such as --conf '{{\"day\": 1}}'")
    return conf


def pause(
    dag_id: DagId,
    cancel_runs: Annotated[
        bool, typer.Option("--cancel-runs", help="Also end the runs under way, with all that runs for them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create and start no more runs of a DAG, and no more tasks of those under way. Tasks that run go on."""
    set_paused(dag_id, True, as_json, cancel_runs=cancel_runs)


def unpause(dag_id: DagId, as_json: Json = False) -> None:
    """Create runs again, as `catchup` says."""
    set_paused(dag_id, False, as_json)


def set_paused(dag_id: str, paused: bool, as_json: bool, *, cancel_runs: bool = False) -> None:
    async def work() -> DagView:
        tidemill = await Tidemill.connect()
        await tidemill.dags.pause(dag_id, paused)
        if cancel_runs:
            await tidemill.runs.cancel_all(dag_id)
        return await tidemill.dags.describe(dag_id)

    view = run(work())
    show(view, as_json, make_table(["DAG", ""], [(view.dag_id, "paused" if view.is_paused else "active")]))


def assign(
    dag_id: DagId,
    bundle: Annotated[str | None, typer.Option(help="The bundle that alone may register the DAG.")] = None,
    by_hand: Annotated[bool, typer.Option("--by-hand", help="No bundle may: the DAG is registered by hand.")] = False,
    as_json: Json = False,
) -> None:
    """Say whose a DAG is: which bundle may replace it. Its file takes effect when it is registered next."""
    if (bundle is None) != by_hand:
        fail("whose is the DAG? Give either --bundle or --by-hand")

    async def work() -> bool:
        return await (await Tidemill.connect()).dags.assign(dag_id, bundle)

    changed = run(work())
    whose = f"bundle {bundle}" if bundle else "nobody but who registers it by hand"
    text = f"assigned to {whose}" if changed else f"is assigned to {whose} already"
    show([{"dag_id": dag_id, "bundle": bundle, "changed": changed}], as_json, make_table(["DAG", ""], [(dag_id, text)]))


def delete(
    dag_id: DagId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """End a DAG and forget it, with the histories of its runs. Refused while runs are under way."""
    if not yes:
        typer.confirm(f"Forget DAG {dag_id!r} and the histories of all its runs?", abort=True)

    async def work() -> int:
        return await (await Tidemill.connect()).dags.delete(dag_id)

    with errors.status("until Temporal has forgotten its runs"):
        deleted = run(work())
    show([{"dag_id": dag_id, "runs": deleted}], as_json, make_table(["DAG", "RUNS DELETED"], [(dag_id, deleted)]))
