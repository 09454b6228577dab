"""What a task is: one frozen model for each kind, told apart by `kind`.

A new kind is a model here and an activity of the name that it gives; the engine knows neither.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from .base import Instant, Model, PositiveDuration
from .trigger_rules import TriggerRule

XCOM_REFERENCE = "$xcom"
RETURN_VALUE = "return_value"


def xcom_reference(task_id: str, key: str = RETURN_VALUE) -> dict[str, str]:
    """How an argument says "the result of that task" in JSON."""
    return {XCOM_REFERENCE: task_id, "key": key}


def is_xcom_reference(value: Any) -> bool:
    return isinstance(value, dict) and XCOM_REFERENCE in value


class BaseTask(Model):
    """What every kind of task has. Defaults and meanings are Airflow's; durations in JSON are seconds or ISO 8601."""

    activity: ClassVar[str | None] = None
    """The activity that does the work; None when reaching the task is all there is to it."""

    task_id: Annotated[str, Field(pattern=r"^[\w.\-]+$", max_length=250)]
    upstream: tuple[str, ...] = ()
    trigger_rule: TriggerRule = TriggerRule.ALL_SUCCESS
    retries: NonNegativeInt = 0
    retry_delay: Annotated[timedelta, Field(ge=timedelta(0))] = timedelta(minutes=5)
    retry_exponential_backoff: bool = False
    max_retry_delay: PositiveDuration | None = None
    execution_timeout: PositiveDuration | None = None
    start_date: Instant | None = None
    end_date: Instant | None = None
    queue: Annotated[str, Field(min_length=1)] | None = None
    """The Temporal task queue that the work goes to; None: the one that the DAG runs on."""
    params: dict[str, Any] = {}
    owner: str | None = None
    doc_md: str | None = None

    @model_validator(mode="after")
    def _dates_in_order(self) -> Self:
        require_order(f"task {self.task_id!r}", self.start_date, self.end_date)
        return self

    def templated(self) -> tuple[Any, ...]:
        """The values in which templates and results of other tasks are replaced before the task runs."""
        return ()

    def uses(self) -> set[str]:
        """The tasks whose results the arguments name."""
        return {reference for value in self.templated() for reference in _references(value)}

    @property
    def pulls_xcom(self) -> bool:
        """Whether a template asks for results by a name that only rendering will tell."""
        return any("xcom_pull" in text for value in self.templated() for text in _texts(value))


class EmptyTask(BaseTask):
    """Does nothing: joins and names a point in the graph (Airflow: EmptyOperator)."""

    kind: Literal["empty"] = "empty"


class BashTask(BaseTask):
    """A bash command; its last line of output is the result (Airflow: BashOperator).

    Exit code 99 skips the task.
    """

    activity: ClassVar[str | None] = "tidemill.bash"
    kind: Literal["bash"] = "bash"
    command: Annotated[str, Field(min_length=1)]
    env: dict[str, str] = {}
    cwd: str | None = None

    def templated(self) -> tuple[Any, ...]:
        return (self.command, self.env, self.cwd)


class _CallTask(BaseTask):
    """A call of the function that the DAG file defines for this task_id.

    The function may take the context's names (`ds`, `params`, `ti`, ...) as keyword arguments.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    takes_context: bool = False
    """Whether the function asks for `ti` or `**kwargs`, and so may pull any result."""

    def templated(self) -> tuple[Any, ...]:
        return (self.args, self.kwargs)

    @property
    def pulls_xcom(self) -> bool:
        return self.takes_context or super().pulls_xcom


class PythonTask(_CallTask):
    """A Python function, called in a child process of its own (Airflow: PythonOperator)."""

    activity: ClassVar[str | None] = "tidemill.python"
    kind: Literal["python"] = "python"


class BashFunctionTask(_CallTask):
    """A Python function that returns the bash command to run (Airflow: @task.bash)."""

    activity: ClassVar[str | None] = "tidemill.bash_function"
    kind: Literal["bash_function"] = "bash_function"


class SparkOptions(Model):
    """How a Spark application is submitted: the flags of spark-submit by their names."""

    master: str | None = None
    deploy_mode: Literal["client"] = "client"
    conf: dict[str, str | int | float | bool] = {}
    driver_memory: str | None = None
    executor_memory: str | None = None
    executor_cores: PositiveInt | None = None
    num_executors: PositiveInt | None = None
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    name: str | None = None


class SparkSubmitTask(BaseTask):
    """A Spark application, submitted with spark-submit (Airflow: SparkSubmitOperator).

    A relative `application` is looked up from the folder of the DAG file.
    """

    activity: ClassVar[str | None] = "tidemill.spark"
    kind: Literal["spark_submit"] = "spark_submit"
    application: Annotated[str, Field(min_length=1)]
    application_args: tuple[str | dict[str, str], ...] = ()
    """Texts, or references to results of other tasks."""
    java_class: str | None = None
    spark: SparkOptions = SparkOptions()
    env: dict[str, str] = {}

    def templated(self) -> tuple[Any, ...]:
        return (self.application, self.application_args, self.spark.conf, self.env)


class PySparkTask(_CallTask):
    """A function of the DAG file that is given a SparkSession (Airflow: @task.pyspark)."""

    activity: ClassVar[str | None] = "tidemill.spark"
    kind: Literal["pyspark"] = "pyspark"
    spark: SparkOptions = SparkOptions()
    env: dict[str, str] = {}

    def templated(self) -> tuple[Any, ...]:
        return (*super().templated(), self.spark.conf, self.env)


Task = Annotated[
    EmptyTask | BashTask | PythonTask | BashFunctionTask | SparkSubmitTask | PySparkTask,
    Field(discriminator="kind"),
]
"""Any kind of task."""


def require_order(what: str, start: datetime | None, end: datetime | None) -> None:
    if start is not None and end is not None and end < start:
        raise ValueError(
            f"{what}: end_date {end.isoformat()} is before start_date {start.isoformat()}. Swap or correct them"
        )


def _references(value: Any) -> Iterator[str]:
    if is_xcom_reference(value):
        yield value[XCOM_REFERENCE]
    for part in _parts(value):
        yield from _references(part)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for part in _parts(value):
        yield from _texts(part)


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value
