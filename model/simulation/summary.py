"""A simulation in figures: by DAG, and how many tasks run at a time."""

from collections.abc import Iterable
from datetime import datetime

from ..base import Instant, Model
from ..states import RunState
from .spans import RunSpan, Simulation, TrySpan


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
    most_queued: int
    """How many of its runs waited at the same time: due, and not started."""
    most_tasks: int
    """How many of its tasks ran at the same time."""
    last_end: Instant | None


def summaries(simulation: Simulation) -> tuple[DagSummary, ...]:
    """By DAG, in order of its dag_id."""
    runs: dict[str, list[RunSpan]] = {dag_id: [] for dag_id in simulation.dag_ids}
    tries: dict[str, list[TrySpan]] = {dag_id: [] for dag_id in simulation.dag_ids}
    for run in simulation.runs:
        runs[run.dag_id].append(run)
    for one in simulation.tries:
        tries[one.dag_id].append(one)
    return tuple(_summary(dag_id, runs[dag_id], tries[dag_id], simulation.end) for dag_id in simulation.dag_ids)


def _summary(dag_id: str, runs: list[RunSpan], tries: list[TrySpan], end: datetime) -> DagSummary:
    delays = [run.late_by(end) for run in runs]
    return DagSummary(
        dag_id=dag_id,
        runs=len(runs),
        succeeded=sum(run.state is RunState.SUCCESS for run in runs),
        failed=sum(run.state is RunState.FAILED for run in runs),
        unfinished=sum(run.ended_at is None for run in runs),
        missed_deadlines=sum(run.missed(end) for run in runs),
        longest_delay=max(delays, default=0.0),
        mean_delay=sum(delays) / max(1, len(delays)),
        most_queued=most_at_once((run.run_after, run.started_at or end) for run in runs),
        most_tasks=most_at_once((t.started_at, t.ended_at or end) for t in tries if t.started_at is not None),
        last_end=max((run.ended_at for run in runs if run.ended_at is not None), default=None),
    )


def most_at_once(spans: Iterable[tuple[datetime, datetime]]) -> int:
    """The most of *spans* that overlap; one that ends when another begins does not overlap it."""
    changes = sorted(change for start, end in spans if end > start for change in ((end, -1), (start, 1)))
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most
