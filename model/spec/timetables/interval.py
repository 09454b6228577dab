"""Schedules of data intervals: a run is due when the interval that it is about has ended."""

from datetime import datetime
from typing import Literal, Self

from pydantic import model_validator

from .base import BaseTimetable, DagRunInfo, DataInterval, TimeRestriction, first_on_clock, is_before_end
from .cron import Cron, DstPolicy, cron
from .deltas import Delta, exact, floor, minus, plus, require_fixed_grid, require_positive


class CronInterval(BaseTimetable):
    """One run per stretch between two ticks of a cron expression (Airflow: CronDataIntervalTimetable)."""

    kind: Literal["cron_interval"] = "cron_interval"
    expression: str
    """Five fields, or six with seconds; or a preset."""
    timezone: str = "UTC"
    """The IANA time zone of the expression."""
    dst_policy: DstPolicy = "airflow"
    """What it means where the clocks change."""

    @model_validator(mode="after")
    def _readable(self) -> Self:
        _ = self._ticks
        return self

    @property
    def _ticks(self) -> Cron:
        return cron(self.expression, self.timezone, self.dst_policy)

    @property
    def names_runs_by_interval(self) -> bool:
        return True

    def next_dagrun_info(
        self, last: DataInterval | None, restriction: TimeRestriction, now: datetime
    ) -> DagRunInfo | None:
        ticks = self._ticks
        start = self._earliest(ticks, restriction, now)
        if last is not None:
            start = self._after(ticks, last, start)
        if start is None or not is_before_end(start, restriction):
            return None
        end = ticks.next(start)
        return None if end is None else DagRunInfo.interval(start, end)

    def manual_interval(self, run_after: datetime) -> DataInterval:
        ticks = self._ticks
        end = ticks.at_or_before(run_after)
        start = None if end is None else ticks.prev(end)
        if end is None or start is None:
            return DataInterval.exact(run_after)
        return DataInterval(start=start, end=end)

    def grid_start(self, date: datetime, restriction: TimeRestriction) -> datetime:
        return first_on_clock(date, restriction)

    @staticmethod
    def _earliest(ticks: Cron, restriction: TimeRestriction, now: datetime) -> datetime | None:
        aligned = None if restriction.earliest is None else ticks.at_or_after(restriction.earliest)
        if restriction.catchup:
            return aligned
        last_end = ticks.at_or_before(now)
        latest_complete = None if last_end is None else ticks.prev(last_end)
        if latest_complete is None or (restriction.earliest is not None and aligned is None):
            return aligned
        return latest_complete if aligned is None else max(latest_complete, aligned)

    @staticmethod
    def _after(ticks: Cron, last: DataInterval, earliest: datetime | None) -> datetime | None:
        # Aligned down, so that a new, finer grid leaves no gap; one further where that would repeat
        # the logical date (a coarser grid, or an interval of no length from a trigger schedule).
        aligned = ticks.at_or_before(last.end)
        start = aligned if earliest is None or aligned is None else max(aligned, earliest)
        return ticks.next(start) if start is not None and start <= last.start else start


class DeltaInterval(BaseTimetable):
    """One interval of length *delta* after another (Airflow: DeltaDataIntervalTimetable).

    Unlike cron it is not aligned to the clock: with catchup the grid starts at start_date.
    Without catchup it is the multiples of *delta* since 1970, as in Airflow; for calendar deltas,
    the steps from start_date.
    """

    kind: Literal["delta_interval"] = "delta_interval"
    delta: Delta
    """The length of an interval: a duration, or calendar steps."""

    @model_validator(mode="after")
    def _forward(self) -> Self:
        require_positive(self.delta)
        return self

    @property
    def names_runs_by_interval(self) -> bool:
        return True

    def next_dagrun_info(
        self, last: DataInterval | None, restriction: TimeRestriction, now: datetime
    ) -> DagRunInfo | None:
        start = restriction.earliest if restriction.catchup else self._latest_complete(restriction.earliest, now)
        if last is not None:
            start = last.end if start is None else max(start, last.end)
            if start <= last.start:  # an interval of no length, from a trigger schedule
                start = plus(start, self.delta)
        if start is None or not is_before_end(start, restriction):
            return None
        return DagRunInfo.interval(start, plus(start, self.delta))

    def manual_interval(self, run_after: datetime) -> DataInterval:
        return DataInterval(start=minus(run_after, self.delta), end=run_after)

    def grid_start(self, date: datetime, restriction: TimeRestriction) -> datetime:
        require_fixed_grid(restriction)
        step = exact(self.delta)
        if step is None or restriction.earliest is None or date < restriction.earliest:
            return restriction.earliest or date
        return date - (date - restriction.earliest) % step

    def _latest_complete(self, earliest: datetime | None, now: datetime) -> datetime:
        step = exact(self.delta)
        if step is not None:
            start = floor(now, step) - step
            return start if earliest is None else max(start, earliest)
        if earliest is None:
            return minus(now, self.delta)
        return self._walk(earliest, now)

    def _walk(self, earliest: datetime, now: datetime) -> datetime:
        """The start of the last calendar interval from *earliest* that has ended by *now*."""
        start = earliest
        end = plus(start, self.delta)
        while (following := plus(end, self.delta)) <= now:
            start, end = end, following
        return start
