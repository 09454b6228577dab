"""The runs of schedules in their order, worked out once for all DAGs of a schedule."""

from __future__ import annotations

from datetime import datetime, timedelta

from ..dag.ticks import Ticks, TimetableQuery, coming_runs
from ..spec.timetables import DagRunInfo

AT_A_TIME = 100
BY_THE_CLOCK = {"cron_interval", "cron_trigger", "cron_partition", "multi_cron_trigger"}
"""Kinds of timetables whose runs do not depend on the start date, once that is past."""

Offsets = tuple[timedelta, timedelta, timedelta]
Places = dict[tuple[datetime, datetime], tuple["Calendar", int]]


def offsets(info: DagRunInfo, since: datetime) -> Offsets:
    """When the run is due and which data it is about, seen from *since*."""
    return info.run_after - since, info.data_interval.start - since, info.data_interval.end - since


class Calendar:
    """The runs of a schedule, one after the other, if each is made as soon as it is due."""

    def __init__(self, first: tuple[DagRunInfo, ...], question: TimetableQuery, places: Places) -> None:
        self._question = question
        self._places = places
        self._infos: list[DagRunInfo] = []
        self._ended = False
        self._alike = (0, 0)
        self._add(first)

    def info(self, n: int) -> DagRunInfo | None:
        """The nth run, from 0; None: there is none."""
        while n >= len(self._infos) and not self._ended:
            last = self._infos[-1]
            more = {"last": last.data_interval, "now": last.run_after, "limit": AT_A_TIME}
            found = coming_runs(self._question.model_copy(update=more))
            self._ended = found.ended
            self._add(found.infos)
        return self._infos[n] if n < len(self._infos) else None

    def _add(self, infos: tuple[DagRunInfo, ...]) -> None:
        for info in infos:
            interval = info.data_interval
            self._places.setdefault((interval.start, interval.end), (self, len(self._infos)))
            self._infos.append(info)

    def from_place(self, n: int, limit: int) -> Ticks:
        """What the timetable answers to who asks for the runs from the nth on."""
        self.info(n + limit)
        infos = tuple(self._infos[n : n + limit])
        return Ticks(infos=infos, ended=self._ended and len(infos) < limit)

    def alike_until(self, n: int, until: datetime) -> int:
        """The number of the first run after the nth that is not like it, or is due at *until* or later.

        Alike are runs with an interval as long before them, and as much time until the next.
        """
        begin, end = self._alike
        if not begin <= n < end:
            self._alike = n, self._end_of_alike(n, until)
        return self._alike[1]

    def _end_of_alike(self, n: int, until: datetime) -> int:
        shape, end = self._shape(n), n + 1
        while shape is not None and (info := self.info(end)) is not None and info.run_after < until:
            if self._shape(end) != shape:
                return end
            end += 1
        return end

    def _shape(self, n: int) -> Offsets | None:
        info, then = self.info(n), self.info(n + 1)
        if info is None or then is None:
            return None
        return (then.run_after - info.run_after, *offsets(info, info.run_after)[1:])


class Calendars:
    """Those of a simulation."""

    def __init__(self) -> None:
        self._places: dict[str, Places] = {}
        self._firsts: dict[str, Ticks] = {}

    def place(self, coming: tuple[DagRunInfo, ...], question: TimetableQuery) -> tuple[Calendar, int]:
        """Where the next run of a DAG is that would ask *question*; it knows of these *coming* runs already."""
        comparable = _by_the_clock(question)
        places = self._places.setdefault(_key(comparable), {})
        interval = coming[0].data_interval
        found = places.get((interval.start, interval.end))
        return found if found is not None else (Calendar(coming, comparable, places), 0)

    def answer(self, question: TimetableQuery) -> Ticks:
        """What the timetable answers."""
        last = question.last
        if last is None:
            return self._first(question)
        comparable = _by_the_clock(question)
        found = self._places.get(_key(comparable), {}).get((last.start, last.end))
        if found is not None:
            calendar, n = found
            info = calendar.info(n + 1)
            if question.restriction.catchup or info is None or info.run_after >= question.now:
                return calendar.from_place(n + 1, question.limit)
        return coming_runs(question)

    def _first(self, question: TimetableQuery) -> Ticks:
        """Many DAGs have the same schedule and start date."""
        key = question.model_dump_json()
        if key not in self._firsts:
            self._firsts[key] = coming_runs(question)
        return self._firsts[key]


def _by_the_clock(question: TimetableQuery) -> TimetableQuery:
    """*question* without a start date that has no effect any more."""
    bounds, last = question.restriction, question.last
    if last is None or bounds.earliest is None or bounds.earliest > last.end:
        return question
    if question.timetable.kind not in BY_THE_CLOCK:
        return question
    return question.model_copy(update={"restriction": bounds.model_copy(update={"earliest": None})})


def _key(question: TimetableQuery) -> str:
    """What DAGs have in common whose runs are the same from a run on."""
    return f"{question.timetable.model_dump_json()} {question.restriction.model_dump_json()}"
