"""What a run answers when it is asked: plain data, the same in the CLI, the client and Temporal's UI."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Self

from ..base import Instant, Model, OmitNewDefaults, iso
from ..spec.dag import DagSpec
from ..spec.tasks import AirflowTask, ApprovalTask, Task
from ..states import RunState, TaskState
from .changes import form_in
from .forms import InputForm, Response
from .identity import ListedRun, RunIdentity, RunType, TriggeredBy
from .instance_keys import UNMAPPED, instance_key
from .planner import RunEnd, RunPlan
from .progress import Progress, progress
from .row import RunRow, short_reason
from .state import RUN_WAS_ENDED, DagRunState, queued_state
from .task_instances import Attempt, Failure, TaskInstance


class RunView(OmitNewDefaults, ListedRun):
    """A run in a list: queued, running or finished. Without `queued_at`: only its DAG knows, and was not asked."""

    later_fields: ClassVar[tuple[str, ...]] = ("partition_key", "triggered_by", "triggering_user_name", "backfill_id")

    workflow_id: str

    @property
    def known_since(self) -> datetime:
        """When it was queued; its run_after where that is not known."""
        return self.queued_at or self.run_after

    @property
    def never_began(self) -> bool:
        """Whether it was ended while it was queued: no workflow knows of it."""
        return self.state.finished and self.started_at is None

    @classmethod
    def of(cls, run: RunIdentity, **stands: Any) -> Self:
        """Return the view of *run*, with how it *stands*: its state and its times."""
        return cls(**run.shown, workflow_id=run.workflow_id, **stands)

    @classmethod
    def of_row(cls, row: RunRow, run_after: datetime) -> Self:
        """Return what the line of a run among those of all DAGs says; *run_after*: where it does not say."""
        known = row.model_dump(include={*cls.model_fields})
        whose = {"run_type": row.run_type or RunType.MANUAL, "triggered_by": row.triggered_by or None}
        return cls(**{**known, **whose, "run_after": row.run_after or run_after}, queued_at=None)


@dataclass(frozen=True, slots=True)
class TryView:
    """A try of a task, as it is shown."""

    try_number: int
    state: TaskState
    queued_at: datetime | None
    """Of a try before the last one: when it has begun, since no more is kept."""
    started_at: datetime | None
    ended_at: datetime | None
    failure: Failure | None = None


class TaskView(OmitNewDefaults, Model):
    """A task of a run."""

    later_fields: ClassVar[tuple[str, ...]] = ("operator", "map_label", "form", "response")

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
    operator: str | None = None
    """The class of a task of Airflow's."""
    map_label: str | None = None
    form: InputForm | None = None
    """What a person is asked."""
    response: Response | None = None
    """What a person was asked, and has answered."""

    @property
    def key(self) -> str:
        """What the instance is called within its run."""
        return instance_key(self.task_id, self.map_index)

    @property
    def began(self) -> datetime | None:
        """When it has begun; one that never ran has, as in Airflow, begun when it ended."""
        return self.started_at or self.ended_at

    @property
    def tries(self) -> tuple[TryView, ...]:
        """Return each try, in order. The last one is as the task: a person may have marked it since (as in Airflow)."""
        found = [self._ended_try(attempt) for attempt in self.attempts]
        if self.try_number and self.try_number not in {one.try_number for one in found}:
            found.append(TryView(self.try_number, self.state, self.first_queued, self.started_at, self.ended_at))
        return tuple(found)

    @property
    def without_try(self) -> TryView:
        """What an instance that has had no try shows in the place of one (as in Airflow)."""
        return TryView(self.try_number, self.state, self.first_queued, self.began, self.ended_at)

    def _ended_try(self, one: Attempt) -> TryView:
        is_last = one.try_number == self.try_number
        state = self.state if is_last and self.state.finished else one.state
        queued_at = (self.first_queued if is_last else None) or one.started_at
        return TryView(one.try_number, state, queued_at, one.started_at, one.ended_at, one.failure)

    @property
    def first_queued(self) -> datetime | None:
        """When the last try was queued: one that waits without a worker is queued again each time it goes on."""
        known = [at for at in (self.queued_at, self.started_at) if at is not None]
        return min(known) if self.queued_at is not None else None


class RunDetails(Model):
    """A run with its tasks."""

    run: RunIdentity
    state: RunState
    started_at: Instant | None
    progress: Progress
    tasks: tuple[TaskView, ...]
    goes_on_from: str | None = None
    """The execution, by Temporal's run id, whose tasks it has not taken up yet: it has just begun to run again."""


def run_row(state: DagRunState, counts: Mapping[TaskState, int], end: RunEnd | None, now: datetime) -> RunRow:
    """What a list shows of the run."""
    return RunRow(
        **state.run.shown,
        dag_id=state.run.dag_id,
        state=end.state if end is not None else RunState.RUNNING,
        reason=short_reason(end.reason) if end is not None else None,
        started_at=state.began,
        ended_at=(state.ended_at or now) if end is not None else None,
        counts={str(task_state): n for task_state, n in counts.items() if n},
        workflow_id=state.run.workflow_id,
    )


def run_details(
    state: DagRunState, done: Progress, why: Callable[[TaskInstance], str], end: RunState | None
) -> RunDetails:
    return RunDetails(
        run=state.run,
        state=end or RunState.RUNNING,
        started_at=state.began,
        progress=done,
        tasks=tuple(task_view(state, instance, why(instance)) for instance in state.instances.values()),
    )


def queued_details(state: DagRunState, waits_for: str) -> RunDetails:
    """Return a run that has not begun: each task is there, and has no state yet (as in Airflow)."""
    reason = f"its run is queued: {waits_for}"
    done = progress(Counter(state.states.values()))
    return run_details(state, done, lambda instance: instance.reason or reason, RunState.QUEUED)


def details_of_unbegun(dag_id: str, run: RunView, spec: DagSpec) -> RunDetails:
    """Return a run that was ended while it was queued: its tasks are skipped (as in Airflow)."""
    known = run.model_dump(include={*RunIdentity.model_fields}, exclude_none=True)
    identity = RunIdentity.model_validate({"triggered_by": TriggeredBy.CLIENT, **known, "dag_id": dag_id})
    state = queued_state(identity, spec)
    for instance in state.instances.values():
        if not instance.state.finished:
            instance.state, instance.reason = TaskState.SKIPPED, run.reason or f"the run was ended as {run.state}"
    done = progress(Counter(state.states.values()))
    return run_details(state, done, lambda instance: instance.reason or "", run.state)


def details_without_execution(details: RunDetails, ended_at: datetime) -> RunDetails:
    """Return how a run stands whose execution was ended from outside (UTC), before it could write that down."""

    def settled(view: TaskView) -> TaskView:
        if (state := view.state.without_its_run) is view.state and state.finished:
            return view
        ended = {"ended_at": ended_at} if state is TaskState.FAILED and view.started_at is not None else {}
        return view.model_copy(
            update={"state": state, "why": RUN_WAS_ENDED, "retry_at": None, "wake_at": None, "form": None, **ended}
        )

    tasks = tuple(map(settled, details.tasks))
    done = progress(Counter(view.state for view in tasks))
    return details.model_copy(update={"state": RunState.FAILED, "tasks": tasks, "progress": done})


ENDS = {TaskState.SUCCESS: "it has run, and succeeded", TaskState.RUNNING: "a worker runs it"}
"""What there is to say of a state that nothing else brought about."""


def why(plan: RunPlan, instance: TaskInstance) -> str:
    """Why the task has its state: what it waits for while it waits, else what brought it there."""
    reason = instance.reason or None
    if instance.state in (TaskState.NONE, TaskState.SCHEDULED):
        return plan.why(instance.key)
    if reason is None:
        found = plan.why(instance.key)
        return ENDS.get(instance.state, found) if found == f"is {instance.state}" else found
    match instance.state:
        case TaskState.QUEUED:
            since = f", since {iso(instance.queued_at)}" if instance.queued_at is not None else ""
            return plan.why(instance.key) + since
        case TaskState.UP_FOR_RETRY if instance.retry_at is not None:
            return f"{reason}: its next try is due at {iso(instance.retry_at)}"
        case TaskState.UP_FOR_RESCHEDULE if instance.wake_at is not None:
            return f"{reason}: its next poke is due at {iso(instance.wake_at)}"
        case _ if reason == f"is {instance.state}":
            return ENDS.get(instance.state, reason)
        case _:
            return reason


def cleared_view(view: TaskView, spec: DagSpec | None) -> TaskView:
    """Return how an instance stands right after it was cleared: its times are those of its last try, as in Airflow."""
    retries = spec.by_id[view.task_id].retries if spec is not None else 0
    changed = {"state": TaskState.NONE, "max_tries": view.try_number + retries, "error": None}
    return view.model_copy(update={**changed, "retry_at": None, "wake_at": None})


def _shown_form(task: Task, instance: TaskInstance) -> InputForm | None:
    """What a person is asked; the text of an approval is in the DAG."""
    form = form_in(task, instance)
    return form.model_copy(update={"body": None}) if form is not None and isinstance(task, ApprovalTask) else form


def task_view(state: DagRunState, instance: TaskInstance, why: str) -> TaskView:
    task, failure = state.spec.by_id[instance.task_id], instance.failure
    return TaskView(
        task_id=task.task_id,
        map_index=instance.map_index,
        kind=task.kind,
        state=instance.state,
        try_number=instance.try_number,
        max_tries=instance.max_tries(task.retries),
        upstream=task.upstream,
        queue=task.queue,
        queue_suffix=task.queue_suffix,
        queued_at=instance.queued_at,
        started_at=instance.started_at,
        ended_at=instance.ended_at,
        retry_at=instance.retry_at,
        wake_at=instance.wake_at,
        why=why,
        error=f"{failure.error_type}: {failure.message}" if failure is not None and instance.has_failed else None,
        attempts=tuple(instance.attempts),
        operator=task.operator_name if isinstance(task, AirflowTask) else None,
        map_label=instance.map_label,
        form=_shown_form(task, instance),
        response=instance.response,
    )
