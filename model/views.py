"""What a DAG and a run answer when they are asked: plain data, the same in the CLI, the client and Temporal's UI."""

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Any

from .base import Instant, Model, iso
from .dag_records import MadeDecision, RunRecord
from .dag_state import DagState
from .explaining import next_run
from .instance_keys import UNMAPPED, instance_key
from .run_state import DagRunState, Progress
from .runs import RunIdentity, RunType
from .scheduling import RunPlan
from .states import RunState, TaskState
from .task_instances import Attempt, TaskInstance
from .timetables import DataInterval


class DagView(Model):
    """A DAG as `describe` shows it; the fields of Airflow's DagModel, and what stands in the way of the next run."""

    dag_id: str
    description: str | None
    schedule: dict[str, Any]
    version: str
    source: str | None
    is_paused: bool
    is_stale: bool = False
    has_import_errors: bool = False
    import_error: str | None = None
    bundle: str | None = None
    broken: str | None
    next_dagrun: Instant | None
    next_dagrun_create_after: Instant | None
    next_dagrun_data_interval: DataInterval | None
    next_dagrun_note: str
    """Why the next run is due when it is, or why there is none: also tells a reached limit from the end."""
    last_automated_interval: DataInterval | None
    max_active_runs: int
    active_runs: int
    queued_runs: int
    last_run: RunRecord | None
    decisions: tuple[MadeDecision, ...]


class Change(StrEnum):
    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class Registration(Model):
    """What registering a DAG came to."""

    dag_id: str
    version: str
    change: Change


class RunView(Model):
    """A run in a list: queued, running or finished."""

    run_id: str
    run_type: RunType
    state: RunState
    logical_date: Instant | None
    run_after: Instant
    queued_at: Instant
    started_at: Instant | None = None
    ended_at: Instant | None = None
    reason: str | None = None
    workflow_id: str


class TaskView(Model):
    """A task of a run."""

    task_id: str
    map_index: int = UNMAPPED
    kind: str
    state: TaskState
    try_number: int
    max_tries: int
    upstream: tuple[str, ...]
    queue: str | None = None
    queue_suffix: str = ""
    """What the DAG's task queue is continued with, where the task names none."""
    queued_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    retry_at: Instant | None
    wake_at: Instant | None = None
    """When a wait without a worker ends, or its next poke is."""
    why: str
    error: str | None
    attempts: tuple[Attempt, ...]
    progress: dict[str, Any] | None = None
    """What the running attempt last told of itself, such as Spark's stage; filled in by the client."""

    @property
    def key(self) -> str:
        """What the instance is called within its run."""
        return instance_key(self.task_id, self.map_index)


class RunDetails(Model):
    """A run with its tasks."""

    run: RunIdentity
    state: RunState
    started_at: Instant | None
    progress: Progress
    tasks: tuple[TaskView, ...]


def dag_view(state: DagState, now: datetime) -> DagView:
    info = state.next_info
    running = sum(tracked.state is RunState.RUNNING for tracked in state.runs.values())
    return DagView(
        dag_id=state.spec.dag_id,
        description=state.spec.description,
        schedule=state.spec.schedule.model_dump(mode="json"),
        version=state.spec.version,
        source=state.spec.source.path if state.spec.source is not None else None,
        is_paused=state.is_paused,
        is_stale=state.file.is_stale,
        has_import_errors=state.file.import_error is not None,
        import_error=state.file.import_error,
        bundle=state.spec.source.bundle if state.spec.source is not None else None,
        broken=state.broken,
        next_dagrun=info.logical_date if info is not None else None,
        next_dagrun_create_after=info.run_after if info is not None else None,
        next_dagrun_data_interval=info.data_interval if info is not None else None,
        next_dagrun_note=next_run(state, now),
        last_automated_interval=state.last_automated_interval,
        max_active_runs=state.spec.max_active_runs,
        active_runs=running,
        queued_runs=len(state.runs) - running,
        last_run=state.ledger[-1] if state.ledger else None,
        decisions=tuple(state.decisions),
    )


def run_views(state: DagState, workflow_id: Any) -> list[RunView]:
    """All runs that the DAG knows of, newest first. *workflow_id* maps a run's key to its workflow's id."""
    known = [
        RunView(
            run_id=t.run.run_id,
            run_type=t.run.run_type,
            state=t.state,
            logical_date=t.run.logical_date,
            run_after=t.run.run_after,
            queued_at=t.queued_at,
            started_at=t.started_at,
            workflow_id=t.run.workflow_id,
        )
        for t in state.runs.values()
    ]
    known += [
        RunView(**record.model_dump(exclude={"past"}), workflow_id=workflow_id(record.logical_date, record.run_id))
        for record in state.ledger
    ]
    return sorted(known, key=lambda view: (view.logical_date or view.run_after, view.queued_at), reverse=True)


def run_details(
    state: DagRunState, done: Progress, why: Callable[[TaskInstance], str], end: RunState | None
) -> RunDetails:
    return RunDetails(
        run=state.run,
        state=end or RunState.RUNNING,
        started_at=state.started_at,
        progress=done,
        tasks=tuple(task_view(state, instance, why(instance)) for instance in state.instances.values()),
    )


def why(plan: RunPlan, instance: TaskInstance) -> str:
    """Why the task has its state: what it waits for while it waits, else what brought it there."""
    reason = instance.reason
    if instance.state in (TaskState.NONE, TaskState.SCHEDULED) or reason is None:
        return plan.why(instance.key)
    match instance.state:
        case TaskState.QUEUED:
            since = f", since {iso(instance.queued_at)}" if instance.queued_at is not None else ""
            return plan.why(instance.key) + since
        case TaskState.UP_FOR_RETRY if instance.retry_at is not None:
            return f"{reason}: its next try is due at {iso(instance.retry_at)}"
        case TaskState.UP_FOR_RESCHEDULE if instance.wake_at is not None:
            return f"{reason}: its next poke is due at {iso(instance.wake_at)}"
        case _:
            return reason


def task_view(state: DagRunState, instance: TaskInstance, why: str) -> TaskView:
    task, failure = state.spec.by_id[instance.task_id], instance.failure
    return TaskView(
        task_id=task.task_id,
        map_index=instance.map_index,
        kind=task.kind,
        state=instance.state,
        try_number=instance.try_number,
        max_tries=instance.tries_cleared + task.retries,
        upstream=task.upstream,
        queue=task.queue,
        queue_suffix=task.queue_suffix,
        queued_at=instance.queued_at,
        started_at=instance.started_at,
        ended_at=instance.ended_at,
        retry_at=instance.retry_at,
        wake_at=instance.wake_at,
        why=why,
        error=f"{failure.error_type}: {failure.message}" if failure is not None else None,
        attempts=tuple(instance.attempts),
    )
