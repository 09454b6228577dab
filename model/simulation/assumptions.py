"""What a simulation takes for granted: how long tasks take, which fail, how many run at a time, when nothing runs."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Self

from pydantic import AfterValidator, NonNegativeInt, PositiveInt, model_validator

from ..base import Instant, Model, PositiveDuration, Request, iso
from ..pool.state import SPARK_POOL_SETTINGS, PoolSettings
from ..spec.tasks import ApprovalTask, BaseTask, EmptyTask, WaitingTask
from ..spec.tasks.spark import SPARK_POOL
from ..spec.timetables import DataInterval

MINUTE = timedelta(minutes=1)


class Downtime(Model):
    """No worker runs from *start* to *end*: nothing is decided, and no task starts."""

    start: Instant
    end: Instant

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.start >= self.end:
            raise ValueError(f"a downtime from {iso(self.start)} to {iso(self.end)} is none. Let it end later")
        return self


def _joined(downtimes: tuple[Downtime, ...]) -> tuple[Downtime, ...]:
    joined: list[Downtime] = []
    for down in sorted(downtimes, key=lambda down: down.start):
        if joined and down.start <= joined[-1].end:
            joined[-1] = Downtime(start=joined[-1].start, end=max(joined[-1].end, down.end))
        else:
            joined.append(down)
    return tuple(joined)


def _with_pool_of_spark(pools: Mapping[str, PoolSettings]) -> Mapping[str, PoolSettings]:
    return {SPARK_POOL: SPARK_POOL_SETTINGS, **pools}


def limit_of(task: BaseTask) -> timedelta | None:
    """How long a try of *task* may take; None: as long as it likes."""
    if isinstance(task, EmptyTask):
        return None
    return task.timeout if isinstance(task, WaitingTask) else task.execution_timeout


class Assumptions(Request):
    """What is not known of the future."""

    duration: PositiveDuration = MINUTE
    """How long a try of a task takes that is not named below."""
    durations: Mapping[str, PositiveDuration] = {}
    """By `dag_id.task_id`."""
    failing_tries: Mapping[str, NonNegativeInt] = {}
    """By `dag_id.task_id`: so many tries of it fail in each run, from the first on."""
    map_lengths: Mapping[str, NonNegativeInt] = {}
    """By `dag_id.task_id`: how many instances a mapped task has; 1 for others."""
    worker_slots: PositiveInt | None = None
    """How many tasks all workers together run at a time; None: as many as there are."""
    pools: Annotated[Mapping[str, PoolSettings], AfterValidator(_with_pool_of_spark)] = {
        SPARK_POOL: SPARK_POOL_SETTINGS
    }
    """By name; the pool of Spark tasks is as large as it is made, unless it is named."""
    downtimes: Annotated[tuple[Downtime, ...], AfterValidator(_joined)] = ()
    """In order; those that overlap are joined."""
    last_intervals: Mapping[str, DataInterval] = {}
    """By dag_id: about what the last scheduled run was before the simulation begins; none: there was none yet."""
    resume_at: Mapping[str, Instant] = {}
    """By dag_id: where a schedule takes over that was changed; no interval of it begins earlier."""

    def of_try(self, dag_id: str, task: BaseTask) -> timedelta:
        """How long a try takes: no longer than its task lets it."""
        if isinstance(task, EmptyTask):
            return timedelta()
        wanted, limit = self._wanted(dag_id, task), limit_of(task)
        return wanted if limit is None else min(wanted, limit)

    def outlasts(self, dag_id: str, task: BaseTask) -> bool:
        """Whether a try would take longer than its task lets it; what nobody has said the length of is in time."""
        if isinstance(task, ApprovalTask) and task.defaults is not None:  # they are its answer then
            return False
        limit, name = limit_of(task), f"{dag_id}.{task.task_id}"
        is_given = name in self.durations or "duration" in self.model_fields_set
        return limit is not None and is_given and self._wanted(dag_id, task) > limit

    def _wanted(self, dag_id: str, task: BaseTask) -> timedelta:
        return self.durations.get(f"{dag_id}.{task.task_id}", self.duration)

    def fails(self, dag_id: str, task_id: str, try_number: int) -> bool:
        """Whether that try (from 1) of the task ends in a failure."""
        return try_number <= self.failing_tries.get(f"{dag_id}.{task_id}", 0)

    def resumes(self, at: datetime) -> datetime:
        """*at* (UTC), or the end of the downtime that it is in."""
        return next((down.end for down in self.downtimes if down.start <= at < down.end), at)
