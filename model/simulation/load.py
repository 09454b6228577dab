"""How much goes on at a time in a simulated world: tasks that run, runs that wait, slots of pools."""

from collections.abc import Iterable
from datetime import datetime

from ..base import Model
from ..pool.state import PoolSettings
from .spans import Simulation
from .summary import most_at_once

Span = tuple[datetime, datetime]


class PoolSummary(Model):
    """How far a pool was used."""

    pool: str
    slots: int | None
    """None: it was not named, and is taken to be unlimited."""
    most_tasks: int
    """How many tasks held slots of it at the same time."""


def pools_used(simulation: Simulation, pools: dict[str, PoolSettings]) -> tuple[PoolSummary, ...]:
    """Each pool that a task was in, by its name."""
    spans: dict[str, list[Span]] = {}
    for one in simulation.tries:
        if one.pool is not None and one.started_at is not None:
            spans.setdefault(one.pool, []).append((one.started_at, one.ended_at or simulation.end))
    return tuple(
        PoolSummary(pool=name, slots=pools[name].slots if name in pools else None, most_tasks=most_at_once(found))
        for name, found in sorted(spans.items())
    )


def tasks_that_run(simulation: Simulation) -> list[Span]:
    """From when to when each try was worked on."""
    return [(t.started_at, t.ended_at or simulation.end) for t in simulation.tries if t.started_at is not None]


def runs_that_wait(simulation: Simulation) -> list[Span]:
    """From when to when each run waited: from when it was due, or from the beginning, to its start."""
    start, end = simulation.start, simulation.end
    return [(max(run.run_after, start), run.started_at or end) for run in simulation.runs]


def over_time(spans: Iterable[Span], start: datetime, end: datetime, parts: int) -> list[int]:
    """The most of *spans* that overlap, in each of *parts* equal parts of the time from *start* to *end*."""
    length = (end - start) / parts
    changes = sorted(change for since, until in spans if until > since for change in ((until, -1), (since, 1)))
    found: list[int] = []
    now = at = 0
    for n in range(parts):
        most = now
        while at < len(changes) and (changes[at][0] < start + (n + 1) * length or n == parts - 1):
            now += changes[at][1]
            most = max(most, now)
            at += 1
        found.append(most)
    return found
