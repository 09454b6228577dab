"""A schedule in plain words."""

import re
from typing import Any

from cron_descriptor import ExpressionDescriptor, FormatError, Options

from .cron import PRESETS


def in_words(schedule: dict[str, Any]) -> str | None:
    """What the cron expression of *schedule*, a timetable as data, says; None where it has none that can be told."""
    schedule = schedule.get("timetable", schedule)  # of AssetOrTime, the part that time decides
    expressions = schedule.get("expressions") or [schedule.get("expression")]
    descriptions = [_described(str(expression)) for expression in expressions if expression is not None]
    if not descriptions or None in descriptions:
        return None
    zone = schedule.get("timezone", "UTC")
    return f"{'; and '.join(part for part in descriptions if part)} ({zone})"


SUMMARIES = {"null": None, "once": "@once", "continuous": "@continuous", "asset": "Asset"}
DESCRIPTIONS = {
    "null": "Never, external triggers only",
    "once": "Once, as soon as possible",
    "continuous": "As frequently as possible, but only one run at a time.",
    "asset": "Triggered by assets",
}


def airflows_summary(schedule: dict[str, Any], own: str) -> str | None:
    """Return what Airflow calls a schedule; *own*, which is what tidemill calls it, where Airflow has no other name."""
    return SUMMARIES.get(schedule["kind"], own)


def airflows_description(schedule: dict[str, Any]) -> str:
    """Return what Airflow says of a schedule; nothing of one that it has no words for."""
    if schedule["kind"] in DESCRIPTIONS:
        return DESCRIPTIONS[schedule["kind"]]
    expressions = schedule.get("expressions") or [schedule.get("expression")]
    return ", ".join(_described(str(expression)) or "" for expression in expressions if expression is not None)


def _seconds_first(expression: str) -> str:
    """Croniter has seconds behind the weekday, the describing library before the minutes."""
    fields = expression.split()
    return " ".join([fields[5], *fields[:5], *fields[6:]]) if len(fields) > 5 else expression


def _described(expression: str) -> str | None:
    if expression.count("#") > 1:  # the library tells of one
        return None
    options = Options()
    options.use_24hour_time_format = True
    options.day_of_week_start_index_zero = True
    try:
        read = ExpressionDescriptor(
            _seconds_first(re.sub("(?<![a-z])l", "L", PRESETS.get(expression, expression))), options
        )
        return str(read.get_description())
    except (FormatError, ValueError, IndexError):
        return None
