"""Dates that depend on when a DAG file is read."""

from datetime import datetime

import pendulum


def days_ago(
    n: int, hour: int = 0, minute: int = 0, second: int = 0, microsecond: int = 0, *, timezone: str = "UTC"
) -> datetime:
    """Midnight, or the time given, *n* days before today by the clock of *timezone* (Airflow 2's days_ago, in UTC).

    A start_date that moves on every day is not what a schedule needs: a fixed one is.
    """
    today = pendulum.today(timezone).subtract(days=n)
    return today.replace(hour=hour, minute=minute, second=second, microsecond=microsecond)
