"""Dates as they are written in a DAG file: naive ones are meant in the DAG's time zone."""

from __future__ import annotations

from datetime import date, datetime, time
from datetime import timezone as datetime_timezone
from typing import Any

import pendulum

from ..errors import InvalidInputError
from ..spec.timetables.cron import zone
from ..spec.zones import offset_name


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


def zone_name(value: datetime | None) -> str | None:
    """The zone that a start_date carries, which Airflow reads the schedule in."""
    tz = getattr(value, "tzinfo", None)
    if isinstance(tz, datetime_timezone):
        offset = tz.utcoffset(None)
        return offset_name(offset) if offset else "UTC"
    return getattr(tz, "name", None) or getattr(tz, "key", None)
