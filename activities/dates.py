"""Dates that depend on when a DAG file is read."""

from datetime import datetime

import pendulum


def days_ago(n: int, hour: int = 0, minute: int = 0, second: int = 0, microsecond: int = 0) -> datetime:
    """Midnight UTC, or the time given, *n* days before today (Airflow 2's days_ago).

    A start_date that moves on every day is not what a schedule needs: a fixed one is.
    """
    today = pendulum.today("UTC").replace(hour=hour, minute=minute, second=second, microsecond=microsecond)
    return today.subtract(days=n)
