"""Waits for a moment: when they end, whoever has a task wait."""

from datetime import datetime, timedelta

from ..spec.tasks import TimeTask
from ..states import TaskState
from .identity import RunIdentity
from .task_instances import Outcome


def moment_after(task: TimeTask, run: RunIdentity) -> datetime:
    """Return when a task of *run* is done that waits for `delta` (UTC)."""
    return since(run) + (task.delta or timedelta())


def since(run: RunIdentity) -> datetime:
    """Return from when on a task of *run* waits (UTC): the end of its data interval, or run_after without one."""
    return run.data_interval.end if run.data_interval is not None else run.run_after


def wait_for(started_at: datetime, at: datetime, note: str | None = None) -> Outcome:
    """Return the beginning, at *started_at*, of a wait that is over at *at*."""
    return Outcome(state=TaskState.DEFERRED, started_at=started_at, wake_at=at, note=note)


def wait_until_timeout(task: TimeTask, started_at: datetime, note: str | None = None) -> Outcome:
    """Return the beginning of a wait for a moment that is behind the task's `timeout`."""
    known = wait_for(started_at, started_at + task.timeout, note)
    return known.model_copy(update={"gives_up": True})


def is_behind_timeout(task: TimeTask, started_at: datetime, at: datetime) -> bool:
    """Whether the moment *at* comes too late for a task that has begun at *started_at*."""
    return at > started_at + task.timeout


def timed_out(task: TimeTask, started_at: datetime | None) -> Outcome:
    """Return what a wait comes to that was given up."""
    note = f"timeout of {task.timeout} is over: not yet"
    return Outcome(state=TaskState.FAILED, started_at=started_at, note=note)
