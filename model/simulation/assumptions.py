"""What a simulation takes for granted: how long tasks take, which fail, how many run at a time, when nothing runs."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from ..base import Instant, Model, PositiveDuration, Request
from ..pool.state import PoolSettings
from ..spec.tasks import BaseTask, EmptyTask
from ..spec.timetables import DataInterval

MINUTE = timedelta(minutes=1)


class Downtime(Model):
    """No worker runs from *start* to *end*: nothing is decided, and no task starts."""

    start: Instant
    end: Instant


class Assumptions(Request):
    """What is not known of the future."""

    duration: PositiveDuration = MINUTE
    """How long a try of a task takes that is not named below."""
    durations: Mapping[str, PositiveDuration] = {}
    """By `dag_id.task_id`."""
    failing_tries: Mapping[str, int] = {}
    """By `dag_id.task_id`: so many tries of it fail in each run, from the first on."""
    map_lengths: Mapping[str, int] = {}
    """By `dag_id.task_id`: how many instances a mapped task has; 1 for others."""
    worker_slots: int | None = None
    """How many tasks all workers together run at a time; None: as many as there are."""
    pools: Mapping[str, PoolSettings] = {}
    downtimes: tuple[Downtime, ...] = ()
    last_intervals: Mapping[str, DataInterval] = {}
    """By dag_id: about what the last scheduled run was before the simulation begins; none: there was none yet."""

    def of_try(self, dag_id: str, task: BaseTask) -> timedelta:
        """How long a try takes."""
        if isinstance(task, EmptyTask):
            return timedelta()
        return self.durations.get(f"{dag_id}.{task.task_id}", self.duration)

    def fails(self, dag_id: str, task_id: str, try_number: int) -> bool:
        """Whether that try (from 1) of the task ends in a failure."""
        return try_number <= self.failing_tries.get(f"{dag_id}.{task_id}", 0)

    def resumes(self, at: datetime) -> datetime:
        """*at* (UTC), or the end of the downtime that it is in."""
        return next((down.end for down in self.downtimes if down.start <= at < down.end), at)
