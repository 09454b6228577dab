"""Small questions of tasks that wait: until when, and whether a file is there."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

from dateutil.parser import isoparse
from temporalio import activity

from ..model.base import Instant, Model, iso
from ..model.run.attempts import TaskAttempt
from ..model.run.moments import moment_after, since
from ..model.run.task_instances import Failure
from ..model.spec.tasks import TimeTask
from ..model.spec.timetables.cron import zone
from .attempts.lifecycle import rendered
from .attempts.supervision import Unattended, task_failure
from .worker_context import WorkerContext

RENDERING_TIMEOUT = timedelta(seconds=25)
"""Below what a workflow waits for an answer."""


class Moment(Model):
    """When a wait ends."""

    at: Instant
    note: str


class Rendered(Model):
    """A task's templated values, filled in."""

    values: tuple[Any, ...]


def filled(worker_context: WorkerContext, attempt: TaskAttempt, value: Any) -> Any:
    """*value* with results of other tasks and templates in it filled in. Fails the task where that cannot be done.

    It comes into history, so that there are no variables and connections in it. Templates are filled by a child.
    """
    return rendered(worker_context, attempt, value, for_history=True, supervisor=Unattended(RENDERING_TIMEOUT))


class WaitingActivities:
    def __init__(self, worker_context: WorkerContext) -> None:
        self._worker_context = worker_context

    @activity.defn(name="tidemill.render", no_thread_cancel_exception=True)
    def render_attempt(self, attempt: TaskAttempt) -> Rendered:
        """The arguments of a task whose work somebody else does."""
        found = filled(self._worker_context, attempt, attempt.task.templated()[0])
        return Rendered(values=(found,) if isinstance(found, str) else tuple(found))

    @activity.defn(name="tidemill.moment", no_thread_cancel_exception=True)
    def find_moment(self, attempt: TaskAttempt) -> Moment:
        """When a task that waits for a time is done."""
        task, run = attempt.task, attempt.run
        assert isinstance(task, TimeTask)  # noqa: S101
        target = filled(self._worker_context, attempt, task.written())["target_time"]
        try:
            at = moment_after(task, run) if target is None else _at(target, task.timezone, since(run))
        except ValueError as error:
            message = f"target_time = {target!r}: {error}. Write a time such as 06:30, or a date and time"
            raise task_failure(Failure(error_type="InvalidInput", message=message, retryable=False)) from None
        return Moment(at=at, note=f"waits for {iso(at)}")


def _at(target: str, timezone: str, since: datetime) -> datetime:
    """A date and time, or a time of the day on which the run's interval ends."""
    tz = zone(timezone)
    if "-" not in target:
        return datetime.combine(since.astimezone(tz).date(), time.fromisoformat(target), tz).astimezone(UTC)
    moment = isoparse(target)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=tz)).astimezone(UTC)
