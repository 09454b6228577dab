"""Questions about runs and tasks, of this DAG and of others; and runs that a task starts."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal, NoReturn

from .....model.errors import InvalidInputError
from .....model.run.facts import Question, RunSummary, runs_before, runs_of
from .....model.states import RunState, TaskState
from . import OK, Answering, Asking, Message, missing

COLUMNS = {
    "run_id", "run_type", "state", "logical_date", "run_after", "started_at", "ended_at", "data_interval_start",
    "data_interval_end", "triggering_user_name", "partition_key", "partition_date", "conf",
}  # fmt: skip
"""What Airflow's SDK takes of a run, by tidemill's names: it refuses any other."""


def dag_run(dag_id: str, run: RunSummary, mode: Literal["json", "python"] = "json") -> Message:
    """Return the run as Airflow's models have it, its times as text, or with *mode* "python" as they are."""
    known = run.model_dump(mode=mode, include=COLUMNS)
    times = {"start_date": known.pop("started_at"), "end_date": known.pop("ended_at")}
    return {**known, **times, "dag_id": dag_id, "consumed_asset_events": []}


def _run(asking: Asking, message: Message) -> Message:
    found = runs_of(asking.worker, message["dag_id"], message["run_id"])
    if not found:
        _no_run(message)
    return {"type": "DagRunResult", **dag_run(message["dag_id"], found[0])}


def _run_state(asking: Asking, message: Message) -> Message:
    found = runs_of(asking.worker, message["dag_id"], message["run_id"])
    if not found:
        _no_run(message)
    asking.report.other_run = f"run {message['run_id']!r} of DAG {message['dag_id']!r} is {found[0].state}"
    return {"type": "DagRunStateResult", "state": str(found[0].state)}


def _no_run(message: Message) -> NoReturn:
    raise InvalidInputError(f"DAG {message['dag_id']!r} has no run {message['run_id']!r}")


def _run_count(asking: Asking, message: Message) -> Message:
    states = message.get("states") or ()
    count = sum(1 for run in _runs(asking, message) if not states or str(run.state) in states)
    return {"type": "DRCount", "count": count}


def _runs(asking: Asking, message: Message) -> list[RunSummary]:
    """The runs of a DAG that a message means: by ids, by dates, else all."""
    dates, ids = _dates(message), message.get("run_ids") or ()
    return [
        run
        for run in runs_of(asking.worker, message["dag_id"])
        if (not dates or run.logical_date in dates) and (not ids or run.run_id in ids)
    ]


def _dates(message: Message) -> set[datetime]:
    return {_instant(date) for date in message.get("logical_dates") or ()}


def _instant(value: Any) -> datetime:
    date = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return date.astimezone(UTC)


def _instances(asking: Asking, message: Message) -> Iterator[tuple[str, dict[str, Any]]]:
    """The task instances that a message means, with the run_id of each."""
    tasks = _tasks(asking, message)
    index = message.get("map_index")
    own = asking.attempt.run
    ids = message.get("run_ids") or ()
    if message["dag_id"] == own.dag_id and [*ids] == [own.run_id] and not message.get("logical_dates"):
        runs = [own.run_id]
    else:
        runs = [run.run_id for run in _runs(asking, message)]
    for run_id in runs:
        of_workflow = own.workflow_id if (message["dag_id"], run_id) == (own.dag_id, own.run_id) else None
        question = Question(about="states", dag_id=message["dag_id"], run_id=run_id, of_workflow=of_workflow)
        for instance in asking.worker.facts(question).values():
            if tasks is not None and instance["task_id"] not in tasks:
                continue
            if index is None or instance["map_index"] == index:
                yield run_id, instance


def _tasks(asking: Asking, message: Message) -> set[str] | None:
    """The tasks that a message means; None: all."""
    wanted = {*(message.get("task_ids") or ())}
    if (group := message.get("task_group_id")) is not None:
        known = asking.worker.facts(Question(about="dag", dag_id=message["dag_id"]))
        if group not in known["groups"]:
            raise InvalidInputError(f"DAG {message['dag_id']!r} has no task group {group!r}. Correct the id")
        wanted |= {*known["groups"][group]}
    return wanted or None


def _instance_count(asking: Asking, message: Message) -> Message:
    states = {"none" if state == "null" else state for state in message.get("states") or ()}
    found = [one for _, one in _instances(asking, message) if not states or one["state"] in states]
    return {"type": "TICount", "count": len(found)}


def _task_states(asking: Asking, message: Message) -> Message:
    found: dict[str, dict[str, str | None]] = {}
    for run_id, instance in _instances(asking, message):
        index = instance["map_index"]
        name = instance["task_id"] + (f"_{index}" if index >= 0 else "")
        found.setdefault(run_id, {})[name] = None if instance["state"] == "none" else instance["state"]
    return {"type": "TaskStatesResult", "task_states": found}


def _breadcrumbs(asking: Asking, message: Message) -> Message:
    crumbs = [
        {
            "task_id": one["task_id"],
            "map_index": one["map_index"],
            "state": one["state"],
            "operator": None,  # for Sentry alone
            "duration": _duration(one),
        }
        for _, one in _instances(asking, {**message, "run_ids": [message["run_id"]]})
        if TaskState(one["state"]).finished
    ]
    return {"type": "TaskBreadcrumbsResult", "breadcrumbs": crumbs}


def _duration(instance: dict[str, Any]) -> float | None:
    if not instance["start_date"] or not instance["end_date"]:
        return None
    return (_instant(instance["end_date"]) - _instant(instance["start_date"])).total_seconds()


def _previous_run(asking: Asking, message: Message) -> Message:
    date, state = _instant(message["logical_date"]), message.get("state")
    before = runs_before(runs_of(asking.worker, message["dag_id"]), date, state)
    found = dag_run(message["dag_id"], _whole(asking, message, before[0])) if before else None
    return {"type": "PreviousDagRunResult", "dag_run": found}


def _whole(asking: Asking, message: Message, run: RunSummary) -> RunSummary:
    """*run* with its interval and its conf."""
    return next(iter(runs_of(asking.worker, message["dag_id"], run.run_id)), run)


def _previous_success(asking: Asking, _message: Message) -> Message:
    run = asking.attempt.run
    before = runs_before(runs_of(asking.worker, run.dag_id), run.logical_date, RunState.SUCCESS)
    if not before:
        return {"type": "PrevSuccessfulDagRunResult"}
    known = dag_run(run.dag_id, _whole(asking, {"dag_id": run.dag_id}, before[0]))
    names = ("data_interval_start", "data_interval_end", "start_date", "end_date")
    return {"type": "PrevSuccessfulDagRunResult", **{name: known[name] for name in names}}


def _previous_instance(asking: Asking, message: Message) -> Message:
    date = message.get("logical_date")
    latest = _instant(date) if date is not None else datetime.max.replace(tzinfo=UTC)
    for run in runs_before(runs_of(asking.worker, message["dag_id"]), latest):
        question = {"dag_id": message["dag_id"], "run_ids": [run.run_id], "task_ids": [message["task_id"]]}
        for _, one in _instances(asking, {**question, "map_index": message["map_index"]}):
            if message.get("state") in (None, one["state"]):
                return {"type": "PreviousTIResult", "task_instance": _as_previous(message, run, one)}
    return {"type": "PreviousTIResult", "task_instance": None}


def _as_previous(message: Message, run: RunSummary, instance: dict[str, Any]) -> Message:
    names = ("task_id", "map_index", "state", "try_number", "start_date", "end_date")
    return {
        **{name: instance[name] for name in names},
        "dag_id": message["dag_id"],
        "run_id": run.run_id,
        "logical_date": run.logical_date.isoformat() if run.logical_date is not None else None,
        "duration": _duration(instance),
    }


def _dag(asking: Asking, message: Message) -> Message:
    known = asking.worker.facts(Question(about="dag", dag_id=message["dag_id"]))
    return {
        "type": "DagResult",
        "dag_id": message["dag_id"],
        "is_paused": known["is_paused"],
        "bundle_name": known["bundle"],
        "bundle_version": known["bundle_version"],
        "relative_fileloc": known["file"],
        "owners": known["owner"],
        "tags": [*known["tags"]],
        "next_dagrun": known["next_dagrun"],
    }


def _trigger(asking: Asking, message: Message) -> Message:
    """Starts a run; a try that is started again finds the one that it has started before.

    Raises InvalidInputError where no run was started.
    """
    wanted = {key: value for key, value in message.items() if key not in ("type", "state") and value is not None}
    for name in ("logical_date", "run_after"):
        if isinstance(wanted.get(name), datetime):
            wanted[name] = wanted[name].isoformat()
    answer = asking.ask(trigger=wanted, attempt=asking.attempt.model_dump(mode="json"))
    if answer.get("exists"):
        asking.report.other_run = f"run {message['run_id']!r} of DAG {message['dag_id']!r} is there already"
        return missing("DAGRUN_ALREADY_EXISTS", dag_id=message["dag_id"], run_id=message["run_id"])
    return OK


ANSWERS: dict[str, Answering] = {
    "GetDagRun": _run,
    "GetDagRunState": _run_state,
    "GetDRCount": _run_count,
    "GetTICount": _instance_count,
    "GetTaskStates": _task_states,
    "GetTaskBreadcrumbs": _breadcrumbs,
    "GetPreviousDagRun": _previous_run,
    "GetPrevSuccessfulDagRun": _previous_success,
    "GetPreviousTI": _previous_instance,
    "GetDag": _dag,
    "TriggerDagRun": _trigger,
}
