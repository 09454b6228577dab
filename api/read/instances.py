"""Instances of tasks: those of a run, and those that a change would touch."""

from collections.abc import Sequence
from datetime import datetime

from ...model.errors import InvalidInputError
from ...model.run.ranges import runs_around, runs_between
from ...model.run.revisions import ClearRequest, MarkRequest, selected, to_clear
from ...model.run.views import RunView, TaskView
from ...model.spec.dag import DagSpec
from ...worker.service.connection import NotFoundError
from ..responses.dags import version_of
from ..responses.tasks import ShownRun
from .cached_client import CachedClient

MAX_RUNS = 100
"""So many runs are changed by one request at most."""
Instances = tuple[ShownRun, list[TaskView]]


async def instances_of(client: CachedClient, dag_id: str, run_id: str) -> Instances:
    """A run and its instances. Raises NotFoundError for a run that is not there."""
    run = await client.run(dag_id, run_id)
    details = await client.details(dag_id, run)
    if details is None:
        raise NotFoundError(f"run {run_id!r} of DAG {dag_id!r} is not known to Temporal any more")
    spec = await client.run_spec(dag_id, run)
    version = version_of(spec, await client.versions(dag_id), run.known_since) if spec is not None else None
    return ShownRun(details.run, spec, version), list(details.tasks)


async def one_instance(
    client: CachedClient, dag_id: str, run_id: str, task_id: str, map_index: int
) -> tuple[ShownRun, TaskView]:
    """An instance. Raises NotFoundError if there is none."""
    shown, views = await instances_of(client, dag_id, run_id)
    for view in views:
        if view.task_id == task_id and view.map_index == map_index:
            return shown, view
    suffix = "" if map_index < 0 else f" at map_index {map_index}"
    raise NotFoundError(f"run {run_id!r} of DAG {dag_id!r} has no task {task_id!r}{suffix}")


async def all_runs_of(client: CachedClient, dag_id: str) -> list[str]:
    """All runs of a DAG, the oldest first. Raises InvalidInputError for too many."""
    return _few(dag_id, sorted(await client.runs(dag_id), key=lambda run: (run.known_since, run.run_id)))


async def chosen_between(
    client: CachedClient, dag_id: str, since: datetime | None, until: datetime | None
) -> list[str]:
    """The runs of a DAG by their logical dates; see `runs_between`. Raises InvalidInputError for too many."""
    return _few(dag_id, runs_between(await client.runs(dag_id), since, until))


async def chosen_around(client: CachedClient, dag_id: str, run_id: str, *, past: bool, future: bool) -> list[str]:
    """The run, and those before and after it where they are meant; see `runs_around`. Raises InvalidInputError."""
    run = await client.run(dag_id, run_id)
    return _few(dag_id, runs_around(run, await client.runs(dag_id), past=past, future=future))


def _few(dag_id: str, runs: Sequence[RunView]) -> list[str]:
    if len(runs) > MAX_RUNS:
        raise InvalidInputError(
            f"{len(runs)} runs are meant, and {MAX_RUNS} can be changed at a time. Give dates, or use "
            f"`tidemill tasks clear {dag_id} RUN_ID --past`"
        )
    return [run.run_id for run in runs]


async def would_clear(client: CachedClient, dag_id: str, run_id: str, request: ClearRequest) -> Instances:
    """The instances that would run again."""
    shown, views = await instances_of(client, dag_id, run_id)
    keys = {*to_clear(_known(shown.spec), {view.key: view.state for view in views}, request)}
    return shown, [view for view in views if view.key in keys]


async def would_mark(client: CachedClient, dag_id: str, run_id: str, request: MarkRequest) -> Instances:
    """The instances that would be marked."""
    shown, views = await instances_of(client, dag_id, run_id)
    keys = {*selected(_known(shown.spec), {view.key: view.state for view in views}, request)}
    return shown, [view for view in views if view.key in keys]


def _known(spec: DagSpec | None) -> DagSpec:
    if spec is None:
        raise InvalidInputError("Temporal has forgotten the run: it cannot be changed any more")
    return spec
