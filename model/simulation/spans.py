"""What has happened in a simulated world: runs and tries, from when to when."""

from datetime import datetime

from ..base import Instant, Record
from ..run.identity import RunType
from ..states import RunState, TaskState


class RunSpan(Record):
    """A run, from when it was due to its end. Times are UTC."""

    dag_id: str
    run_id: str
    run_type: RunType
    logical_date: Instant | None
    run_after: Instant
    """When it was due."""
    created_at: Instant
    started_at: Instant | None = None
    """None: it still waits when the simulation ends."""
    ended_at: Instant | None = None
    state: RunState = RunState.QUEUED
    reason: str | None = None
    deadline: Instant | None = None
    """When it should have ended; None: the DAG has no deadline."""

    def missed(self, end: datetime) -> bool:
        """Whether it ends behind its deadline, or still has not when the simulation does, at *end*."""
        return self.deadline is not None and (self.ended_at or end) > self.deadline

    def late_by(self, end: datetime) -> float:
        """Seconds from when it was due to its start, or to the simulation's *end* where it has not started."""
        return ((self.started_at or end) - self.run_after).total_seconds()


class TrySpan(Record):
    """One try of a task."""

    dag_id: str
    run_id: str
    key: str
    """The task_id, with the map_index of an instance."""
    try_number: int
    pool: str | None
    queued_at: Instant
    started_at: Instant | None = None
    """None: no worker has had room for it."""
    ended_at: Instant | None = None
    state: TaskState = TaskState.QUEUED
