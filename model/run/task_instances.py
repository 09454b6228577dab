"""One task in one run: its state, its attempts, what came of it, and when it may be tried again."""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from ..asset.outlets import OutletEvent
from ..base import Instant, Model, OmitDefaults, Record
from ..spec.tasks import BaseTask, PokedTask
from ..states import WAITS, TaskState, check_transition
from .deferrals import Deferral
from .forms import InputForm, Response
from .instance_keys import UNMAPPED, instance_key

# Airflow's own bound on an exponential backoff that has none.
LONGEST_RETRY_DELAY = timedelta(days=1)


class Failure(OmitDefaults, Model):
    """Why an attempt failed, as its user should read it: the innermost cause, not an exit code."""

    error_type: str
    message: str
    traceback: tuple[str, ...] = ()
    """The user's own frames, innermost last."""
    kinds: tuple[str, ...] = ()
    """The names of the exception's class and of those that it is derived from."""
    retryable: bool = True
    is_disruption: bool = False
    """Whether the cluster took the task's driver from it for reasons of its own: that costs none of its retries."""
    retry_delay: timedelta | None = None
    """When the next try is to be, where the task has said so itself."""
    xcom: dict[str, Any] = {}
    """What the task had pushed before it failed."""
    map_label: str | None = None
    """What the instance of a mapped task calls itself."""


class Submission(OmitDefaults, Model):
    """An application that runs on a cluster by itself, and is followed from there."""

    application_id: str
    """What its cluster knows it by: a driver id, a YARN application, a pod."""
    submitted_at: Instant
    url: str | None = None


class StagedOutput(Model):
    """A folder that an attempt has made, and the place that it is to take."""

    staged: str
    target: str
    bundle: str | None = None
    """Whose DAG has made it: it takes its place with the rights of that bundle's tasks."""


class StagedTable(Model):
    """Rows that an attempt has written to a branch of a table, and which of the table's rows they replace."""

    table: str
    branch: str
    """Of this attempt's own: readers of the table do not see it."""
    family: str
    """How the names of all branches of the task instance begin."""
    replace_where: str | None = None


class Outcome(OmitDefaults, Model):
    """What an attempt that did not fail reports."""

    state: TaskState = TaskState.SUCCESS
    xcom: dict[str, Any] = {}
    started_at: Instant | None = None
    note: str | None = None
    wake_at: Instant | None = None
    """When a wait ends that needs no worker."""
    gives_up: bool = False
    """Whether it ends then without what it waits for: its `timeout` is over."""
    submission: Submission | None = None
    """The work has only begun: it goes on where this says."""
    needs_driver: bool = False
    """Nothing has begun: it needs room for a driver of Spark below its worker."""
    staged: StagedOutput | None = None
    staged_table: StagedTable | None = None
    asset_events: tuple[OutletEvent, ...] = ()
    """What the task has said of the assets that it writes."""
    deferral: Deferral | None = None
    """What the try waits for, and how it goes on."""
    skips: tuple[str, ...] = ()
    """The tasks that it has decided not to run, where it says so itself."""
    mapped_length: int | None = None
    """How many values the result has, where only its own code can count them."""
    map_label: str | None = None
    """What an instance of a mapped task calls itself (Airflow: rendered_map_index)."""


class Attempt(OmitDefaults, Model):
    """One finished try of a task."""

    try_number: int
    state: TaskState
    started_at: Instant | None = None
    ended_at: Instant
    failure: Failure | None = None


class TaskInstance(OmitDefaults, Record):
    """A task in a run. Only the run's workflow changes it."""

    task_id: str
    map_index: int = UNMAPPED
    state: TaskState = TaskState.NONE
    try_number: int = 0
    reason: str | None = None
    """Why the task has the state it has, where the state does not say it."""
    queued_at: Instant | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    retry_at: Instant | None = None
    wake_at: Instant | None = None
    """When a wait without a worker ends, or its next poke is."""
    gives_up: bool = False
    """Whether the wait ends at `wake_at` without what it waits for."""
    waiting_since: Instant | None = None
    """When the first poke of this try was."""
    pokes: int = 0
    tries_cleared: int = 0
    """How many tries there had been when the task was cleared last: `retries` count from there."""
    disruptions: int = 0
    """How many tries since then were ended by the cluster, and cost no retry."""
    skips: tuple[str, ...] = ()
    """The tasks that this one, a branch or a short circuit, has decided not to run."""
    xcom: dict[str, Any] = {}
    mapped_length: int | None = None
    """How many values the result has, where only its own code can count them."""
    map_label: str | None = None
    deferral: Deferral | None = None
    """What it waits for outside of a worker; then how its try goes on."""
    subject: str | None = None
    """What a person is asked by an approval, filled in; all else of that is in the DAG."""
    form: InputForm | None = None
    """What a person was asked by a task of Airflow's, and has not answered in time."""
    response: Response | None = None
    """What a person was asked in this try, and has answered."""
    attempts: list[Attempt] = []

    def move(self, state: TaskState, reason: str | None = None) -> None:
        """Takes *state*. Raises IllegalTransitionError if it cannot follow the present one."""
        check_transition(self.task_id, self.state, state)
        self.state = state
        self.reason = reason
        if state.finished:
            self.retry_at = self.wake_at = None

    @property
    def waits(self) -> bool:
        """Whether its try goes on while no worker has it: it waits for something, or for a slot to go on with."""
        return self.state in WAITS or (self.state is TaskState.SCHEDULED and self.pokes > 0)

    @property
    def tries_spent(self) -> int:
        """How many of the tries that it may have it has had."""
        return self.try_number - self.tries_cleared - self.disruptions

    def max_tries(self, retries: int) -> int:
        """Return after how many tries it fails for good (Airflow: max_tries): *retries* after the last clear."""
        return self.tries_cleared + self.disruptions + retries

    def clear(self) -> None:
        """Forgets the result, for another try; earlier tries are kept."""
        self.tries_cleared, self.disruptions = self.try_number, 0
        self.xcom, self.skips, self.pokes, self.gives_up = {}, (), 0, False
        self.mapped_length = self.map_label = self.deferral = self.response = None
        self.subject = self.form = None
        self.retry_at = self.wake_at = self.waiting_since = None
        self.queued_at = self.started_at = self.ended_at = None

    @property
    def key(self) -> str:
        return instance_key(self.task_id, self.map_index)

    @property
    def has_failed(self) -> bool:
        """Whether its last try has failed, and nobody has said otherwise since."""
        return self.state in (TaskState.FAILED, TaskState.UP_FOR_RETRY)

    @property
    def began(self) -> datetime | None:
        """When it has begun; one that never ran has, as in Airflow, begun when it ended."""
        return self.started_at or self.ended_at

    @property
    def failure(self) -> Failure | None:
        return self.attempts[-1].failure if self.attempts else None


def retry_delay(task: BaseTask, try_number: int, seed: str) -> timedelta:
    """How long to wait after try *try_number* (from 1) failed.

    Exponential backoff doubles with each try, or takes it as many times as it says, and adds up to as much again, by a
    hash of *seed*: the same on every replay, another for every task (Airflow: next_retry_datetime).
    """
    delay = task.retry_delay
    if task.retry_exponential_backoff and delay > timedelta():
        times = 2.0 if task.retry_exponential_backoff is True else float(task.retry_exponential_backoff)
        grown = _power_at_most(delay.total_seconds(), times, try_number - 1, LONGEST_RETRY_DELAY.total_seconds())
        fraction = int.from_bytes(sha256(f"{seed}#{try_number}".encode()).digest()[:4]) / 2**32
        delay = min(timedelta(seconds=grown * (1 + fraction)), LONGEST_RETRY_DELAY)
    return _at_most(delay, task.max_retry_delay)


def _at_most(delay: timedelta, maximum: timedelta | None) -> timedelta:
    return delay if maximum is None else min(delay, maximum)


def _power_at_most(value: float, times: float, power: int, maximum: float) -> float:
    """*value* times *times* to the *power*, or *maximum*: also where a float cannot hold it."""
    try:
        return min(value * times**power, maximum)
    except OverflowError:
        return maximum


def poke_delay(task: PokedTask, pokes: int) -> timedelta:
    """How long until the next poke after *pokes* of them (from 1)."""
    if not task.exponential_backoff:
        return task.poke_interval
    power = min(pokes - 1, 20)
    grown = _power_at_most(task.poke_interval.total_seconds(), 2.0, power, LONGEST_RETRY_DELAY.total_seconds())
    return _at_most(timedelta(seconds=grown), task.max_wait)


def may_retry(task: BaseTask, try_number: int, failure: Failure) -> bool:
    """Whether a try is left after *try_number* (from 1) ended in *failure*."""
    names = {failure.error_type, *failure.kinds}
    if names & {*task.no_retry_on} or (task.retry_only_on and not names & {*task.retry_only_on}):
        return False
    return failure.retryable and try_number <= task.retries
