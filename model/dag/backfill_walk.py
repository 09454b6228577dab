"""Which runs a backfill has: worked out a part at a time, since a range may hold hundreds of thousands of dates.

A timetable only tells which run follows another. So runs are taken from where the last part ended, and how many
there are is counted meanwhile; what is to run backwards is counted first, and then taken from its last page on.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Literal, Self

from pydantic import Field

from ..base import Instant, Model, OmitDefaults
from ..spec.owned import OwnedNames
from ..spec.timetables import DagRunInfo, DataInterval, Timetable
from ..spec.timetables.base import NextRun, infos_between
from .backfill_request import BackfillRequest

SMALL = 1000
"""Runs up to which a backfill is asked for by number, so that the release before can go on with it."""
BATCH = 100
"""Runs that a backfill's state holds, to be created next."""
PAGE = 1000
"""Runs from one place to the next that a backfill which runs backwards can be taken up at."""


class BackfillQuestion(OmitDefaults, Model):
    """Which runs a backfill has, as of `now`: those after `after`, without the first `skip` of them."""

    asks: Literal["backfill"] = "backfill"
    timetable: Timetable
    request: BackfillRequest
    now: Instant
    offset: int = 0
    """How many runs of the backfill have been taken before, in the order of their creation."""
    folder: str | None = None
    bundle: str | None = None
    owns: OwnedNames | None = None
    limit: int = Field(default=BATCH, alias="most", ge=1)
    after: DataInterval | None = None
    skip: int = 0
    takes: bool = True
    counts: bool = False
    """Whether to count the runs from there on; with `takes` also, which come first."""
    placed: bool = False
    """Whether `after` and `skip` say where to begin; else `offset` does, in the whole, as the release before asks."""

    def by_number(self) -> Self:
        """The same, as the release before asks."""
        return self.model_copy(update={"counts": False, "placed": False})


class BackfillPage(Model):
    """Some of a backfill's runs that follow each other: the run before the first of them, and how many they are."""

    after: DataInterval | None
    runs: int


class BackfillBatch(OmitDefaults, Model):
    """Some of a backfill's runs, in the order in which they are created."""

    total: int
    """How many runs there are in all; where `counted_to` is given, from `after` to there."""
    infos: tuple[DagRunInfo, ...] = ()
    error: str | None = None
    counted_to: DataInterval | None = None
    """The run up to which the runs are counted; None: up to the last."""
    pages: tuple[BackfillPage, ...] = ()


def backfill_batch(next_run: NextRun, question: BackfillQuestion, in_time: Callable[[], bool]) -> BackfillBatch:
    """The answer to *question*: as much of it as *next_run* gives *in_time*, and at least one run."""
    if not question.placed:
        return _of_all(next_run, question)
    if not question.counts:
        return BackfillBatch(total=0, infos=_taken(next_run, question))
    return _counted(next_run, question, in_time)


def _of_all(next_run: NextRun, question: BackfillQuestion) -> BackfillBatch:
    infos = tuple(_runs(next_run, question))
    if question.request.run_backwards:
        infos = infos[::-1]
    return BackfillBatch(total=len(infos), infos=infos[question.offset : question.offset + question.limit])


def _taken(next_run: NextRun, question: BackfillQuestion) -> tuple[DagRunInfo, ...]:
    infos = tuple(islice(_runs(next_run, question), question.skip, question.skip + question.limit))
    return infos[::-1] if question.request.run_backwards else infos


def _counted(next_run: NextRun, question: BackfillQuestion, in_time: Callable[[], bool]) -> BackfillBatch:
    """The runs from there on, counted; and those that are created first, if this is where they are."""
    backwards = question.request.run_backwards
    kept: deque[DagRunInfo] = deque(maxlen=question.limit if backwards else None)
    starts: list[DataInterval | None] = []
    total, last, counted_to = 0, question.after, None
    for info in _runs(next_run, question):
        if total % PAGE == 0:
            starts.append(last)
        if backwards or len(kept) < question.limit:
            kept.append(info)
        total, last = total + 1, info.data_interval
        if not in_time():
            counted_to = last
            break
    infos = tuple(reversed(kept)) if backwards else tuple(kept)
    wanted = question.takes and not (backwards and counted_to)
    pages = [BackfillPage(after=start, runs=min(PAGE, total - PAGE * n)) for n, start in enumerate(starts)]
    return BackfillBatch(
        total=total,
        infos=infos if wanted else (),
        counted_to=counted_to,
        pages=tuple(pages) if backwards else (),
    )


def _runs(next_run: NextRun, question: BackfillQuestion) -> Iterator[DagRunInfo]:
    """The backfill's runs after `after`, oldest first: intervals that ended before `now`.

    As in Airflow the DAG's start_date and catchup do not matter here.
    """
    earliest, latest = question.timetable.backfill_bounds(question.request.from_date, question.request.to_date)
    for info in infos_between(next_run, earliest, latest, question.now, question.after):
        if info.logical_date >= question.now:
            return
        if info.data_interval.end < question.now:
            yield info
