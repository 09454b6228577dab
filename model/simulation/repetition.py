"""Going past what has happened before: the same runs due again, at the same distances, after the same idle moment.

Between two idle moments what DAGs do depends on which of their runs fall due, and when. Where all of that is as it was
in a busy period that has been simulated, each of its tries begins and ends as it did there, only later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..run.identity import RunType
from ..spec.dag import DagSpec
from ..spec.timetables import DagRunInfo
from ..spec.timetables.assets import waited_for
from ..states import RunState
from .assumptions import Assumptions
from .busy_periods import BusyPeriod, Repeats, Track
from .calendars import Calendar, Offsets, offsets

MAX_PATTERNS = 200


def may_repeat(specs: Iterable[DagSpec], assumptions: Assumptions) -> bool:
    """Whether what the DAGs do depends on nothing but when their runs fall due."""
    failing = [*assumptions.failing_tries]
    return not any(
        spec.jitter is not None
        or any(name.startswith(f"{spec.dag_id}.") for name in failing)  # how long a retry waits differs by run
        or spec.schedule.answers_by_moment
        or waited_for(spec.schedule) is not None
        or any(task.start_date is not None or task.end_date is not None for task in spec.tasks)
        or any(assumptions.outlasts(spec.dag_id, task) for task in spec.tasks)
        for spec in specs
    )


@dataclass(frozen=True)
class Places:
    """Where DAGs stand at an idle moment."""

    by_dag: Mapping[str, Calendar]
    """Those that have runs to come."""
    at: Mapping[Calendar, int]
    """By calendar, the number of the next run: all its DAGs stand there."""

    @classmethod
    def of(cls, found: Mapping[str, tuple[Calendar, int]]) -> Places | None:
        """None where DAGs of one calendar are at different places of it."""
        at: dict[Calendar, int] = {}
        for calendar, n in found.values():
            if at.setdefault(calendar, n) != n:
                return None
        return cls({dag_id: calendar for dag_id, (calendar, _) in found.items()}, at)

    def after(self, tracks: Iterable[Track], count: int) -> Places:
        """Where they stand after so many repeats."""
        moved = {track.calendar: track.begin(count) for track in tracks}
        return Places(self.by_dag, {**self.at, **moved})

    def first_due(self) -> datetime | None:
        """When the next run of any is due."""
        infos = (calendar.info(n) for calendar, n in self.at.items())
        return min((info.run_after for info in infos if info is not None), default=None)


@dataclass(frozen=True)
class Pattern:
    """A busy period that may come again."""

    period: BusyPeriod
    length: timedelta
    dues: Mapping[Calendar, tuple[Offsets, ...]]
    """The runs that fell due in it, seen from its begin."""

    def tracks(self, places: Places, begin: datetime) -> tuple[Track, ...] | None:
        """The runs with which it comes again at *begin*; None if it does not."""
        found = []
        for calendar, n in places.at.items():
            dues = self.dues.get(calendar, ())
            for k, due in enumerate(dues):
                info = calendar.info(n + k)
                if info is None or offsets(info, begin) != due:
                    return None
            then = calendar.info(n + len(dues))
            if then is not None and then.run_after <= begin + self.length:
                return None
            if dues:
                found.append(Track(calendar, n, len(dues)))
        return tuple(found) if len(found) == len(self.dues) else None


class Repetition:
    """What some DAGs have done so far, and where they stand."""

    def __init__(self, assumptions: Assumptions, end: datetime) -> None:
        self._assumptions = assumptions
        self._end = end
        self._patterns: list[Pattern] = []
        self._places: Places | None = None

    def learn(self, places: Places | None, period: BusyPeriod | None, now: datetime) -> None:
        """The DAGs are idle, at *places*; *period* is what they did since they were last."""
        before, self._places = self._places, places
        if before is None or places is None or period is None or not self._is_regular(period, now):
            return
        begin = min(run.created_at for run in period.runs)
        made = Counter(run.dag_id for run in period.runs)
        many: dict[Calendar, int] = {}
        for dag_id, calendar in before.by_dag.items():
            if many.setdefault(calendar, made[dag_id]) != made[dag_id]:
                return
            n = before.at[calendar] + made[dag_id]
            if places.by_dag.get(dag_id) is not calendar:
                if dag_id in places.by_dag or calendar.info(n) is not None:  # else it has come to its end
                    return
            elif places.at[calendar] != n:
                return
        if sum(made[dag_id] for dag_id in before.by_dag) != len(period.runs):
            return
        dues = {
            calendar: tuple(offsets(info, begin) for info in _infos(calendar, before.at[calendar], n))
            for calendar, n in many.items()
            if n
        }
        period.calendars = dict(before.by_dag)
        self._patterns.insert(0, Pattern(period, now - begin, dues))
        del self._patterns[MAX_PATTERNS:]

    def _is_regular(self, period: BusyPeriod, now: datetime) -> bool:
        """Whether each run was made by its schedule when it was due, and went well, with workers all the time."""
        begin = min(run.created_at for run in period.runs)
        return all(
            run.state is RunState.SUCCESS and run.run_type is RunType.SCHEDULED and run.created_at == run.run_after
            for run in period.runs
        ) and not any(down.start <= now and begin <= down.end for down in self._assumptions.downtimes)

    def skip(self, now: datetime) -> tuple[datetime, Mapping[str, DagRunInfo]] | None:
        """Goes past what has happened before: the idle moment after it, and each DAG's last run by then."""
        until = min([self._end, *(down.start for down in self._assumptions.downtimes if down.end > now)])
        reached, begun = None, self._places
        known = [each for each in self._patterns if begun is not None and each.period.calendars == begun.by_dag]
        while self._places is not None and (found := self._next(known, self._places, until)) is not None:
            pattern, tracks, begin = found
            single = len(self._places.at) == 1 and tracks[0].many == 1
            count = _count(pattern, tracks[0], begin, until) if single else 1
            pattern.period.comes_again(Repeats(tracks, count))
            reached = begin + (tracks[0].due(count - 1) - tracks[0].due(0)) + pattern.length
            self._places = self._places.after(tracks, count)
        if reached is None or begun is None or self._places is None:
            return None
        moved = {calendar: n for calendar, n in self._places.at.items() if n != begun.at[calendar]}
        last_runs = {calendar: calendar.info(n - 1) for calendar, n in moved.items()}
        return reached, {
            dag_id: info for dag_id, calendar in begun.by_dag.items() if (info := last_runs.get(calendar)) is not None
        }

    def _next(
        self, patterns: list[Pattern], places: Places, until: datetime
    ) -> tuple[Pattern, tuple[Track, ...], datetime] | None:
        begin = places.first_due()
        if begin is None:
            return None
        for pattern in patterns:
            if begin + pattern.length < until and (tracks := pattern.tracks(places, begin)) is not None:
                patterns.remove(pattern)
                patterns.insert(0, pattern)  # it is the likeliest to come next
                return pattern, tracks, begin
        return None


def _count(pattern: Pattern, track: Track, begin: datetime, until: datetime) -> int:
    """How often it comes on end from *begin*, if its runs are of one calendar, one at a time."""
    end, then = track.calendar.alike_until(track.n, until), track.calendar.info(track.n + 1)
    if end - track.n == 1 or then is None:
        return 1
    gap = then.run_after - begin
    return min(end - track.n, -((begin + pattern.length - until) // gap))


def _infos(calendar: Calendar, n: int, many: int) -> list[DagRunInfo]:
    return [info for k in range(many) if (info := calendar.info(n + k)) is not None]
