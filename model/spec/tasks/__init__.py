"""What a task is: one frozen model for each kind, told apart by `kind`.

A new kind is a folder of `kinds/`, or a package of somebody else's. Those here share models with one another, or are
no work of a child: the planner knows none of them. Tables by kind are derived from the models.
"""

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, get_args

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
from .folders import FOLDERS
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
    PokedTask,
    SensorTask,
    TimeTask,
    WaitingTask,
    WaitTask,
)

_Known = CodeTask | SparkTask | WaitTask | ForeignTask | AirflowTask
if TYPE_CHECKING:
    Task = _Known
else:
    _kinds = reduce(or_, (model for _, model in FOLDERS.values()), _Known)
    Task = Annotated[_kinds, Field(discriminator="kind")]
"""Any kind of task."""

_taken = sorted({one.model_fields["kind"].default for one in get_args(_Known)} & FOLDERS.keys())
if _taken:
    raise ImportError(
        f"the kind of task {_taken[0]!r} of {FOLDERS[_taken[0]][0]} is one of tidemill's. Give it another name"
    )

KINDS: Mapping[str, type[BaseTask]] = {
    **{one.model_fields["kind"].default: one for one in get_args(_Known)},
    **{kind: model for kind, (_, model) in FOLDERS.items()},
}
"""The model of each kind."""


def kinds_of(*bases: type[BaseTask]) -> frozenset[str]:
    """The kinds whose models are derived from one of *bases*."""
    return frozenset(kind for kind, model in KINDS.items() if issubclass(model, bases))


__all__ = [
    "FOLDERS",
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
