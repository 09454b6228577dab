"""depends_on_past and wait_for_downstream: which run comes before a run, and whether a task may follow it."""

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol, TypeVar

from ..base import Model
from ..spec.dag import DagSpec
from ..spec.tasks import BaseTask
from ..states import TaskState
from .identity import RunIdentity, RunType

GOOD = frozenset({TaskState.SUCCESS, TaskState.SKIPPED})


class Past(Model):
    """The run before a run, as far as its tasks are looked at by the next."""

    run_id: str
    states: dict[str, TaskState] = {}


class Dated(Protocol):
    """A run in an order of runs."""

    @property
    def logical_date(self) -> datetime | None: ...

    @property
    def run_type(self) -> RunType: ...


D = TypeVar("D", bound=Dated)


def run_before(run: RunIdentity, others: Iterable[D], *, catchup: bool) -> D | None:
    """The run that *run* comes after (Airflow's previous run): by logical date; a run without one has none before it.

    With catchup manual runs are left out, since they are no part of the sequence.
    """
    if run.logical_date is None:
        return None
    found: D | None = None
    latest: datetime | None = None
    for other in others:
        date = other.logical_date
        if date is None or date >= run.logical_date or (catchup and other.run_type is RunType.MANUAL):
            continue
        if latest is None or date > latest:
            found, latest = other, date
    return found


def remembered(spec: DagSpec) -> frozenset[str]:
    """The tasks whose ends the next run has to know."""
    wanted: set[str] = set()
    for task in spec.tasks:
        if task.needs_past:
            wanted.add(task.task_id)
        if task.wait_for_downstream:
            wanted.update(spec.downstreams[task.task_id])
    return frozenset(wanted)


def held_by_past(task: BaseTask, past: Past | None, below: Iterable[str]) -> str | None:
    """What in the run before keeps *task* from starting; None if nothing does."""
    if not task.needs_past or past is None:
        return None
    if task.task_id not in past.states:
        if task.ignore_first_depends_on_past:
            return None
        return f"depends_on_past: run {past.run_id} had no task {task.task_id!r}"
    if (problem := _not_good(past, task.task_id)) is not None:
        return f"depends_on_past: {problem}"
    if task.wait_for_downstream:
        for other in below:
            if (problem := _not_good(past, other)) is not None:
                return f"wait_for_downstream: {problem}"
    return None


def _not_good(past: Past, task_id: str) -> str | None:
    state = past.states.get(task_id)
    if state is None or state in GOOD:
        return None
    return f"{task_id} is {state} in run {past.run_id}"


def summarised(states: Iterable[TaskState]) -> TaskState:
    """One state for all instances of a mapped task: the first that is not good, else success or skipped."""
    all_states = list(states)
    bad = next((state for state in all_states if state not in GOOD), None)
    if bad is not None:
        return bad
    return TaskState.SUCCESS if TaskState.SUCCESS in all_states or not all_states else TaskState.SKIPPED
