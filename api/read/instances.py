"""Instances of tasks: those of a run, and those that a change would touch."""

from datetime import datetime

from ...model.errors import InvalidInputError
from ...model.run.identity import RunIdentity
from ...model.run.revisions import ClearRequest, MarkRequest, selected, to_clear
from ...model.run.views import TaskView
from ...model.spec.dag import DagSpec
from ...worker.connection import NotFoundError
from .cached_client import CachedClient

MAX_RUNS = 100
"""So many runs are changed by one request at most."""
Instances = tuple[RunIdentity, DagSpec | None, list[TaskView]]


async def instances_of(source: CachedClient, dag_id: str, run_id: str) -> Instances:
    """A run, its version of the DAG, and its instances. Raises NotFoundError for a run that is not there."""
    run = await source.run(dag_id, run_id)
    details = await source.details(dag_id, run)
    if details is None:
        raise NotFoundError(f"run {run_id!r} of DAG {dag_id!r} is not known to Temporal any more")
    return details.run, await source.run_spec(dag_id, run), list(details.tasks)


async def one_instance(
    source: CachedClient, dag_id: str, run_id: str, task_id: str, map_index: int
) -> tuple[RunIdentity, DagSpec | None, TaskView]:
    """An instance. Raises NotFoundError if there is none."""
    run, spec, views = await instances_of(source, dag_id, run_id)
    for view in views:
        if view.task_id == task_id and view.map_index == map_index:
            return run, spec, view
    suffix = "" if map_index < 0 else f" at map_index {map_index}"
    raise NotFoundError(f"run {run_id!r} of DAG {dag_id!r} has no task {task_id!r}{suffix}")


async def runs_between(source: CachedClient, dag_id: str, since: datetime | None, until: datetime | None) -> list[str]:
    """The runs of a DAG by their logical date, or by run_after where they have none, oldest first; both ends included.

    Raises InvalidInputError for more than can be changed by one request.
    """
    dated = [(run.logical_date or run.run_after, run.run_id) for run in await source.runs(dag_id)]
    found = sorted(
        (at, run_id) for at, run_id in dated if (since is None or at >= since) and (until is None or at <= until)
    )
    if len(found) > MAX_RUNS:
        raise InvalidInputError(
            f"{len(found)} runs are meant, and {MAX_RUNS} can be changed at a time. Give dates, or use "
            f"`tidemill tasks clear {dag_id} RUN_ID --past`"
        )
    return [run_id for _, run_id in found]


async def runs_around(source: CachedClient, dag_id: str, run_id: str, *, past: bool, future: bool) -> list[str]:
    """The run, and those before and after it where they are meant (Airflow: include_past, include_future)."""
    run = await source.run(dag_id, run_id)
    if not (past or future):
        return [run_id]
    date = run.logical_date or run.run_after
    return await runs_between(source, dag_id, None if past else date, None if future else date)


async def would_clear(source: CachedClient, dag_id: str, run_id: str, request: ClearRequest) -> Instances:
    """The instances that would run again."""
    run, spec, views = await instances_of(source, dag_id, run_id)
    keys = {*to_clear(_known(spec), {view.key: view.state for view in views}, request)}
    return run, spec, [view for view in views if view.key in keys]


async def would_mark(source: CachedClient, dag_id: str, run_id: str, request: MarkRequest) -> Instances:
    """The instances that would be marked."""
    run, spec, views = await instances_of(source, dag_id, run_id)
    keys = {*selected(_known(spec), {view.key: view.state for view in views}, request)}
    return run, spec, [view for view in views if view.key in keys]


def _known(spec: DagSpec | None) -> DagSpec:
    if spec is None:
        raise InvalidInputError("Temporal has forgotten the run: it cannot be changed any more")
    return spec
