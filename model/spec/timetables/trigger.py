"""Schedules of moments: a run is due at the tick itself, whatever data it is about."""

from abc import abstractmethod
from datetime import datetime, timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from .base import ZERO, BaseTimetable, DagRunInfo, DataInterval, TimeRestriction, first_on_clock, is_before_end
from .cron import Cron, DstPolicy, cron
from .deltas import Delta, minus, plus, require_fixed_grid, require_positive

RunImmediately = Annotated[bool, Field(strict=True)] | timedelta | None
"""For a DAG with neither start_date nor a run: True, run the past tick at once; a duration, run it if
it is no older; False or None, run it if it is fresh (a tenth of the gap, at least five minutes)."""


class _Trigger(BaseTimetable):
    """What the trigger schedules share: a tick is run_after; `interval` reaches back from it."""

    interval: Delta = ZERO
    """How far the data interval of a run reaches back from its tick."""
    run_immediately: RunImmediately = None
    """Without catchup: true, the last tick before now gets the first run; a duration, if it is no longer ago than that;
    else, if it is no longer ago than a tenth of the time between two ticks, or five minutes."""

    def next_dagrun_info(
        self, last: DataInterval | None, restriction: TimeRestriction, now: datetime
    ) -> DagRunInfo | None:
        run_after = self._next_tick(last, restriction, now)
        if run_after is None or not is_before_end(run_after, restriction):
            return None
        return DagRunInfo(run_after=run_after, data_interval=self.manual_interval(run_after))

    def manual_interval(self, run_after: datetime) -> DataInterval:
        return DataInterval(start=minus(run_after, self.interval), end=run_after)

    def _next_tick(self, last: DataInterval | None, restriction: TimeRestriction, now: datetime) -> datetime | None:
        if restriction.catchup and last is not None:
            return self._after(last.end)
        if restriction.catchup and restriction.earliest is not None:
            return self._at_or_after(restriction.earliest)
        bounds = [] if last is None else [self._after(last.end)]
        if restriction.earliest is not None:
            bounds.append(self._at_or_after(restriction.earliest))
        if not bounds:
            return self._first(now)
        ticks = [tick for tick in (self._at_or_before(now), *bounds) if tick is not None]
        return None if None in bounds else max(ticks)

    @abstractmethod
    def _after(self, at: datetime) -> datetime | None: ...

    @abstractmethod
    def _at_or_after(self, at: datetime) -> datetime | None: ...

    @abstractmethod
    def _at_or_before(self, at: datetime) -> datetime | None: ...

    @abstractmethod
    def _first(self, now: datetime) -> datetime | None:
        """The first tick of a DAG that has neither a start_date nor a run."""


class CronTrigger(_Trigger):
    """A run at each tick of a cron expression (Airflow: CronTriggerTimetable)."""

    kind: Literal["cron_trigger"] = "cron_trigger"
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

    def grid_start(self, date: datetime, restriction: TimeRestriction) -> datetime:
        return first_on_clock(date, restriction)

    def _after(self, at: datetime) -> datetime | None:
        return self._ticks.next(at)

    def _at_or_after(self, at: datetime) -> datetime | None:
        return self._ticks.at_or_after(at)

    def _at_or_before(self, at: datetime) -> datetime | None:
        return self._ticks.at_or_before(at)

    def _first(self, now: datetime) -> datetime | None:
        past, future = self._at_or_before(now), self._after(now)
        if past is None or self.run_immediately is True:
            return past or future
        if isinstance(self.run_immediately, timedelta):
            fresh = self.run_immediately
        else:
            gap = timedelta() if future is None else future - past
            fresh = max(gap / 10, timedelta(minutes=5))
        return past if now - past <= fresh else future


class DeltaTrigger(_Trigger):
    """A run every *delta* (Airflow: DeltaTriggerTimetable).

    Without catchup the latest tick is *now* itself: the first run is immediate and the phase
    starts again after a downtime.
    """

    kind: Literal["delta_trigger"] = "delta_trigger"
    delta: Delta
    """The time between two runs."""

    @model_validator(mode="after")
    def _forward(self) -> Self:
        require_positive(self.delta)
        return self

    def grid_start(self, date: datetime, restriction: TimeRestriction) -> datetime:
        require_fixed_grid(restriction)
        return restriction.earliest or date

    def _after(self, at: datetime) -> datetime | None:
        return plus(at, self.delta)

    def _at_or_after(self, at: datetime) -> datetime | None:
        return at

    def _at_or_before(self, at: datetime) -> datetime | None:
        return at

    def _first(self, now: datetime) -> datetime | None:
        return now


class MultiCronTrigger(BaseTimetable):
    """A run at each tick of any of several cron expressions (Airflow: MultipleCronTriggerTimetable)."""

    kind: Literal["multi_cron_trigger"] = "multi_cron_trigger"
    expressions: Annotated[tuple[str, ...], Field(min_length=1)]
    """The cron expressions."""
    timezone: str = "UTC"
    """The IANA time zone of the expressions."""
    dst_policy: DstPolicy = "airflow"
    """What they mean where the clocks change."""
    interval: Delta = ZERO
    """How far the data interval of a run reaches back from its tick."""
    run_immediately: RunImmediately = None
    """Without catchup: true, the last tick before now gets the first run; a duration, if it is no longer ago than that;
    else, if it is no longer ago than a tenth of the time between two ticks, or five minutes."""

    def check(self) -> None:
        for expression in self.expressions:
            cron(expression, self.timezone, self.dst_policy)

    def next_dagrun_info(
        self, last: DataInterval | None, restriction: TimeRestriction, now: datetime
    ) -> DagRunInfo | None:
        try:
            answers = [member.next_dagrun_info(last, restriction, now) for member in self._members()]
        except ValueError:  # registration refuses it (`check`); asked all the same, Airflow says: no run
            return None
        infos = [info for info in answers if info is not None]
        if restriction.catchup:
            return min(infos, key=lambda info: info.logical_date, default=None)
        past = [info for info in infos if info.logical_date <= now]
        if past:
            return max(past, key=lambda info: info.logical_date)
        return min(infos, key=lambda info: info.logical_date, default=None)

    def manual_interval(self, run_after: datetime) -> DataInterval:
        return DataInterval(start=minus(run_after, self.interval), end=run_after)

    def grid_start(self, date: datetime, restriction: TimeRestriction) -> datetime:
        return first_on_clock(date, restriction)

    def _members(self) -> list[CronTrigger]:
        return [
            CronTrigger(
                expression=expression,
                timezone=self.timezone,
                dst_policy=self.dst_policy,
                interval=self.interval,
                run_immediately=self.run_immediately,
            )
            for expression in self.expressions
        ]
