"""What a task is: one frozen model for each kind, told apart by `kind`.

A new kind is a model in one of the files here, and in the union below it, and an activity of the name that it gives;
the planner knows neither. Tables by kind are derived from the models.
"""

from collections.abc import Mapping
from typing import Annotated, get_args

from pydantic import Field

from .airflow import AirflowTask
from .base import BaseTask, WeightRule, require_order
from .code import (
    BashFunctionTask,
    BashTask,
    BranchTask,
    CallTask,
    CodeTask,
    EmptyTask,
    LatestOnlyTask,
    PythonTask,
    ShortCircuitTask,
)
from .foreign import ActivityTask, ForeignTask, TriggerDagTask, WorkflowTask
from .spark import (
    PySparkTask,
    SparkMode,
    SparkOptions,
    SparkPipelinesTask,
    SparkSqlFunctionTask,
    SparkSqlTask,
    SparkSubmitTask,
    SparkTask,
    SparkWork,
)
from .waiting import (
    ApprovalTask,
    BashSensorTask,
    ExternalTaskTask,
    FileSensorTask,
    PokedTask,
    SensorTask,
    TimeTask,
    WaitingTask,
    WaitTask,
)

Task = Annotated[CodeTask | SparkTask | WaitTask | ForeignTask | AirflowTask, Field(discriminator="kind")]
"""Any kind of task."""

KINDS: Mapping[str, type[BaseTask]] = {one.model_fields["kind"].default: one for one in get_args(get_args(Task)[0])}
"""The model of each kind."""


def kinds_of(*bases: type[BaseTask]) -> frozenset[str]:
    """The kinds whose models are derived from one of *bases*."""
    return frozenset(kind for kind, model in KINDS.items() if issubclass(model, bases))


__all__ = [
    "KINDS",
    "ActivityTask",
    "AirflowTask",
    "ApprovalTask",
    "BaseTask",
    "BashFunctionTask",
    "BashSensorTask",
    "BashTask",
    "BranchTask",
    "CallTask",
    "EmptyTask",
    "ExternalTaskTask",
    "FileSensorTask",
    "LatestOnlyTask",
    "PokedTask",
    "PySparkTask",
    "PythonTask",
    "SensorTask",
    "ShortCircuitTask",
    "SparkMode",
    "SparkOptions",
    "SparkPipelinesTask",
    "SparkSqlFunctionTask",
    "SparkSqlTask",
    "SparkSubmitTask",
    "SparkWork",
    "Task",
    "TimeTask",
    "TriggerDagTask",
    "WaitingTask",
    "WeightRule",
    "WorkflowTask",
    "kinds_of",
    "require_order",
]
