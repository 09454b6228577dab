"""Durations as options of commands: `30d`, `12h`, `90m`."""

import re
from datetime import timedelta

from .output import fail

UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}


def read_duration(option: str, text: str) -> timedelta:
    """*text* such as `30d` as a duration; one clear error that names *option* where it is none."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([dhm])", text.strip())
    if found is None or float(found[1]) == 0:
        fail(f"{option} {text!r} is no duration. Write a number of days, hours or minutes, such as 30d, 12h or 90m")
    return float(found[1]) * UNITS[found[2]]
