"""Tasks and their instances as Airflow's API answers them."""

from datetime import datetime
from typing import Any, Literal, NamedTuple, Self
from uuid import UUID

from pydantic import AwareDatetime, field_validator, model_validator

from ...model.run.identity import RunIdentity
from ...model.run.instance_keys import UNMAPPED
from ...model.run.views import TaskView, TryView
from ...model.spec.dag import DagSpec
from ...model.spec.tasks import KINDS, AirflowTask, Task
from ...model.spec.tasks.base import DEFAULT_POOL
from ...model.states import TaskState
from ..read.filters import seconds_between
from .common import Answer, Body, Note, TimeDelta, uuid_of
from .dags import DagVersion, param_of

DEFAULT_QUEUE = "default"
"""Airflow's name for the queue of tasks that name none."""
SHOWN_STATES = {TaskState.NONE: None, TaskState.SHUTDOWN: "restarting"}
"""States that Airflow's API has no name for."""


def shown_state(state: TaskState) -> str | None:
    """A task's state as Airflow's API knows it."""
    return SHOWN_STATES.get(state, str(state))


def shown_state_of_try(state: TaskState) -> str | None:
    """The state of a try: one that is tried again has failed (Airflow: TaskInstanceHistory)."""
    return shown_state(TaskState.FAILED if state is TaskState.UP_FOR_RETRY else state)


class TaskAnswer(Answer):
    """Airflow: TaskResponse."""

    task_id: str | None
    task_display_name: str | None
    owner: str | None
    start_date: datetime | None
    end_date: datetime | None
    trigger_rule: str | None
    depends_on_past: bool
    wait_for_downstream: bool
    retries: float | None
    queue: str | None
    pool: str | None
    pool_slots: float | None
    execution_timeout: TimeDelta | None
    retry_delay: TimeDelta | None
    retry_exponential_backoff: float
    priority_weight: float | None
    weight_rule: str | None
    ui_color: str | None
    ui_fgcolor: str | None
    template_fields: list[str] | None
    downstream_task_ids: list[str] | None
    doc_md: str | None
    operator_name: str | None
    params: dict[str, Any] | None
    class_ref: dict[str, Any] | None
    is_mapped: bool | None
    extra_links: list[str]


class TaskCollection(Answer):
    tasks: list[TaskAnswer]
    total_entries: int


class _Instance(Answer):
    """What an instance and its earlier tries have in common."""

    task_id: str
    dag_id: str
    dag_run_id: str
    map_index: int
    start_date: datetime | None
    end_date: datetime | None
    duration: float | None
    state: str | None
    try_number: int
    max_tries: int
    task_display_name: str
    dag_display_name: str
    hostname: str | None = None
    unixname: str | None = None
    pool: str
    pool_slots: int
    queue: str | None
    priority_weight: int | None
    operator: str | None
    operator_name: str | None
    queued_when: datetime | None
    scheduled_when: datetime | None
    pid: int | None = None
    executor: str | None = None
    executor_config: str = "{}"
    dag_version: DagVersion | None


class TaskTry(_Instance):
    """Airflow: TaskInstanceHistoryResponse."""


class TaskTries(Answer):
    task_instances: list[TaskTry]
    total_entries: int


class InstanceAnswer(_Instance):
    """Airflow: TaskInstanceResponse."""

    id: UUID
    logical_date: datetime | None
    run_after: datetime
    note: str | None
    rendered_map_index: str | None
    rendered_fields: dict[str, Any] = {}
    trigger: None = None
    triggerer_job: None = None


class InstanceCollection(Answer):
    task_instances: list[InstanceAnswer]
    total_entries: int | None = None
    total_entries_limit: int | None = None
    next_cursor: str | None = None
    previous_cursor: str | None = None


class ClearedInstances(Answer):
    """Airflow: ClearTaskInstanceCollectionResponse."""

    task_instances: list[InstanceAnswer]
    total_entries: int


class Dependency(Answer):
    name: str
    reason: str


class Dependencies(Answer):
    dependencies: list[Dependency]


class ClearBody(Body):
    """Airflow: ClearTaskInstancesBody."""

    dry_run: bool = True
    start_date: AwareDatetime | None = None
    end_date: AwareDatetime | None = None
    only_failed: bool = True
    only_running: bool = False
    reset_dag_runs: bool = True
    task_ids: list[str | tuple[str, int]] | None = None
    dag_run_id: str | None = None
    include_upstream: bool = False
    include_downstream: bool = False
    include_future: bool = False
    include_past: bool = False
    run_on_latest_version: bool | None = None
    prevent_running_task: bool = False
    note: Note = None

    @model_validator(mode="after")
    def _dates_in_order(self) -> Self:
        if self.start_date is not None and self.end_date is not None and self.end_date < self.start_date:
            raise ValueError("end_date is sooner than start_date. Turn them round")
        return self


class InstancePatch(Body):
    """Airflow: PatchTaskInstanceBody."""

    new_state: Literal["success", "failed", "skipped"] | None = None
    note: Note = None
    include_upstream: bool = False
    include_downstream: bool = False
    include_future: bool = False
    include_past: bool = False

    @field_validator("new_state")
    @classmethod
    def _is_a_state(cls, state: str | None) -> str:
        if state is None:
            raise ValueError("null is no state to mark a task with. Leave new_state out to keep its own")
        return state


class BulkInstanceBody(InstancePatch):
    """Airflow: BulkTaskInstanceBody."""

    task_id: str
    map_index: int | None = None
    dag_id: str | None = None
    dag_run_id: str | None = None


def shown_name(spec: DagSpec | None, task_id: str) -> str:
    """What people read in the place of a task_id (Airflow: task_display_name)."""
    task = spec.by_id.get(task_id) if spec is not None else None
    return (task.task_display_name if task is not None else None) or task_id


def task_answer(spec: DagSpec, task: Task) -> TaskAnswer:
    """A task of the version that is in place."""
    return TaskAnswer(
        task_id=task.task_id,
        task_display_name=shown_name(spec, task.task_id),
        owner=task.owner,
        start_date=spec.start_date,
        end_date=spec.end_date,
        trigger_rule=task.trigger_rule,
        depends_on_past=task.depends_on_past,
        wait_for_downstream=task.wait_for_downstream,
        retries=task.retries,
        queue=task.queue or DEFAULT_QUEUE,
        pool=task.pool or DEFAULT_POOL,
        pool_slots=task.pool_slots,
        execution_timeout=TimeDelta.of(task.execution_timeout),
        retry_delay=TimeDelta.of(task.retry_delay),
        retry_exponential_backoff=float(task.retry_exponential_backoff),
        priority_weight=task.priority_weight,
        weight_rule=str(task.weight_rule),
        ui_color=None,
        ui_fgcolor=None,
        template_fields=None,
        downstream_task_ids=sorted(spec.downstreams[task.task_id]),
        doc_md=task.doc_md,
        operator_name=operator_of(task.kind, getattr(task, "operator_name", None)),
        params={name: param_of(param) for name, param in spec.params.items()}
        | {name: param_of(param, "task") for name, param in task.params.items()},
        class_ref=_class_ref(task),
        is_mapped=task.task_id in spec.mapped,
        extra_links=[],
    )


def operator_of(kind: str, own: str | None = None) -> str:
    """What Airflow calls a kind of task; a task of its own has a class of its *own*."""
    return own or KINDS[kind].airflow_name


def _class_ref(task: Task) -> dict[str, str] | None:
    """The class of an operator of Airflow's; tidemill's own tasks have none."""
    if not isinstance(task, AirflowTask):
        return None
    return {"module_path": task.operator.rpartition(".")[0], "class_name": task.class_name}


def shown_try(view: TaskView) -> int:
    """The number of the last try; one that is cleared has it until its next try begins (as in Airflow)."""
    return view.try_number or max((attempt.try_number for attempt in view.attempts), default=0)


class ShownRun(NamedTuple):
    """A run whose instances are shown, and the version of the DAG that it has; None where that is not known."""

    run: RunIdentity
    spec: DagSpec | None
    version: DagVersion | None


def instance_answer(shown: ShownRun, view: TaskView) -> InstanceAnswer:
    """An instance of a task."""
    run = shown.run
    return InstanceAnswer(
        **_common(shown, view),
        queued_when=view.first_queued,
        id=uuid_of("instance", run.workflow_id, view.key, view.try_number),
        start_date=view.began,
        end_date=view.ended_at,
        duration=seconds_between(view.began, view.ended_at),
        state=shown_state(view.state),
        try_number=shown_try(view),
        logical_date=run.logical_date,
        run_after=run.run_after,
        note=view.error,
        rendered_map_index=view.map_label or (str(view.map_index) if view.map_index != UNMAPPED else None),
    )


def try_answer(shown: ShownRun, view: TaskView, one: TryView) -> TaskTry:
    """A try of an instance."""
    began = one.started_at or one.ended_at
    return TaskTry(
        **_common(shown, view),
        queued_when=one.queued_at,
        start_date=began,
        end_date=one.ended_at,
        duration=seconds_between(began, one.ended_at),
        state=shown_state_of_try(one.state),
        try_number=one.try_number,
    )


def _common(shown: ShownRun, view: TaskView) -> dict[str, Any]:
    run, spec, version = shown
    task = spec.by_id.get(view.task_id) if spec is not None else None
    return {
        "task_id": view.task_id,
        "dag_id": run.dag_id,
        "dag_run_id": run.run_id,
        "map_index": view.map_index,
        "max_tries": view.max_tries,
        "task_display_name": shown_name(spec, view.task_id),
        "dag_display_name": spec.display_name if spec is not None else run.dag_id,
        "pool": (task.pool if task is not None else None) or DEFAULT_POOL,
        "pool_slots": task.pool_slots if task is not None else 1,
        "queue": view.queue or DEFAULT_QUEUE,
        "priority_weight": spec.weights.get(view.task_id) if spec is not None else None,
        "operator": operator_of(view.kind, task.class_name if isinstance(task, AirflowTask) else view.operator),
        "operator_name": operator_of(view.kind, view.operator),
        "scheduled_when": None,
        "dag_version": version,
    }
