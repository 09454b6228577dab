"""Small questions of tasks that wait: until when, and whether a file is there."""

from datetime import UTC, datetime, time, timedelta
from glob import glob
from typing import Any

from dateutil.parser import isoparse
from temporalio import activity

from ..model.attempts import TaskAttempt
from ..model.base import Instant, Model, iso
from ..model.context import context, resolve
from ..model.errors import InvalidInputError
from ..model.poking import poked
from ..model.task_instances import Failure, Outcome
from ..model.tasks import FileSensorTask, TimeTask
from ..model.timetables.cron import zone
from .rendering import render
from .supervision import task_failed


class _Refused:
    """In the place of `var` and `conn`: what is filled in here comes into Temporal's history."""

    def __getattr__(self, name: str) -> Any:
        raise InvalidInputError(
            f"{name!r} is a variable or connection, and this would come into history. Read it where the work is done"
        )


NOT_HERE = {"var": _Refused(), "conn": _Refused()}


class Moment(Model):
    """When a wait ends."""

    at: Instant
    note: str


class Rendered(Model):
    """A task's templated values, filled in."""

    values: tuple[Any, ...]


def filled(attempt: TaskAttempt, value: Any) -> Any:
    """*value* with results of other tasks and templates in it filled in. Fails the task where that cannot be done."""
    try:
        known = {**context(attempt), **NOT_HERE}
        return resolve(render(value, known, native=attempt.render_template_as_native_obj), attempt.xcom)
    except InvalidInputError as error:
        raise task_failed(Failure(error_type="TemplateError", message=str(error))) from None


@activity.defn(name="tidemill.render")
def render_attempt(attempt: TaskAttempt) -> Rendered:
    """The arguments of a task whose work somebody else does."""
    found = filled(attempt, attempt.task.templated()[0])
    return Rendered(values=(found,) if isinstance(found, str) else tuple(found))


@activity.defn(name="tidemill.moment")
def find_moment(attempt: TaskAttempt) -> Moment:
    """When a task that waits for a time is done."""
    task, run = attempt.task, attempt.run
    assert isinstance(task, TimeTask)  # noqa: S101
    since = run.data_interval.end if run.data_interval is not None else run.run_after
    target = filled(attempt, task.target_time)
    try:
        at = since + (task.delta or timedelta()) if target is None else _at(target, task.timezone, since)
    except ValueError as error:
        told = f"target_time = {target!r}: {error}. Write a time such as 06:30, or a date and time"
        raise task_failed(Failure(error_type="InvalidInput", message=told, retryable=False)) from None
    return Moment(at=at, note=f"waits for {iso(at)}")


def _at(target: str, timezone: str, since: datetime) -> datetime:
    """A date and time, or a time of the day on which the run's interval ends."""
    tz = zone(timezone)
    if "-" not in target:
        return datetime.combine(since.astimezone(tz).date(), time.fromisoformat(target), tz).astimezone(UTC)
    moment = isoparse(target)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=tz)).astimezone(UTC)


@activity.defn(name="tidemill.file_sensor")
def poke_file(attempt: TaskAttempt) -> Outcome:
    """Whether a file that the path or pattern means is there."""
    task = attempt.task
    assert isinstance(task, FileSensorTask)  # noqa: S101
    path = filled(attempt, task.filepath)
    found = glob(path, recursive=True)  # noqa: PTH207 - the pattern may be absolute
    return poked(attempt, bool(found), datetime.now(UTC), f"no file {path} yet")
