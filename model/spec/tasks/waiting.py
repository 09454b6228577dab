"""Tasks that wait. None of them holds a worker or a slot while it does."""

from datetime import timedelta
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from ...base import PositiveDuration, Shift
from .base import BaseTask
from .code import CallTask


class WaitingTask(BaseTask):
    """What all waiting has in common (Airflow: BaseSensorOperator)."""

    timeout: PositiveDuration = timedelta(days=7)
    """How long is waited, over all pokes, before the task fails; it is not tried again then."""
    soft_fail: bool = False
    """Whether the task is then skipped instead."""


class PokedTask(WaitingTask):
    """Waiting by asking again and again. Between two pokes the task is up_for_reschedule."""

    poke_interval: PositiveDuration = timedelta(minutes=1)
    """The time between two pokes."""
    exponential_backoff: bool = False
    """Whether each interval is twice the one before."""
    max_wait: PositiveDuration | None = None
    """The longest interval with exponential_backoff."""


class SensorTask(CallTask, PokedTask):
    """A function that returns whether the wait is over, or a `PokeReturnValue` (Airflow: PythonSensor)."""

    activity: ClassVar[str | None] = "tidemill.python"
    airflow_name: ClassVar[str] = "PythonSensor"
    kind: Literal["sensor"] = "sensor"


class BashSensorTask(PokedTask):
    """A command; the wait is over when it ends with 0 (Airflow: BashSensor)."""

    activity: ClassVar[str | None] = "tidemill.bash"
    airflow_name: ClassVar[str] = "BashSensor"
    template_fields: ClassVar[tuple[str, ...]] = ("command", "env", "cwd")
    kind: Literal["bash_sensor"] = "bash_sensor"
    command: Annotated[str, Field(min_length=1)]
    """The command; a template."""
    env: dict[str, str] = {}
    """Environment variables of the command; templates."""
    cwd: str | None = None
    """The working directory; None: the try's own folder."""
    retry_exit_code: int | None = None
    """The exit code that means "not yet"; another one than it and 0 fails the task. None: all mean that."""


class ExternalTaskTask(PokedTask):
    """Waits for a run of another DAG, or for tasks of it (Airflow: ExternalTaskSensor).

    The other run is that of the same logical date, or of one `execution_delta` earlier.
    """

    activity: ClassVar[str | None] = "tidemill.external_task"
    calls_workflows: ClassVar[bool] = True
    airflow_name: ClassVar[str] = "ExternalTaskSensor"
    template_fields: ClassVar[tuple[str, ...]] = ("external_dag_id", "external_task_ids")
    kind: Literal["external_task"] = "external_task"
    external_dag_id: Annotated[str, Field(min_length=1)]
    """The DAG whose run is waited for."""
    external_task_ids: tuple[str, ...] = ()
    """Which of its tasks; none: the run as a whole."""
    external_task_group_id: str | None = None
    """A group whose tasks are waited for."""
    check_existence: bool = False
    """Whether the task fails if the other DAG has no task or group of that id, instead of waiting."""
    execution_delta: Shift = timedelta()
    """How much earlier its logical date is than the task's own."""
    allowed_states: tuple[str, ...] = ("success",)
    """States that end the wait well."""
    skipped_states: tuple[str, ...] = ()
    """States by which the task is skipped."""
    failed_states: tuple[str, ...] = ()
    """States that end the wait at once: the task fails, or with `skipped_states` is skipped."""


class TimeTask(WaitingTask):
    """Waits for a moment: one durable timer (Airflow: DateTimeSensor, TimeDeltaSensor, TimeSensor)."""

    airflow_name: ClassVar[str] = "DateTimeSensor"
    template_fields: ClassVar[tuple[str, ...]] = ("target_time",)
    kind: Literal["wait_until"] = "wait_until"
    target_time: str | None = None
    """A date and time (ISO 8601), or a time of the day of the run; naive ones in `timezone`. May be a template."""
    delta: Shift | None = None
    """How long after the end of the data interval, or after run_after where there is none."""
    timezone: str = "UTC"
    """The IANA time zone of a target_time without one."""


class ApprovalTask(WaitingTask):
    """Waits for a person or a program to answer (Airflow: HITLOperator); the answer is the result.

    Without an answer in time the default is taken, or the task fails where there is none.
    """

    airflow_name: ClassVar[str] = "ApprovalOperator"
    template_fields: ClassVar[tuple[str, ...]] = ("subject",)
    kind: Literal["approval"] = "approval"
    subject: str = ""
    """What is asked; a template."""
    options: tuple[str, ...] = ("Approve", "Reject")
    """What may be answered."""
    defaults: tuple[str, ...] | None = None
    """The answer when `timeout` is over; None: the task fails then."""
    multiple: bool = False
    """Whether several options may be chosen."""
    fail_on_reject: bool = False
    """Whether the task fails, for good, when the answer is Reject."""

    @model_validator(mode="after")
    def _defaults_are_offered(self) -> Self:
        unknown = [choice for choice in self.defaults or () if choice not in self.options]
        if unknown or self.defaults == ():
            raise ValueError(f"defaults = {self.defaults}: choose from the options {', '.join(self.options)}")
        return self


WaitTask = SensorTask | BashSensorTask | ExternalTaskTask | TimeTask | ApprovalTask
"""Any kind of task that waits."""
