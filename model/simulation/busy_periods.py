"""What happens from one idle moment of some DAGs to the next, and when it happens again."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ..run.identity import scheduled_run
from ..spec.dag import DagSpec
from ..spec.timetables import DagRunInfo
from .calendars import Calendar
from .spans import RunSpan, TrySpan


@dataclass(frozen=True)
class Track:
    """The runs of a calendar in a busy period that is repeated: *many* from the nth on, then as many again."""

    calendar: Calendar
    n: int
    many: int

    def begin(self, repeat: int) -> int:
        """The number of the first run of that repeat."""
        return self.n + repeat * self.many

    def due(self, repeat: int) -> datetime:
        """When the first run of that repeat is due."""
        return self.info(repeat, 0).run_after

    def info(self, repeat: int, n: int) -> DagRunInfo:
        """The nth run of that repeat."""
        info = self.calendar.info(self.begin(repeat) + n)
        assert info is not None  # noqa: S101 - a repeat is noted with runs that there are
        return info


@dataclass(frozen=True)
class Repeats:
    """That a busy period comes again, *count* times on end: with the next runs of each calendar each time."""

    tracks: tuple[Track, ...]
    count: int

    def joined(self, later: Repeats) -> Repeats | None:
        """Both as one; None if *later* does not begin where these end."""
        mine, others = self.tracks, later.tracks
        if len(mine) != len(others):
            return None
        for one, other in zip(mine, others, strict=True):
            if one.calendar is not other.calendar or one.begin(self.count) != other.n or one.many != other.many:
                return None
        return Repeats(mine, self.count + later.count)


@dataclass
class BusyPeriod:
    """All that some DAGs did while one of them was at work."""

    specs: Mapping[str, DagSpec]
    runs: list[RunSpan]
    tries: list[TrySpan]
    calendars: dict[str, Calendar] = field(default_factory=dict)
    """By DAG, once it is known to come again."""
    repeats: list[Repeats] = field(default_factory=list)

    def comes_again(self, repeats: Repeats) -> None:
        """Notes when."""
        joined = self.repeats[-1].joined(repeats) if self.repeats else None
        if joined is not None:
            self.repeats[-1] = joined
        else:
            self.repeats.append(repeats)

    @property
    def count(self) -> int:
        """How often it happens in all."""
        return 1 + sum(repeats.count for repeats in self.repeats)

    @property
    def last_shift(self) -> timedelta:
        """How much later than the first time it happens the last time."""
        if not self.repeats:
            return timedelta()
        track = self.repeats[-1].tracks[0]
        return track.due(self.repeats[-1].count - 1) - self._first_due(track.calendar)

    def shifts(self) -> Iterator[timedelta]:
        """How much later than the first time it happens, each time."""
        yield timedelta()
        for repeats in self.repeats:
            track = repeats.tracks[0]
            first = self._first_due(track.calendar)
            for repeat in range(repeats.count):
                yield track.due(repeat) - first

    def _first_due(self, calendar: Calendar) -> datetime:
        return next(run.run_after for run in self.runs if self.calendars[run.dag_id] is calendar)

    def runs_of(self, dag_ids: Container[str]) -> Iterator[RunSpan]:
        """Those of some DAGs, each time."""
        if not any(run.dag_id in dag_ids for run in self.runs):
            return
        yield from (run for run in self.runs if run.dag_id in dag_ids)
        for shift, named in self._again():
            for run, info in zip(self.runs, named, strict=True):
                if run.dag_id in dag_ids:
                    yield self._run_again(run, info, shift)

    def all_tries(self) -> Iterator[TrySpan]:
        """Those of each time."""
        yield from self.tries
        for shift, named in self._again():
            ids = {
                (run.dag_id, run.run_id): self._run_again(run, info, shift).run_id
                for run, info in zip(self.runs, named, strict=True)
            }
            for one in self.tries:
                yield _try_again(one, ids[one.dag_id, one.run_id], shift)

    def _again(self) -> Iterator[tuple[timedelta, list[DagRunInfo]]]:
        """Each repeat: how much later it is, and what its runs are."""
        shifts = self.shifts()
        next(shifts)
        for repeats in self.repeats:
            tracks = {track.calendar: track for track in repeats.tracks}
            for repeat in range(repeats.count):
                seen: dict[str, int] = {}
                infos = []
                for run in self.runs:
                    track = tracks[self.calendars[run.dag_id]]
                    n = seen.get(run.dag_id, 0)
                    seen[run.dag_id] = n + 1
                    infos.append(track.info(repeat, n))
                yield next(shifts), infos

    def _run_again(self, run: RunSpan, info: DagRunInfo, shift: timedelta) -> RunSpan:
        named = scheduled_run(run.dag_id, self.specs[run.dag_id].schedule, info)
        return run.model_copy(
            update={
                "run_id": named.run_id,
                "logical_date": named.logical_date,
                "run_after": named.run_after,
                "created_at": run.created_at + shift,
                "started_at": _later(run.started_at, shift),
                "ended_at": _later(run.ended_at, shift),
                "deadline": _later(run.deadline, shift),
            }
        )


def _try_again(one: TrySpan, run_id: str, shift: timedelta) -> TrySpan:
    return one.model_copy(
        update={
            "run_id": run_id,
            "queued_at": one.queued_at + shift,
            "started_at": _later(one.started_at, shift),
            "ended_at": _later(one.ended_at, shift),
        }
    )


def _later(time: datetime | None, shift: timedelta) -> datetime | None:
    return None if time is None else time + shift
