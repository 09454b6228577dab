"""How much goes on at a time in a simulated world: tasks that run, runs that wait, slots of pools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import accumulate

from pydantic import Field

from ..base import Model
from ..pool.state import PoolSettings
from .busy_periods import BusyPeriod, Repeats
from .simulation import Simulation
from .spans import TrySpan

Span = tuple[datetime, datetime, int]
"""From when to when, and how much."""
Changes = list[tuple[datetime, int]]
"""When how much more goes on than before; in order."""


class PoolSummary(Model):
    """How far a pool was used."""

    pool: str
    slots: int | None
    """None: it was not named, and is taken to be unlimited."""
    max_tasks: int = Field(alias="most_tasks")
    """How many tasks held slots of it at the same time."""
    max_waiting: int = Field(alias="most_waiting")
    """How many waited for slots of it at the same time."""


def pools_used(simulation: Simulation, pools: dict[str, PoolSettings]) -> tuple[PoolSummary, ...]:
    """Each pool that a task was in, by its name."""
    names = {one.pool for period in simulation.periods for one in period.tries if one.started_at is not None}
    return tuple(
        PoolSummary(
            pool=name,
            slots=pools[name].slots if name in pools else None,
            max_tasks=_peak_in_pool(simulation, name),
            max_waiting=simulation.max_waiting.get(name, 0),
        )
        for name in sorted(name for name in names if name is not None)
    )


def _peak_in_pool(simulation: Simulation, name: str) -> int:
    return peak(_changes(simulation, lambda period: _worked_on(simulation, period, name)))


def _worked_on(simulation: Simulation, period: BusyPeriod, pool: str | None = None) -> Iterable[Span]:
    for one in period.tries:
        if one.started_at is not None and pool in (None, one.pool):
            yield one.started_at, one.ended_at or simulation.end, 1


def tasks_that_wait(simulation: Simulation) -> Changes:
    """How many tries wait for a worker: from when they are queued to their start."""
    end = simulation.end
    return _changes(
        simulation, lambda period: ((one.queued_at, one.started_at or one.ended_at or end, 1) for one in period.tries)
    )


def peak(changes: Changes) -> int:
    """The most that goes on at a time."""
    return max(accumulate(change for _, change in changes), default=0)


def tasks_that_run(simulation: Simulation) -> Changes:
    """How many tries are worked on."""
    return _changes(simulation, lambda period: _worked_on(simulation, period))


def runs_that_wait(simulation: Simulation) -> Changes:
    """How many runs wait: from when they are due, or from the beginning, to their start."""
    start, end = simulation.start, simulation.end
    return _changes(
        simulation, lambda period: ((max(run.run_after, start), run.started_at or end, 1) for run in period.runs)
    )


def peak_held(simulation: Simulation, slots: Callable[[TrySpan], int]) -> int:
    """The most slots that tries hold at a time, from when they are queued; *slots* says how many each."""

    def held(period: BusyPeriod) -> Iterable[Span]:
        return ((one.queued_at, one.ended_at or simulation.end, slots(one)) for one in period.tries)

    return peak(_changes(simulation, held))


def _changes(simulation: Simulation, spans: Callable[[BusyPeriod], Iterable[Span]]) -> Changes:
    """Of the *spans* of each busy period, as often as it comes. Periods that are alike are gone through once."""
    alike: Counter[tuple[tuple[tuple[datetime, int], ...], tuple[Repeats, ...]]] = Counter()
    shifts: dict[tuple[Repeats, ...], list[timedelta]] = {}
    for period in simulation.periods:
        found: Counter[datetime] = Counter()
        for start, end, many in spans(period):
            if many and end > start:
                found[start] += many
                found[end] -= many
        times = tuple(period.repeats)
        alike[tuple(sorted(found.items())), times] += 1
        if times not in shifts:
            shifts[times] = [*period.shifts()]
    all_of_them: Counter[datetime] = Counter()
    for (once, times), periods in alike.items():
        for shift in shifts[times]:
            for at, change in once:
                all_of_them[at + shift] += periods * change
    return sorted(all_of_them.items())


def over_time(changes: Changes, start: datetime, end: datetime, parts: int) -> list[int]:
    """The most that goes on in each of *parts* equal parts of the time from *start* to *end*."""
    length = (end - start) / parts
    found: list[int] = []
    now = at = 0
    for n in range(parts):
        highest = now
        while at < len(changes) and (changes[at][0] < start + (n + 1) * length or n == parts - 1):
            now += changes[at][1]
            highest = max(highest, now)
            at += 1
        found.append(highest)
    return found
