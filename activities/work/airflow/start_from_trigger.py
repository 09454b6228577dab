"""Tasks that begin with their trigger, and tasks that their trigger has failed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from ....model.run.attempts import TaskAttempt
from ....model.run.deferrals import FAILED_BY_TRIGGER
from .dag_conversion import is_mapped_operator


class TriggerFailed(Exception):  # noqa: N818 - so it is called where no process of the task's tells of it
    """A trigger has failed its task."""


def is_failed_by_trigger(attempt: TaskAttempt) -> bool:
    """Whether only the callbacks of the try are left to call."""
    return attempt.resume is not None and attempt.resume.next_method == FAILED_BY_TRIGGER


def fail(ti: Any, attempt: TaskAttempt, now: datetime) -> tuple[str, dict[str, Any]]:
    """Has the task instance look as after a failure of its own at *now*; its state, and how it would say that."""
    from airflow.sdk.api.datamodels._generated import TaskInstanceState

    has_tries = attempt.try_number <= attempt.max_tries
    ti.state = TaskInstanceState.UP_FOR_RETRY if has_tries else TaskInstanceState.FAILED
    ti.end_date = now
    end = {"type": "RetryTask"} if has_tries else {"type": "TaskState", "state": "failed"}
    return str(ti.state.value), end


def begun_by_trigger(task: Any, context: Any) -> dict[str, Any] | None:
    """The deferral of an operator that begins with its trigger: its `execute` is not called, as in Airflow.

    What the trigger is given is rendered where the operator's field of the same name would be.
    """
    from airflow.sdk.serde import serialize

    args = getattr(task, "start_trigger_args", None)
    if is_mapped_operator(task) or args is None or not task.start_from_trigger:
        return None
    given = dict(args.trigger_kwargs or {})
    environment = task.get_template_env()
    given |= {
        name: task.render_template(given[name], context, environment) for name in task.template_fields if name in given
    }
    return {
        "type": "DeferTask",
        "classpath": args.trigger_cls,
        "trigger_kwargs": serialize(given),
        "trigger_timeout": _sooner(args.timeout, task.execution_timeout),
        "next_method": args.next_method,
        "next_kwargs": serialize(args.next_kwargs or {}),
    }


def _sooner(timeout: timedelta | None, other: timedelta | None) -> timedelta | None:
    return min((each for each in (timeout, other) if each is not None), default=None)
