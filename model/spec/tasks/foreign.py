"""Work that others do: Temporal activities and workflows of any language, and runs of other DAGs."""

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...base import PositiveDuration
from ...errors import NotAllowedError
from .base import BaseTask
from .waiting import PokedTask

OWN_ACTIVITIES = "tidemill."
"""Begins the names of tidemill's own activities."""
OWN_WORKFLOWS = frozenset({"Dag", "DagRun", "Pool", "Asset", "Watcher", "DagBundle"})


class ActivityTask(BaseTask):
    """A Temporal activity by its name, on the task queue `queue` of whoever offers it.

    What it returns is the result; what it raises, also a lost worker, costs a try.
    """

    airflow_name: ClassVar[str] = "TemporalActivityOperator"
    template_fields: ClassVar[tuple[str, ...]] = ("args",)
    kind: Literal["activity"] = "activity"
    activity_type: Annotated[str, Field(min_length=1)]
    """The name of the activity."""
    args: tuple[Any, ...] = ()
    """Its arguments: values, templates, or results of other tasks."""
    heartbeat_timeout: PositiveDuration | None = None
    """How long the activity may be silent; None: it need not heartbeat."""


class WorkflowTask(BaseTask):
    """A Temporal workflow by its name, as a child of the run. What it returns is the result."""

    airflow_name: ClassVar[str] = "TemporalWorkflowOperator"
    template_fields: ClassVar[tuple[str, ...]] = ("args",)
    kind: Literal["workflow"] = "workflow"
    workflow_type: Annotated[str, Field(min_length=1)]
    """The name of the workflow."""
    args: tuple[Any, ...] = ()
    """Its arguments: values, templates, or results of other tasks."""


class TriggerDagTask(PokedTask):
    """Starts a run of another DAG (Airflow: TriggerDagRunOperator). The same try never starts two."""

    activity: ClassVar[str | None] = "tidemill.trigger_dag"
    calls_workflows: ClassVar[bool] = True
    airflow_name: ClassVar[str] = "TriggerDagRunOperator"
    template_fields: ClassVar[tuple[str, ...]] = (
        "trigger_dag_id", "trigger_run_id", "logical_date", "conf", "run_after",
    )  # fmt: skip
    kind: Literal["trigger_dag"] = "trigger_dag"
    trigger_dag_id: Annotated[str, Field(min_length=1)]
    """The DAG to run; a template."""
    trigger_run_id: str | None = None
    """The run_id of its run; None: one is made."""
    logical_date: str | None = None
    """The logical date of its run (ISO 8601); a template."""
    conf: dict[str, Any] = {}
    """The conf of its run; templates."""
    run_after: str | None = None
    """When the run may start; it waits in the queue until then."""
    reset_dag_run: bool = False
    """Whether a run that is there already, by its id or its date, is cleared and runs again."""
    skip_when_already_exists: bool = False
    """Whether the task is skipped then."""
    fail_when_dag_is_paused: bool = False
    """Whether the task fails where that DAG is paused."""
    wait_for_completion: bool = False
    """Whether the task waits until that run has ended."""
    poke_interval: PositiveDuration = timedelta(seconds=10)
    """How often it looks, while it waits."""
    allowed_states: tuple[str, ...] = ("success",)
    """The states of that run by which the task succeeds."""
    failed_states: tuple[str, ...] = ("failed",)
    """The states of that run by which it fails."""


ForeignTask = ActivityTask | WorkflowTask | TriggerDagTask
"""Any kind of task that others carry out."""


def check_is_foreign(task: BaseTask) -> None:
    """Raise NotAllowedError for a task that calls an activity or a workflow of tidemill's own.

    Those do for their caller whatever they are told: with them, a DAG file would act on the DAGs of others.
    """
    if isinstance(task, ActivityTask) and task.activity_type.startswith(OWN_ACTIVITIES):
        what = f"activity_type = {task.activity_type!r}"
    elif isinstance(task, WorkflowTask) and task.workflow_type in OWN_WORKFLOWS:
        what = f"workflow_type = {task.workflow_type!r}"
    else:
        return
    raise NotAllowedError(
        f"task {task.task_id!r}: {what} is tidemill's own, and no DAG may call it. Name one of yours. To start a run "
        "of another DAG, use TriggerDagRunOperator"
    )
