"""The coming runs of a DAG, worked out ahead and then kept: a schedule is read once, not on every replay."""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from ..base import Instant, Model
from ..run.identity import RunType, run_id
from ..spec.owned import OwnedNames
from ..spec.timetables import DagRunInfo, DataInterval, TimeRestriction, Timetable
from ..spec.timetables.base import NextRun
from .backfill_walk import BackfillQuestion


class TimetableQuery(Model):
    """Which runs follow the automated run over `last`, as of `now`; at most `limit` of them."""

    asks: Literal["ticks"] = "ticks"
    timetable: Timetable
    restriction: TimeRestriction
    last: DataInterval | None
    now: Instant
    limit: int = Field(alias="most", ge=1, le=1000)
    folder: str | None = None
    """Where a timetable of the user's own may be found, beside what is installed."""
    bundle: str | None = None
    """Whose Python imports it, where it is written for Airflow."""
    owns: OwnedNames | None = None
    """What it may look up."""


class IntervalQuestion(Model):
    """Which interval a manual run at `run_after` is about."""

    asks: Literal["interval"] = "interval"
    timetable: Timetable
    run_after: Instant
    folder: str | None = None
    bundle: str | None = None
    owns: OwnedNames | None = None


Question = TimetableQuery | IntervalQuestion | BackfillQuestion
question_adapter: TypeAdapter[Question] = TypeAdapter(Annotated[Question, Field(discriminator="asks")])


class Ticks(Model):
    """The coming runs, in order. `ended` says that there is none after the last of these."""

    infos: tuple[DagRunInfo, ...] = ()
    ended: bool = False
    error: str | None = None
    """What the timetable raised, if it did."""


def coming_runs(question: TimetableQuery) -> Ticks:
    """The runs that *question* asks for."""
    return walk(question.timetable.next_dagrun_info, question)


def named_by_run_after(ticks: Ticks) -> Ticks:
    """*ticks*, with the run_ids that Airflow 3.0 to 3.3 gives scheduled runs: of run_after, whatever they are about."""
    kind = RunType.SCHEDULED
    named = (info.model_copy(update={"run_ids": {kind.value: run_id(kind, info.run_after)}}) for info in ticks.infos)
    return ticks.model_copy(update={"infos": tuple(named)})


def walk(next_run: NextRun, question: TimetableQuery) -> Ticks:
    """Asks *next_run* again and again, each time about the run after the one before.

    Without catchup an answer depends on when it is asked: each run after the first is what the
    timetable says at the moment when the one before it falls due. Who wakes up later than that
    has to ask again.
    """
    last, now = question.last, question.now
    infos: list[DagRunInfo] = []
    while len(infos) < question.limit:
        try:
            info = next_run(last, question.restriction, now)
        except OverflowError:  # beyond the calendar's last year
            info = None
        if info is None:
            return Ticks(infos=tuple(infos), ended=True)
        infos.append(info)
        last, now = info.data_interval, max(now, info.run_after)
    return Ticks(infos=tuple(infos))


def spread(dag_id: str, run_after: datetime, jitter: timedelta | None) -> timedelta:
    """How long after *run_after* the run is made: any moment of *jitter*, and always the same for the same run."""
    if jitter is None:
        return timedelta()
    digest = sha256(f"{dag_id} {run_after.isoformat()}".encode()).digest()
    return jitter * (int.from_bytes(digest[:8]) / 2**64)


def due(infos: tuple[DagRunInfo, ...], now: datetime) -> int:
    """How many of *infos*, in order, may be created by *now*."""
    return next((n for n, info in enumerate(infos) if info.run_after > now), len(infos))
