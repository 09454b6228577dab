"""What a poke of a waiting task comes to."""

from datetime import datetime
from typing import Any

from ..spec.references import RETURN_VALUE
from ..spec.tasks import PokedTask
from ..states import TaskState
from .attempts import TaskAttempt
from .task_instances import Outcome


class PokeReturnValue:
    """What a sensor's function may return: whether the wait is over, and then the result (Airflow's name)."""

    def __init__(self, is_done: bool, xcom_value: Any = None) -> None:
        self.is_done = is_done
        self.xcom_value = xcom_value

    def __bool__(self) -> bool:
        return self.is_done


def poked(attempt: TaskAttempt, result: Any, now: datetime, note: str = "not yet") -> Outcome:
    """The outcome of a poke at *now*: the wait is over, or goes on, or has taken too long."""
    if result:
        value = result.xcom_value if isinstance(result, PokeReturnValue) else None
        return Outcome(started_at=now, xcom={} if value is None else {RETURN_VALUE: value})
    task = attempt.task
    assert isinstance(task, PokedTask)  # noqa: S101
    if attempt.waiting_since is not None and now - attempt.waiting_since >= task.timeout:
        return Outcome(state=TaskState.FAILED, started_at=now, note=f"timeout of {task.timeout} is over: {note}")
    return Outcome(state=TaskState.UP_FOR_RESCHEDULE, started_at=now, note=note)
