"""A simulation in figures: by DAG, and how many tasks run at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypeVar

from pydantic import Field

from ..base import Instant, Model
from ..states import RunState
from .simulation import Simulation
from .spans import RunSpan, TrySpan

Spanned = TypeVar("Spanned", RunSpan, TrySpan)


class DagSummary(Model):
    """What has become of a DAG's runs."""

    dag_id: str
    runs: int
    succeeded: int
    failed: int
    unfinished: int
    """How many still wait, or run, when the simulation ends."""
    missed_deadlines: int
    """How many ended later than the DAG's `deadline` allows, or have not ended by then."""
    longest_delay: float
    """Seconds from when a run was due to its start."""
    mean_delay: float
    max_queued: int = Field(alias="most_queued")
    """How many of its runs waited at the same time: due, and not started."""
    max_tasks: int = Field(alias="most_tasks")
    """How many of its tasks ran at the same time."""
    last_end: Instant | None


class _Tally:
    """What is counted of a DAG's runs."""

    def __init__(self) -> None:
        self.states: Counter[RunState] = Counter()
        self.runs = self.unfinished = self.missed = self.max_queued = self.max_tasks = 0
        self.longest = self.delays = 0.0
        self.last_end: datetime | None = None

    def add(self, runs: list[RunSpan], tries: list[TrySpan], times: int, shift: timedelta, end: datetime) -> None:
        """Those of a busy period, which happens so many *times*, the last of them later by *shift*."""
        delays = [run.late_by(end) for run in runs]
        self.runs += times * len(runs)
        self.unfinished += times * sum(run.ended_at is None for run in runs)
        self.missed += times * sum(run.missed(end) for run in runs)
        for run in runs:
            self.states[run.state] += times
        self.longest = max([self.longest, *delays])
        self.delays += times * sum(delays)
        # Nothing of one busy period goes on in another.
        self.max_queued = max(self.max_queued, most_at_once((run.run_after, run.started_at or end) for run in runs))
        started = ((one.started_at, one.ended_at or end) for one in tries if one.started_at is not None)
        self.max_tasks = max(self.max_tasks, most_at_once(started))
        ends = [run.ended_at + shift for run in runs if run.ended_at is not None]
        self.last_end = max([*ends, *([self.last_end] if self.last_end is not None else [])], default=None)


def summaries(simulation: Simulation) -> tuple[DagSummary, ...]:
    """By DAG, in order of its dag_id."""
    tallies = {dag_id: _Tally() for dag_id in simulation.dag_ids}
    for period in simulation.periods:
        times, shift = period.count, period.last_shift
        runs, tries = _by_dag(period.runs), _by_dag(period.tries)
        for dag_id, found in runs.items():
            tallies[dag_id].add(found, tries.get(dag_id, []), times, shift, simulation.end)
    return tuple(_summary(dag_id, tally) for dag_id, tally in tallies.items())


def _by_dag(spans: Iterable[Spanned]) -> dict[str, list[Spanned]]:
    found: dict[str, list[Spanned]] = {}
    for span in spans:
        found.setdefault(span.dag_id, []).append(span)
    return found


def _summary(dag_id: str, tally: _Tally) -> DagSummary:
    return DagSummary(
        dag_id=dag_id,
        runs=tally.runs,
        succeeded=tally.states[RunState.SUCCESS],
        failed=tally.states[RunState.FAILED],
        unfinished=tally.unfinished,
        missed_deadlines=tally.missed,
        longest_delay=tally.longest,
        mean_delay=tally.delays / max(1, tally.runs),
        max_queued=tally.max_queued,
        max_tasks=tally.max_tasks,
        last_end=tally.last_end,
    )


def most_at_once(spans: Iterable[tuple[datetime, datetime]]) -> int:
    """The most of *spans* that overlap; one that ends when another begins does not overlap it."""
    changes = sorted(change for start, end in spans if end > start for change in ((end, -1), (start, 1)))
    highest = now = 0
    for _, change in changes:
        now += change
        highest = max(highest, now)
    return highest
