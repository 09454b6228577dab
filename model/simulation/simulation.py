"""All that has happened in a simulated world."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from .busy_periods import BusyPeriod
from .spans import RunSpan, TrySpan


@dataclass(frozen=True)
class Simulation:
    """What DAGs did from *start* to *end* (UTC)."""

    start: datetime
    end: datetime
    dag_ids: tuple[str, ...]
    periods: tuple[BusyPeriod, ...]
    """What happens again and again is told once."""
    max_waiting: Mapping[str, int] = field(default_factory=dict)
    """By pool, how many tasks waited for its slots at the same time."""
    notes: tuple[str, ...] = ()
    """What could not be simulated, and what was assumed instead."""

    @property
    def runs(self) -> tuple[RunSpan, ...]:
        """Every run, by DAG and by when it was made."""
        return self.runs_of(self.dag_ids)

    def runs_of(self, dag_ids: Container[str]) -> tuple[RunSpan, ...]:
        """Those of some DAGs."""
        found = (run for period in self.periods for run in period.runs_of(dag_ids))
        return tuple(sorted(found, key=lambda run: (run.dag_id, run.created_at, run.run_after)))

    @property
    def tries(self) -> tuple[TrySpan, ...]:
        """Every try, by DAG and by when it was queued."""
        found = (one for period in self.periods for one in period.all_tries())
        return tuple(sorted(found, key=lambda one: (one.dag_id, one.queued_at)))
