"""What lineage is told of runs and tries of tasks: which job ran, from which assets to which (OpenLineage's terms)."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal
from urllib.parse import urlsplit
from uuid import NAMESPACE_URL, UUID, uuid5

from ..asset.outlets import OutletEvent
from ..base import Instant, Model
from ..spec.assets.identity import Asset
from ..spec.tasks import WaitingTask
from ..states import RunState, TaskState
from .attempts import attempt_uuid
from .state import DagRunState
from .task_instances import Failure, TaskInstance

EventType = Literal["START", "COMPLETE", "FAIL", "ABORT"]


class LineageJob(Model):
    """A DAG, or a task as `dag_id.task_id`, and one run of it."""

    run_id: UUID
    name: str


class LineageFact(Model):
    """That a run of a job has begun or ended."""

    event: EventType
    at: Instant
    job: LineageJob
    is_task: bool
    parent: LineageJob | None = None
    """The run that a task is of."""
    description: str | None = None
    nominal_start: Instant | None = None
    nominal_end: Instant | None = None
    inputs: tuple[Asset, ...] = ()
    outputs: tuple[Asset, ...] = ()
    error: str | None = None


def dag_job(state: DagRunState, first_execution: str) -> LineageJob:
    """A run; one that is run again after its end is another."""
    name = f"tidemill:{state.run.workflow_id}/{first_execution}"
    return LineageJob(run_id=uuid5(NAMESPACE_URL, name), name=state.run.dag_id)


def run_fact(state: DagRunState, first_execution: str, end: RunState | None, now: datetime) -> LineageFact:
    """That a run has begun, or ended as *end*."""
    events: dict[RunState | None, EventType] = {None: "START", RunState.SUCCESS: "COMPLETE"}
    interval = state.run.data_interval
    return LineageFact(
        event=events.get(end, "FAIL"),
        at=now,
        job=dag_job(state, first_execution),
        is_task=False,
        description=state.spec.description,
        nominal_start=interval.start if interval is not None else state.run.logical_date,
        nominal_end=interval.end if interval is not None else None,
    )


def task_fact(
    state: DagRunState,
    first_execution: str,
    execution: str,
    instance: TaskInstance,
    end: TaskState | None,
    now: datetime,
    *,
    failure: Failure | None = None,
    outlet_events: tuple[OutletEvent, ...] = (),
) -> LineageFact:
    """That a try of a task has begun, or ended as *end*. *outlet_events*: what it told of the assets that it writes."""
    task, run = state.spec.by_id[instance.task_id], state.run
    events: dict[TaskState | None, EventType] = {
        None: "START",
        TaskState.SUCCESS: "COMPLETE",
        TaskState.SKIPPED: "ABORT",
    }
    # A wait may go on in another execution of the run than it began in; nothing else does.
    begun_in = first_execution if isinstance(task, WaitingTask) else execution
    found = [event.asset for event in outlet_events if event.alias is not None]
    writes = end is None or end is TaskState.SUCCESS
    return LineageFact(
        event=events.get(end, "FAIL"),
        at=now,
        job=LineageJob(
            run_id=attempt_uuid(run, instance.task_id, instance.try_number, instance.map_index, begun_in),
            name=f"{run.dag_id}.{instance.task_id}",
        ),
        is_task=True,
        parent=dag_job(state, first_execution),
        inputs=_assets(task.inlets),
        outputs=_assets([*task.outlets, *found]) if writes else (),
        error=f"{failure.error_type}: {failure.message}" if failure is not None else None,
    )


def dataset_of(asset: Asset, namespace: str) -> tuple[str, str]:
    """Namespace and name of an asset as a dataset; one whose uri says no place is of *namespace*."""
    parts = urlsplit(asset.uri)
    if not parts.scheme:
        return namespace, asset.name
    path = parts.path.strip("/")
    if parts.scheme == "file":
        return "file", f"/{path}"
    if parts.scheme in ("postgres", "postgresql", "mysql", "snowflake", "redshift", "mssql", "trino"):
        path = path.replace("/", ".")
    return f"{parts.scheme}://{parts.netloc}", path or "/"


def _assets(leaves: Iterable[object]) -> tuple[Asset, ...]:
    return tuple({leaf.key: leaf for leaf in leaves if isinstance(leaf, Asset)}.values())
