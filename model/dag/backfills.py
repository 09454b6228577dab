"""Running a DAG over a range of the past: what is asked for, and how far it is.

A backfill is an entry in its DAG's state, not a second engine: its runs are created by the same
workflow, at the same ids, under a limit of their own.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from pydantic import model_validator

from ..base import Instant, Model, OmitDefaults, Record, iso
from ..errors import InvalidInputError
from ..run.progress import Progress, percent, together
from ..spec.dag import DagSpec
from ..spec.owned import OwnedNames
from ..spec.timetables import DagRunInfo, DataInterval, Timetable
from ..states import RunState
from .backfill_request import BackfillRequest, ReprocessBehavior
from .backfill_walk import BATCH, BackfillBatch, BackfillPage, BackfillQuestion


class BackfillPlan(OmitDefaults, Model):
    """What a backfill is, or with dry_run would be: its first runs, and how many there are in all."""

    backfill_id: str | None
    total: int
    infos: tuple[DagRunInfo, ...]
    counted: bool = True
    """Whether `total` is all; a large range is counted on while the first runs run."""


class BackfillProgress(OmitDefaults, Model):
    """How far a backfill is: its runs, and in `tasks` what they are made of."""

    backfill_id: str
    total_dagruns: int
    created: int
    skipped: int
    running: int
    succeeded: int
    failed: int
    is_paused: bool
    state: str
    from_date: Instant
    to_date: Instant
    run_backwards: bool
    reprocess_behavior: ReprocessBehavior
    max_active_runs: int
    conf: dict[str, Any] = {}
    created_at: Instant
    completed_at: Instant | None
    counted: bool = True
    """Whether `total_dagruns` is all: a large range is counted while its runs run."""
    awaits: tuple[str, ...] = ()
    """The runs of its range that others had made and that are under way: it is complete when they have ended, too."""
    finished: int | None = None
    """Runs that have succeeded, failed or been skipped."""
    pct: float | None = None
    """Finished runs of all runs, in percent; 100 where there are none."""
    tasks: Progress | None = None
    """The tasks of its runs: those of ended runs as they were counted, for each other run those of today's DAG.
    None: a release before tells of it."""

    @model_validator(mode="before")
    @classmethod
    def _of_an_earlier_release(cls, fields: Any) -> Any:
        """It tells of single counts."""
        counts = ("succeeded", "failed", "skipped", "total_dagruns")
        if isinstance(fields, dict) and "finished" not in fields and {*counts} <= fields.keys():
            finished = sum(fields[name] for name in counts[:3])
            return {**fields, "finished": finished, "pct": percent(finished, fields["total_dagruns"])}
        return fields


class Backfill(OmitDefaults, Record):
    """One backfill in its DAG's state. `infos` are its next runs; those after `offset` are asked for when needed."""

    backfill_id: str
    request: BackfillRequest
    timetable: Timetable
    folder: str | None = None
    bundle: str | None = None
    owns: OwnedNames | None = None
    created_at: Instant
    total: int
    offset: int = 0
    infos: tuple[DagRunInfo, ...] = ()
    is_paused: bool = False
    cancelled: bool = False
    error: str | None = None
    completed_at: Instant | None = None
    created: int = 0
    skipped: int = 0
    succeeded: int = 0
    failed: int = 0
    counted_to: DataInterval | None = None
    """Up to which run `total` counts; None: up to the last."""
    after: DataInterval | None = None
    """The run before the next to be asked for."""
    ended_tasks: Progress | None = None
    """The tasks of its ended runs."""
    awaits: tuple[str, ...] = ()
    """Keys of runs in its range that others had made."""
    pages: tuple[BackfillPage, ...] = ()
    """Where the runs of one that runs backwards can be taken up, oldest first."""

    @property
    def open(self) -> bool:
        return self.completed_at is None

    @property
    def running(self) -> int:
        return self.created - self.succeeded - self.failed

    @property
    def room(self) -> int:
        """How many more of its runs may be under way."""
        held = self.is_paused or self.cancelled or not self.open
        return 0 if held else max(0, self.request.max_active_runs - self.running)

    @property
    def counted(self) -> bool:
        return self.counted_to is None

    @property
    def in_parts(self) -> bool:
        """Whether its runs are asked for from place to place. The release before cannot go on with it then."""
        return not self.counted or self.after is not None or bool(self.pages)

    def question(self) -> BackfillQuestion | None:
        """What has to be asked before the next run can be made; None if nothing, or if that is not counted yet."""
        if self.infos or not self.room or self.offset >= self.total:
            return None
        if not self.in_parts:
            return self._question().by_number()
        if self.request.run_backwards:
            return self._question_backwards() if self.counted else None
        return self._question(after=self.after)

    def _question_backwards(self) -> BackfillQuestion:
        page = self.pages[-1]
        return self._question(after=page.after, skip=max(0, page.runs - BATCH), limit=min(BATCH, page.runs))

    def counting_question(self) -> BackfillQuestion | None:
        """What has to be asked to know how many runs there are; None if that is known."""
        if self.counted or self.cancelled or not self.open:
            return None
        return self._question(after=self.counted_to, counts=True)

    @classmethod
    def first_question(cls, spec: DagSpec, request: BackfillRequest, now: datetime) -> BackfillQuestion:
        """How many runs the backfill would have, as far as that can be said at once, and which come first."""
        return BackfillQuestion(
            timetable=spec.schedule,
            request=request,
            now=now,
            folder=spec.folder,
            bundle=spec.bundle,
            owns=spec.owns,
            counts=True,
            placed=True,
        )

    def _question(
        self, after: DataInterval | None = None, skip: int = 0, limit: int = BATCH, counts: bool = False
    ) -> BackfillQuestion:
        return BackfillQuestion(
            timetable=self.timetable,
            request=self.request,
            now=self.created_at,
            offset=self.offset,
            folder=self.folder,
            bundle=self.bundle,
            owns=self.owns,
            limit=limit,
            after=after,
            skip=skip,
            takes=not counts,
            counts=counts,
            placed=True,
        )

    def take(self, batch: BackfillBatch) -> None:
        """Keeps the next of its runs. A timetable that raises ends the backfill, and no more than that."""
        if self._refused(batch):
            return
        self.infos = batch.infos
        self.offset += len(batch.infos)
        if batch.infos and self.in_parts:
            self.after = batch.infos[-1].data_interval
        if not batch.infos:  # the tables changed under it: there are fewer runs than there were
            self.offset = self.total
        self._turn_pages(len(batch.infos))

    def _turn_pages(self, taken: int) -> None:
        if self.pages and (left := self.pages[-1].runs - taken) > 0:
            self.pages = (*self.pages[:-1], self.pages[-1].model_copy(update={"runs": left}))
        else:
            self.pages = self.pages[:-1]

    def count(self, batch: BackfillBatch) -> None:
        """Keeps how many runs there are beyond those that it knew of, and where to take them up."""
        if self._refused(batch):
            return
        self.total += batch.total
        self.counted_to = batch.counted_to
        self.pages += batch.pages

    def _refused(self, batch: BackfillBatch) -> bool:
        if batch.error is not None and not self.cancelled:
            self.error, self.cancelled = batch.error, True
        return self.cancelled

    def ended(self, state: RunState, tasks: Progress | None) -> None:
        """One of its runs has ended; *tasks* are its, counted."""
        if tasks is not None:
            self.ended_tasks = together(self.ended_tasks, tasks)
        if state is RunState.SUCCESS:
            self.succeeded += 1
        else:
            self.failed += 1

    def begins_again(self, ended_as: RunState) -> None:
        """One of its runs that had ended is under way again: it is waited for, and counted anew."""
        if ended_as is RunState.SUCCESS:
            self.succeeded -= 1
        else:
            self.failed -= 1
        self.ended_tasks = None  # of which those of this run cannot be told: all are estimated from now on

    def close_if_done(self, now: datetime, under_way: Collection[str]) -> bool:
        """Closes the backfill when nothing is left of it to do. True if it did so now.

        *under_way* are the keys of the DAG's runs: those of its range that others had made are waited for.
        """
        self.awaits = tuple(key for key in self.awaits if key in under_way)
        done = not self.infos and self.offset >= self.total and self.counted and not self.awaits
        if self.open and self.running == 0 and (done or self.cancelled):
            self.completed_at = now
            return True
        return False

    @property
    def state(self) -> str:
        """One word for it, or what is the matter with its timetable."""
        if self.open and self.is_paused:
            return "paused"
        if self.error is not None:
            return f"failed: timetable: {self.error}"
        return "cancelled" if self.cancelled else "running" if self.open else "completed"

    def progress(self, tasks_per_run: int) -> BackfillProgress:
        """How far it is; a run that has not ended is taken to have so many tasks."""
        return BackfillProgress(
            backfill_id=self.backfill_id,
            total_dagruns=self.total,
            created=self.created,
            skipped=self.skipped,
            running=self.running,
            succeeded=self.succeeded,
            failed=self.failed,
            is_paused=self.is_paused,
            state=self.state,
            from_date=self.request.from_date,
            to_date=self.request.to_date,
            run_backwards=self.request.run_backwards,
            reprocess_behavior=self.request.reprocess_behavior,
            max_active_runs=self.request.max_active_runs,
            conf=self.request.conf,
            created_at=self.created_at,
            completed_at=self.completed_at,
            counted=self.counted,
            awaits=self.awaits,
            finished=self.succeeded + self.failed + self.skipped,
            pct=percent(self.succeeded + self.failed + self.skipped, self.total),
            tasks=self._tasks(tasks_per_run),
        )

    def _tasks(self, tasks_per_run: int) -> Progress:
        """Its tasks; those of skipped runs are nobody's to run."""
        uncounted = self.succeeded + self.failed - (self.ended_tasks.total_dagruns if self.ended_tasks else 0)
        ended = {
            "finished": tasks_per_run * uncounted,
            "succeeded": tasks_per_run * min(uncounted, self.succeeded),
            "failed": tasks_per_run * (uncounted - min(uncounted, self.succeeded)),
        }
        left = self.total - self.skipped - self.succeeded - self.failed
        others = Progress(
            total_dagruns=left + uncounted, total_tasks=tasks_per_run * (left + uncounted), skipped=0, **ended
        )
        return together(self.ended_tasks, others)


def runs_text(total: int, *, counted: bool) -> str:
    """How many runs, in words."""
    return f"{total} runs" if counted else f"at least {total} runs"


def check_backfill(spec: DagSpec, request: BackfillRequest) -> None:
    """Raises InvalidInputError for a DAG that cannot be run over a range, or not as it is asked for."""
    if not spec.schedule.periodic:
        raise InvalidInputError(
            f"DAG {spec.dag_id!r} has no periodic schedule ({spec.schedule.kind}), so a range of dates means nothing. "
            "Trigger single runs instead"
        )
    spec.check_run_type("backfill")
    past = [task.task_id for task in spec.tasks if task.needs_past]
    if past and request.run_backwards:
        raise InvalidInputError(
            f"run_backwards: task {past[0]!r} of DAG {spec.dag_id!r} depends on its past, which would come after it. "
            "Leave run_backwards out"
        )
    if past and request.reprocess_behavior is ReprocessBehavior.NONE:
        raise InvalidInputError(
            f"reprocess_behavior = none: task {past[0]!r} of DAG {spec.dag_id!r} depends on its past, and would wait "
            "for ever behind a run that failed. Use failed or completed"
        )


def check_batch(spec: DagSpec, request: BackfillRequest, batch: BackfillBatch) -> None:
    """Raises InvalidInputError for a backfill of nothing."""
    if batch.error is not None:
        raise InvalidInputError(f"DAG {spec.dag_id!r}: timetable: {batch.error}")
    if not batch.total:
        raise InvalidInputError(
            f"DAG {spec.dag_id!r} has no complete interval from {iso(request.from_date)} to {iso(request.to_date)}. "
            "Choose a range in the past that its schedule runs in"
        )
