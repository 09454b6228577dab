"""One task in one run: its state, its attempts, what came of it, and when it may be tried again."""

from datetime import timedelta
from hashlib import sha256
from typing import Any

from .base import Instant, Model, Record
from .states import TaskState, check_transition
from .tasks import BaseTask

# Airflow's own bound on an exponential backoff that has none.
LONGEST_RETRY_DELAY = timedelta(days=1)


class Failure(Model):
    """Why an attempt failed, as its user should read it: the innermost cause, not an exit code."""

    error_type: str
    message: str
    traceback: tuple[str, ...] = ()
    """The user's own frames, innermost last."""
    retryable: bool = True


class Outcome(Model):
    """What an attempt that did not fail reports."""

    state: TaskState = TaskState.SUCCESS
    xcom: dict[str, Any] = {}
    started_at: Instant | None = None
    note: str | None = None


class Attempt(Model):
    """One finished try of a task."""

    try_number: int
    state: TaskState
    started_at: Instant | None = None
    ended_at: Instant
    failure: Failure | None = None


class TaskInstance(Record):
    """A task in a run. Only the run's workflow changes it."""

    task_id: str
    state: TaskState = TaskState.NONE
    try_number: int = 0
    reason: str | None = None
    """Why the task has the state it has, where the state does not say it."""
    queued_at: Instant | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    retry_at: Instant | None = None
    xcom: dict[str, Any] = {}
    attempts: list[Attempt] = []

    def move(self, state: TaskState, reason: str | None = None) -> None:
        """Takes *state*. Raises IllegalTransitionError if it cannot follow the present one."""
        check_transition(self.task_id, self.state, state)
        self.state = state
        self.reason = reason

    @property
    def failure(self) -> Failure | None:
        return self.attempts[-1].failure if self.attempts else None


def retry_delay(task: BaseTask, try_number: int, seed: str) -> timedelta:
    """How long to wait after try *try_number* (from 1) failed.

    Exponential backoff doubles with each try and adds up to as much again, by a hash of *seed*:
    the same on every replay, another for every task (Airflow: next_retry_datetime).
    """
    delay = task.retry_delay
    if task.retry_exponential_backoff and delay > timedelta():
        doubled = min(delay.total_seconds() * 2.0 ** (try_number - 1), LONGEST_RETRY_DELAY.total_seconds())
        fraction = int.from_bytes(sha256(f"{seed}#{try_number}".encode()).digest()[:4]) / 2**32
        delay = min(timedelta(seconds=doubled * (1 + fraction)), LONGEST_RETRY_DELAY)
    return delay if task.max_retry_delay is None else min(delay, task.max_retry_delay)


def may_retry(task: BaseTask, try_number: int, failure: Failure) -> bool:
    """Whether a try is left after *try_number* (from 1) ended in *failure*."""
    return failure.retryable and try_number <= task.retries
