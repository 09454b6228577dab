"""Running a DAG over a range of the past: what is asked for, and how far it is.

A backfill is an entry in its DAG's state, not a second engine: its runs are created by the same
workflow, at the same ids, under a limit of their own.
"""

from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from ..base import Instant, Model, Record, Request, iso
from ..errors import InvalidInputError
from ..spec.dag import DagSpec
from ..spec.timetables import DagRunInfo, Timetable
from ..spec.timetables.base import NextRun, backfill_infos
from ..states import RunState

BATCH = 100


class ReprocessBehavior(StrEnum):
    """What to do about a date that has a finished run already (Airflow's names).

    A run that is run again keeps its run_id and becomes one of the backfill.
    """

    NONE = "none"
    FAILED = "failed"
    COMPLETED = "completed"

    def again(self, state: RunState) -> bool:
        if self is ReprocessBehavior.COMPLETED:
            return state.finished
        return self is ReprocessBehavior.FAILED and state is RunState.FAILED


class BackfillRequest(Request):
    """A backfill as its author asks for it: runs with from_date <= logical date <= to_date."""

    from_date: Instant
    to_date: Instant
    run_backwards: bool = False
    reprocess_behavior: ReprocessBehavior = ReprocessBehavior.NONE
    max_active_runs: PositiveInt = 10
    conf: dict[str, Any] = {}
    dry_run: bool = False

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.to_date < self.from_date:
            raise ValueError(
                f"to_date {iso(self.to_date)} is before from_date {iso(self.from_date)}. "
                "Swap them; for the newest first set run_backwards"
            )
        return self


class BackfillQuestion(Model):
    """Which runs a backfill has, from number `offset` on, as of `now`."""

    asks: Literal["backfill"] = "backfill"
    timetable: Timetable
    request: BackfillRequest
    now: Instant
    offset: int = 0
    folder: str | None = None
    most: int = Field(default=BATCH, ge=1)


class BackfillBatch(Model):
    """Some of a backfill's runs, in the order in which they are created, and how many there are in all."""

    total: int
    infos: tuple[DagRunInfo, ...] = ()
    error: str | None = None


class BackfillPlan(Model):
    """What a backfill is, or with dry_run would be: its first runs, and how many there are in all."""

    backfill_id: str | None
    total: int
    infos: tuple[DagRunInfo, ...]


class BackfillProgress(Model):
    """How far a backfill is. The field names are those of Airflow's progress line."""

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
    created_at: Instant
    completed_at: Instant | None

    @property
    def finished(self) -> int:
        return self.succeeded + self.failed + self.skipped

    @property
    def pct(self) -> float:
        """Finished runs of all runs, in percent; a backfill of nothing is complete."""
        return 100.0 * self.finished / self.total_dagruns if self.total_dagruns else 100.0

    def line(self, tasks: int) -> str:
        """Airflow's old progress line, for a DAG of *tasks* tasks."""
        total = self.total_dagruns * tasks
        done = [n * tasks for n in (self.finished, self.succeeded, self.skipped, self.failed)]
        return (
            f"[backfill progress: {self.pct:.1f}%] | total dagruns: {self.total_dagruns} | total tasks: {total} | "
            f"finished: {done[0]} | succeeded: {done[1]} | skipped: {done[2]} | failed: {done[3]}"
        )


class Backfill(Record):
    """One backfill in its DAG's state. `infos` are its next runs; those after `offset` are asked for when needed."""

    backfill_id: str
    request: BackfillRequest
    timetable: Timetable
    folder: str | None = None
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

    def question(self) -> BackfillQuestion | None:
        """What has to be asked before the next run can be made; None if nothing."""
        if self.infos or not self.room or self.offset >= self.total:
            return None
        return BackfillQuestion(
            timetable=self.timetable,
            request=self.request,
            now=self.created_at,
            offset=self.offset,
            folder=self.folder,
        )

    def take(self, batch: BackfillBatch) -> None:
        """Keeps the next of its runs. A timetable that raises ends the backfill, and no more than that."""
        if self.cancelled:
            return
        if batch.error is not None:
            self.error, self.cancelled = batch.error, True
            return
        self.infos = batch.infos
        self.offset += len(batch.infos)
        if not batch.infos:  # the tables changed under it: there are fewer runs than there were
            self.offset = self.total

    def ended(self, state: RunState) -> None:
        """One of its runs has ended."""
        if state is RunState.SUCCESS:
            self.succeeded += 1
        else:
            self.failed += 1

    def close_if_done(self, now: datetime) -> bool:
        """Closes the backfill when nothing is left of it to do. True if it did so now."""
        done = not self.infos and self.offset >= self.total
        if self.open and self.running == 0 and (done or self.cancelled):
            self.completed_at = now
            return True
        return False

    def progress(self) -> BackfillProgress:
        state = "cancelled" if self.cancelled else "running" if self.open else "completed"
        if self.error is not None:
            state = f"failed: timetable: {self.error}"
        if self.open and self.is_paused:
            state = "paused"
        return BackfillProgress(
            backfill_id=self.backfill_id,
            total_dagruns=self.total,
            created=self.created,
            skipped=self.skipped,
            running=self.running,
            succeeded=self.succeeded,
            failed=self.failed,
            is_paused=self.is_paused,
            state=state,
            from_date=self.request.from_date,
            to_date=self.request.to_date,
            run_backwards=self.request.run_backwards,
            reprocess_behavior=self.request.reprocess_behavior,
            max_active_runs=self.request.max_active_runs,
            created_at=self.created_at,
            completed_at=self.completed_at,
        )


def check_backfill(spec: DagSpec, request: BackfillRequest) -> None:
    """Raises InvalidInputError for a DAG that cannot be run over a range, or not as it is asked for."""
    if not spec.schedule.periodic:
        raise InvalidInputError(
            f"DAG {spec.dag_id!r} has no periodic schedule ({spec.schedule.kind}), so a range of dates means nothing. "
            "Trigger single runs instead"
        )
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


def backfill_batch(question: BackfillQuestion) -> BackfillBatch:
    """The answer: which runs, in order."""
    infos = _all_infos(question.model_copy(update={"offset": 0, "most": 1}).model_dump_json())
    return cut(question, infos)


@lru_cache(maxsize=8)
def _all_infos(question: str) -> tuple[DagRunInfo, ...]:
    """Kept for the next batch: ten thousand runs are asked for a hundred at a time."""
    asked = BackfillQuestion.model_validate_json(question)
    return all_infos(asked.timetable.next_dagrun_info, asked)


def all_infos(next_run: NextRun, question: BackfillQuestion) -> tuple[DagRunInfo, ...]:
    """All runs of the backfill, in the order in which they are created."""
    infos = backfill_infos(next_run, question.request.from_date, question.request.to_date, question.now)
    return tuple(reversed(infos)) if question.request.run_backwards else tuple(infos)


def cut(question: BackfillQuestion, infos: tuple[DagRunInfo, ...]) -> BackfillBatch:
    return BackfillBatch(total=len(infos), infos=infos[question.offset : question.offset + question.most])
