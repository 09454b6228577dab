"""Timetables as Airflow's files call them: its names, with its arguments and their order."""

# ruff: noqa: N802 - Airflow's names are those of classes
from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, tzinfo
from typing import Any

from dateutil.relativedelta import relativedelta

from ..spec.timetables import CronInterval, CronTrigger, DeltaInterval, DeltaTrigger, Events, MultiCronTrigger
from ..spec.timetables.deltas import Delta

AnyDelta = timedelta | relativedelta


def CronDataIntervalTimetable(cron: str, timezone: str | tzinfo) -> CronInterval:
    """One run per stretch between two ticks of *cron*."""
    return CronInterval(expression=cron, timezone=_name(timezone))


def DeltaDataIntervalTimetable(delta: Delta) -> DeltaInterval:
    """One interval of length *delta* after another."""
    return DeltaInterval(delta=delta)


def CronTriggerTimetable(
    cron: str, *, timezone: str | tzinfo, interval: AnyDelta = timedelta(), run_immediately: Any = False
) -> CronTrigger:
    """A run at each tick of *cron*."""
    return CronTrigger.model_validate(
        {"expression": cron, "timezone": _name(timezone), "interval": interval, "run_immediately": run_immediately}
    )


def MultipleCronTriggerTimetable(
    *crons: str, timezone: str | tzinfo, interval: AnyDelta = timedelta(), run_immediately: Any = False
) -> MultiCronTrigger:
    """A run at each tick of any of *crons*."""
    return MultiCronTrigger.model_validate(
        {"expressions": crons, "timezone": _name(timezone), "interval": interval, "run_immediately": run_immediately}
    )


def DeltaTriggerTimetable(delta: AnyDelta, *, interval: AnyDelta = timedelta()) -> DeltaTrigger:
    """A run every *delta*."""
    return DeltaTrigger.model_validate({"delta": delta, "interval": interval})


def EventsTimetable(
    event_dates: Iterable[datetime], restrict_to_events: bool = False, description: str | None = None
) -> Events:
    """A run at each of *event_dates*. What describes it belongs to the DAG."""
    _ = description
    return Events.model_validate({"event_dates": tuple(event_dates), "restrict_to_events": restrict_to_events})


def _name(timezone: str | tzinfo) -> str:
    return timezone if isinstance(timezone, str) else str(getattr(timezone, "key", None) or timezone)
