"""The coming runs by the clock of their schedule's time zone, with the changes of that clock marked."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from ..base import Model
from ..spec.timetables import DagRunInfo
from ..spec.zones import zone


class LocalRun(Model):
    """One coming run. `local` is its run_after as the clock of the schedule's time zone shows it."""

    info: DagRunInfo
    local: str
    clock_change: str | None = None
    """How the clock has been moved since the run before; None: it has not."""


def by_the_clock(infos: Sequence[DagRunInfo], schedule: dict[str, Any]) -> list[LocalRun]:
    """*infos*, in order, by the clock of *schedule*, a timetable as data; of one without a time zone, UTC."""
    timed = schedule.get("timetable", schedule)  # of AssetOrTime, the part that time decides
    tz = zone(str(timed.get("timezone", "UTC")))
    runs: list[LocalRun] = []
    before: timedelta | None = None
    for info in infos:
        local = info.run_after.astimezone(tz)
        offset = local.utcoffset()
        runs.append(LocalRun(info=info, local=_text(local), clock_change=_change(before, offset)))
        before = offset
    return runs


def _text(local: datetime) -> str:
    return f"{local:%a %Y-%m-%d %H:%M:%S%z}"


def _change(before: timedelta | None, after: timedelta | None) -> str | None:
    if before is None or after is None or before == after:
        return None
    minutes = abs(after - before) // timedelta(minutes=1)
    return f"clocks go {'forward' if after > before else 'back'} by {minutes} min"
