"""What stands in for the work of tasks in a test: a result, an exception, or a function that gives either."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...activities.attempts.supervision import task_failure
from ...activities.work.failures import describe_failure
from ...activities.work.function import checked
from ...model.errors import InvalidInputError
from ...model.exceptions import AirflowSkipException
from ...model.run.attempts import TaskAttempt
from ...model.run.instance_keys import instance_key
from ...model.run.task_instances import Outcome
from ...model.spec.dag import DagSpec
from ...model.spec.references import RETURN_VALUE
from ...model.states import TaskState

StandIns = Mapping[str, Any]
"""By task_id, or by `task_id[map_index]` for one instance: the result, an exception to raise, or a function.

A function is called with the number of the try (1, 2, ...) and returns the result, or raises.
"""
NOBODY: StandIns = {}


def check_stand_ins(spec: DagSpec, stand_ins: StandIns) -> None:
    """Raise InvalidInputError where *stand_ins* name a task that the DAG has not."""
    for name in stand_ins:
        if name.partition("[")[0] not in spec.by_id:
            raise InvalidInputError(
                f"outcomes: DAG {spec.dag_id!r} has no task {name!r}. It has {', '.join(spec.by_id)}"
            )


def stands_in(stand_ins: StandIns, attempt: TaskAttempt) -> str | None:
    """Return the name by which *stand_ins* have something for *attempt*; None: the task does its own work."""
    task_id = attempt.task.task_id
    names = (instance_key(task_id, attempt.map_index), task_id)
    return next((name for name in names if name in stand_ins), None)


def outcome_instead(given: Any, attempt: TaskAttempt) -> Outcome:
    """What comes of *attempt* where *given* stands in for its work. Raises the failure that it tells of."""
    try:
        result = _result(given, attempt.try_number)
        return Outcome(xcom={} if result is None else checked({RETURN_VALUE: result}))
    except AirflowSkipException as skip:
        return Outcome(state=TaskState.SKIPPED, note=str(skip) or "the task skipped itself")
    except Exception as error:
        raise task_failure(describe_failure(error)) from None


def _result(given: Any, try_number: int) -> Any:
    if isinstance(given, BaseException) or (isinstance(given, type) and issubclass(given, BaseException)):
        raise given
    function: Callable[[int], Any] | None = given if callable(given) else None
    return function(try_number) if function is not None else given
