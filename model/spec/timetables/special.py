"""Schedules that follow no calendar: once, continuously, at listed moments, on events, never."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field, field_validator

from ...base import Instant
from .base import BaseTimetable, DagRunInfo, DataInterval, TimeRestriction, is_before_end


class Unscheduled(BaseTimetable):
    """No run of its own accord."""

    @property
    def periodic(self) -> bool:
        return False

    def next_dagrun_info(
        self, last: DataInterval | None, restriction: TimeRestriction, now: datetime
    ) -> DagRunInfo | None:
        return None

    def manual_interval(self, run_after: datetime) -> DataInterval:
        return DataInterval.exact(run_after)


class Null(Unscheduled):
    """`schedule=None`: manual runs only (Airflow: NullTimetable)."""

    kind: Literal["null"] = "null"


class Custom(Unscheduled):
    """A user's own timetable class, found by name and asked in an activity, never in a workflow.

    `name` is "package.module:Class"; `arguments` are its keyword arguments. The class answers
    `next_dagrun_info(last, restriction, now)` and `manual_interval(run_after)` as those here do.
    """

    kind: Literal["custom"] = "custom"
    name: str = Field(pattern=r"^[\w.]+:\w+$")
    """Written as package.module:Class."""
    arguments: dict[str, Any] = {}
    """The keyword arguments of the class, as JSON."""
    periodic_runs: bool = True
    """Whether it makes runs by itself, as Airflow's `periodic`."""

    @property
    def periodic(self) -> bool:
        return self.periodic_runs


class Once(Unscheduled):
    """`@once`: a single run at start_date, or as soon as the DAG is first seen (Airflow: OnceTimetable)."""

    kind: Literal["once"] = "once"

    def next_dagrun_info(
        self, last: DataInterval | None, restriction: TimeRestriction, now: datetime
    ) -> DagRunInfo | None:
        if last is not None:
            return None
        at = restriction.earliest or now
        return DagRunInfo.exact(at) if is_before_end(at, restriction) else None


class Continuous(Unscheduled):
    """`@continuous`: the next run starts as soon as the last has ended (Airflow: ContinuousTimetable).

    Takes part only in DAGs with max_active_runs=1; each interval reaches up to the moment of asking.
    """

    kind: Literal["continuous"] = "continuous"

    @property
    def answers_by_moment(self) -> bool:
        return True

    def next_dagrun_info(
        self, last: DataInterval | None, restriction: TimeRestriction, now: datetime
    ) -> DagRunInfo | None:
        earliest = restriction.earliest or now
        if last is None:
            start, end = earliest, max(earliest, now)
        elif last.end <= now:
            start, end = last.end, now
        else:  # a last run from the future (a changed schedule): begin again, as long as that one was
            start, end = earliest, earliest + (last.end - last.start)
        return DagRunInfo.interval(start, end) if is_before_end(end, restriction) else None


class Events(Unscheduled):
    """Runs at listed moments, each once (Airflow: EventsTimetable)."""

    kind: Literal["events"] = "events"
    event_dates: tuple[Instant, ...]
    """The moments."""
    restrict_to_events: bool = False
    """Whether a manual run takes the last event as its logical date."""

    @property
    def periodic(self) -> bool:
        return True

    @field_validator("event_dates")
    @classmethod
    def _in_order(cls, dates: tuple[datetime, ...]) -> tuple[datetime, ...]:
        return tuple(sorted(set(dates)))

    def next_dagrun_info(
        self, last: DataInterval | None, restriction: TimeRestriction, now: datetime
    ) -> DagRunInfo | None:
        earliest = restriction.earliest
        if not restriction.catchup:
            earliest = now if earliest is None else max(earliest, now)
        for at in self.event_dates:
            if (earliest is None or at >= earliest) and (last is None or at > last.end):
                return DagRunInfo.exact(at) if is_before_end(at, restriction) else None
        return None

    def manual_interval(self, run_after: datetime) -> DataInterval:
        if not self.restrict_to_events or not self.event_dates:
            return DataInterval.exact(run_after)
        past = [at for at in self.event_dates if at <= run_after]
        return DataInterval.exact(past[-1] if past else self.event_dates[0])
