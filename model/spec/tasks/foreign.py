"""Work that others do: Temporal activities and workflows of any language, and runs of other DAGs."""

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...base import PositiveDuration
from .base import BaseTask
from .waiting import PokedTask


class ActivityTask(BaseTask):
    """A Temporal activity by its name, on the task queue `queue` of whoever offers it.

    What it returns is the result; what it raises, also a lost worker, costs a try.
    """

    kind: Literal["activity"] = "activity"
    activity_type: Annotated[str, Field(min_length=1)]
    args: tuple[Any, ...] = ()
    heartbeat_timeout: PositiveDuration | None = None

    def templated(self) -> tuple[Any, ...]:
        return (self.args,)


class WorkflowTask(BaseTask):
    """A Temporal workflow by its name, as a child of the run. What it returns is the result."""

    kind: Literal["workflow"] = "workflow"
    workflow_type: Annotated[str, Field(min_length=1)]
    args: tuple[Any, ...] = ()

    def templated(self) -> tuple[Any, ...]:
        return (self.args,)


class TriggerDagTask(PokedTask):
    """Starts a run of another DAG (Airflow: TriggerDagRunOperator). The same try never starts two."""

    activity: ClassVar[str | None] = "tidemill.trigger_dag"
    calls_workflows: ClassVar[bool] = True
    kind: Literal["trigger_dag"] = "trigger_dag"
    trigger_dag_id: Annotated[str, Field(min_length=1)]
    trigger_run_id: str | None = None
    logical_date: str | None = None
    conf: dict[str, Any] = {}
    run_after: str | None = None
    """When the run may start; it waits in the queue until then."""
    reset_dag_run: bool = False
    """Whether a run that is there already, by its id or its date, is cleared and runs again."""
    skip_when_already_exists: bool = False
    """Whether the task is skipped then."""
    fail_when_dag_is_paused: bool = False
    wait_for_completion: bool = False
    poke_interval: PositiveDuration = timedelta(seconds=10)
    allowed_states: tuple[str, ...] = ("success",)
    failed_states: tuple[str, ...] = ("failed",)

    def templated(self) -> tuple[Any, ...]:
        return (self.trigger_dag_id, self.trigger_run_id, self.logical_date, self.conf, self.run_after)
