"""When each try of a run waited and worked, and on which worker: as bars between the run's first and last moment."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ...model.run.views import RunDetails, TaskView
from ...model.states import TaskState
from ...worker.supervision.attempt_starts import AttemptStart


@dataclass(frozen=True)
class Bar:
    """A try. What it begins at, waits and works are shares of the whole, in percent."""

    key: str
    try_number: int
    state: TaskState
    begins: float
    waits: float
    works: float
    took: timedelta | None
    starts: Sequence[AttemptStart]

    @property
    def was_handed_over(self) -> bool:
        return any(start.starts > 1 for start in self.starts)


@dataclass(frozen=True)
class Timeline:
    """The bars of a run."""

    begins: datetime | None
    ends: datetime | None
    bars: Sequence[Bar]


@dataclass(frozen=True)
class _Try:
    key: str
    number: int
    state: TaskState
    queued: datetime
    started: datetime
    ended: datetime


OfTry = Mapping[tuple[str, int], Sequence[AttemptStart]]
"""By instance and number, how a try was begun."""


def timeline(details: RunDetails, starts: Sequence[AttemptStart], now: datetime) -> Timeline:
    """The tries of a run, the first one first. What goes on ends *now*."""
    of_try: dict[tuple[str, int], list[AttemptStart]] = defaultdict(list)
    for start in starts:
        of_try[start.key, start.try_number].append(start)
    tries = sorted((one for task in details.tasks for one in _tries(task, of_try, now)), key=lambda one: one.queued)
    if not tries:
        return Timeline(None, None, [])
    first, last = min(one.queued for one in tries), max(one.ended for one in tries)
    whole = max((last - first).total_seconds(), 0.001)

    def share(start: datetime, end: datetime) -> float:
        return round(100 * max(0.0, (end - start).total_seconds()) / whole, 3)

    bars = [
        Bar(
            key=one.key,
            try_number=one.number,
            state=one.state,
            begins=share(first, one.queued),
            waits=share(one.queued, one.started),
            works=share(one.started, one.ended),
            took=one.ended - one.started,
            starts=of_try.get((one.key, one.number), []),
        )
        for one in tries
    ]
    return Timeline(first, last, bars)


def _tries(task: TaskView, of_try: OfTry, now: datetime) -> list[_Try]:
    """The tries of an instance that have begun, or wait for a worker."""
    found = []
    for one in task.tries:
        first = next(iter(of_try.get((task.key, one.try_number), ())), None)
        began = one.queued_at or one.started_at or one.ended_at
        if first is not None and one.ended_at is not None:
            began = first.queued_at
        if began is not None:
            started, ended = one.started_at or one.ended_at or now, one.ended_at or now
            found.append(_Try(task.key, one.try_number, one.state, min(began, started), started, max(started, ended)))
    return found
