"""Dates as they are written in a DAG file: naive ones are meant in the DAG's time zone."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any

import pendulum

from ..errors import InvalidInputError
from ..spec.timetables.cron import zone


def aware(value: Any, timezone: str) -> Any:
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=zone(timezone))
    if isinstance(value, date):
        return datetime.combine(value, time(), zone(timezone))
    if isinstance(value, str):
        try:
            return pendulum.parse(value, tz=timezone, exact=False)
        except ValueError:
            raise InvalidInputError(
                f"date = {value!r} cannot be read. Write it as 2026-01-31, or with a time"
            ) from None
    return value


def days_ago(n: int, hour: int = 0, minute: int = 0, second: int = 0, microsecond: int = 0) -> datetime:
    """Midnight UTC, or the time given, *n* days before today (Airflow 2's days_ago).

    A start_date that moves on every day is not what a schedule needs: a fixed one is.
    """
    today = pendulum.today("UTC").replace(hour=hour, minute=minute, second=second, microsecond=microsecond)
    return today.subtract(days=n)


def zone_name(value: datetime | None) -> str | None:
    """The zone that a start_date carries, which Airflow reads the schedule in."""
    tz = getattr(value, "tzinfo", None)
    return getattr(tz, "name", None) or getattr(tz, "key", None)
