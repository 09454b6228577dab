"""The coming runs of a DAG, worked out ahead and then kept: a schedule is read once, not on every replay."""

from datetime import datetime

from pydantic import Field

from .base import Instant, Model
from .timetables import DagRunInfo, DataInterval, TimeRestriction, Timetable
from .timetables.base import BaseTimetable


class TicksQuestion(Model):
    """Which runs follow the automated run over `last`, as of `now`; at most `most` of them."""

    timetable: Timetable
    restriction: TimeRestriction
    last: DataInterval | None
    now: Instant
    most: int = Field(ge=1, le=1000)


class Ticks(Model):
    """The coming runs, in order. `ended` says that there is none after the last of these."""

    infos: tuple[DagRunInfo, ...] = ()
    ended: bool = False
    error: str | None = None
    """What the timetable raised, if it did."""


def coming_runs(question: TicksQuestion) -> Ticks:
    """The runs that *question* asks for.

    Without catchup an answer depends on when it is asked: each run after the first is what the
    timetable says at the moment when the one before it falls due. Who wakes up later than that
    has to ask again.
    """
    timetable: BaseTimetable = question.timetable
    last, now = question.last, question.now
    infos: list[DagRunInfo] = []
    while len(infos) < question.most:
        info = timetable.next_dagrun_info(last, question.restriction, now)
        if info is None:
            return Ticks(infos=tuple(infos), ended=True)
        infos.append(info)
        last, now = info.data_interval, max(now, info.run_after)
    return Ticks(infos=tuple(infos))


def due(infos: tuple[DagRunInfo, ...], now: datetime) -> int:
    """How many of *infos*, in order, may be created by *now*."""
    return next((n for n, info in enumerate(infos) if info.run_after > now), len(infos))
