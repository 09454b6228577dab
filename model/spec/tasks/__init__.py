"""What a task is: one frozen model for each kind, told apart by `kind`.

A new kind is a model here and an activity of the name that it gives; the planner knows neither.
"""

from typing import Annotated

from pydantic import Field

from .airflow import AirflowTask
from .base import BaseTask, WeightRule, require_order
from .code import (
    BashFunctionTask,
    BashTask,
    BranchTask,
    CallTask,
    EmptyTask,
    LatestOnlyTask,
    PythonTask,
    ShortCircuitTask,
)
from .foreign import ActivityTask, TriggerDagTask, WorkflowTask
from .spark import (
    PySparkTask,
    SparkMode,
    SparkOptions,
    SparkSqlFunctionTask,
    SparkSqlTask,
    SparkSubmitTask,
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
)

Task = Annotated[
    EmptyTask
    | BashTask
    | PythonTask
    | BashFunctionTask
    | BranchTask
    | ShortCircuitTask
    | LatestOnlyTask
    | SparkSubmitTask
    | PySparkTask
    | SparkSqlTask
    | SparkSqlFunctionTask
    | SensorTask
    | BashSensorTask
    | FileSensorTask
    | ExternalTaskTask
    | TimeTask
    | ApprovalTask
    | ActivityTask
    | WorkflowTask
    | TriggerDagTask
    | AirflowTask,
    Field(discriminator="kind"),
]
"""Any kind of task."""

__all__ = [
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
    "require_order",
]
