"""The backfills of a DAG: which of their runs are created when, beside the schedule's own."""

from datetime import datetime

from ..base import iso
from ..run.identity import RunIdentity, backfill_run
from ..spec.dag import DagSpec
from ..spec.timetables import DagRunInfo, Timetable
from .backfill_request import BackfillRequest, ReprocessBehavior
from .backfill_walk import SMALL, BackfillBatch, BackfillQuestion
from .backfills import Backfill, runs_text
from .past import DagPast
from .records import DecisionKind, RunRecord, TrackedRun

BACKFILLS_KEPT = 20


class DagBackfills(DagPast):
    """The part of a DAG's decisions that is about backfills."""

    def backfill(self, backfill_id: str | None) -> Backfill | None:
        return next((backfill for backfill in self.backfills if backfill.backfill_id == backfill_id), None)

    def add_backfill(self, spec: DagSpec, request: BackfillRequest, batch: BackfillBatch, now: datetime) -> Backfill:
        """Takes a backfill on, with the first of its runs by the schedule of *spec*."""
        self.backfills_made += 1
        made = Backfill(
            backfill_id=f"backfill_{self.backfills_made}",
            request=request,
            timetable=spec.schedule,
            folder=spec.folder,
            bundle=spec.bundle,
            owns=spec.owns,
            created_at=now,
            total=batch.total,
            counted_to=batch.counted_to,
        )
        if batch.counted_to is not None or batch.total > SMALL:
            made.pages = batch.pages
            made.after = batch.infos[-1].data_interval if batch.infos else None
        if batch.infos:
            made.take(batch)
        self.backfills.append(made)
        closed = [backfill for backfill in self.backfills if not backfill.open]
        for backfill in closed[: max(0, len(self.backfills) - BACKFILLS_KEPT)]:
            self.backfills.remove(backfill)
        self.note(
            now,
            DecisionKind.BACKFILL,
            made.backfill_id,
            f"{runs_text(made.total, counted=made.counted)} were asked for",
        )
        return made

    def counting_question(self) -> tuple[str, BackfillQuestion] | None:
        """Of which backfill the runs are still to be counted, and what to ask for it; None: of none."""
        questions = ((backfill.backfill_id, backfill.counting_question()) for backfill in self.backfills)
        return next(((id_, question) for id_, question in questions if question is not None), None)

    def count_backfill(self, backfill_id: str, batch: BackfillBatch, now: datetime) -> None:
        """Takes in more of how many runs a backfill has."""
        backfill = self.backfill(backfill_id)
        if backfill is None:
            return
        backfill.count(batch)
        if backfill.counted:
            self.note(now, DecisionKind.BACKFILL, backfill_id, f"{backfill.total} runs were counted")
        self.close_backfills(now)

    def create_backfill_runs(self, now: datetime) -> int:
        """Creates the runs that open backfills have room for; how many dates were dealt with."""
        dealt_with = 0
        for backfill in self.backfills:
            while backfill.room and backfill.infos and not self.held_up:
                info, *rest = backfill.infos
                backfill.infos = tuple(rest)
                self._create_for(backfill, info, now)
                dealt_with += 1
        self.close_backfills(now)
        return dealt_with

    def would_create(self, request: BackfillRequest, timetable: Timetable, info: DagRunInfo) -> bool:
        """Whether a backfill makes a run for *info*, as things stand: a date that has a run may be left out."""
        run = backfill_run(self.spec.dag_id, timetable, info, request.conf)
        done = self._ended_before(run)
        if self._in_flight(run, done) is not None:
            return False
        return done is None or request.reprocess_behavior.again(done.state)

    def _create_for(self, backfill: Backfill, info: DagRunInfo, now: datetime) -> None:
        # Under an id of its own a partition is run again; else Temporal knows of the run that there was.
        anew = backfill.backfill_id if self._runs_partition_again(backfill, info) else ""
        run = backfill_run(self.spec.dag_id, backfill.timetable, info, backfill.request.conf, anew)
        run = run.model_copy(update={"backfill_id": backfill.backfill_id})
        if info.run_ids:
            run = self.with_unique_run_id(run)
        done = self._ended_before(run)
        holder = self._in_flight(run, done)
        if holder is not None:
            backfill.awaits += tuple(key for key, tracked in self.runs.items() if tracked.run.run_id == holder)
            self.skip_in_backfill(backfill, f"{holder} is in flight or holds the date", run, now)
        elif done is not None and not backfill.request.reprocess_behavior.again(done.state):
            self.skip_in_backfill(backfill, f"{done.run_id} exists already and ended in {done.state}", run, now)
        else:
            again = done is not None and run.partition_key is None
            kept = run.model_copy(update={"run_id": done.run_id}) if done is not None and again else run
            self.runs[run.key] = TrackedRun(
                run=kept,
                queued_at=now,
                backfill_id=backfill.backfill_id,
                again=again,
                past=self.take_up(kept.run_id) if again else {},
                ignores_past=backfill.created == 0,
            )
            backfill.created += 1
            self._mark_ahead(kept)
            self.note(now, DecisionKind.CREATED, kept.run_id, f"{backfill.backfill_id} has room for it")

    def _runs_partition_again(self, backfill: Backfill, info: DagRunInfo) -> bool:
        behavior = backfill.request.reprocess_behavior
        ended = [record.state for record in self.ledger if record.partition_date == info.run_after]
        return behavior is ReprocessBehavior.COMPLETED or any(behavior.again(state) for state in ended)

    def _ended_before(self, run: RunIdentity) -> RunRecord | None:
        """The last run of the same date or partition, if it has ended."""
        if run.partition_key is None:
            return next((record for record in self.ledger if record.logical_date == run.logical_date), None)
        same = [record for record in self.ledger if record.partition_date == run.partition_date]
        return max(same, key=lambda record: record.queued_at, default=None)

    def _in_flight(self, run: RunIdentity, done: RunRecord | None) -> str | None:
        """Who holds the date or the partition of *run*; None if nobody does."""
        if run.partition_key is not None:
            others = [t.run.run_id for t in self.runs.values() if t.run.partition_date == run.partition_date]
            return others[0] if others else None
        taken = run.key in self.runs or (done is None and run.key in self.dates)
        return self.holder(run) if taken else None

    def skip_in_backfill(self, backfill: Backfill, reason: str, run: RunIdentity, now: datetime) -> None:
        backfill.skipped += 1
        about = run.partition_key or iso(run.logical_date or now)
        self.note(now, DecisionKind.SKIPPED, f"{backfill.backfill_id} {about}", reason)

    def give_up_in_backfill(self, backfill: Backfill, tracked: TrackedRun, reason: str, now: datetime) -> None:
        """Takes back a run that was created for a backfill and turned out to have run already."""
        del self.runs[tracked.run.key]
        backfill.created -= 1
        self.skip_in_backfill(backfill, reason, tracked.run, now)

    def _mark_ahead(self, run: RunIdentity) -> None:
        """A backfill's run past the head: the schedule will find its date taken.

        Without catchup the schedule goes on from there. With it the head stays, for dates
        between that only the schedule would make; it passes this one when it gets there.
        """
        head, interval = self.last_automated_interval, run.data_interval
        if interval is None or (head is not None and interval.start <= head.start):
            return
        if self.spec.catchup:
            self.keep_date(run)
        else:
            self.last_automated_interval = interval
            self.ticks, self.ticks_ended = (), False

    def close_backfills(self, now: datetime) -> None:
        for backfill in self.backfills:
            if backfill.close_if_done(now, self.runs):
                summary = f"{backfill.succeeded} succeeded, {backfill.failed} failed, {backfill.skipped} skipped"
                self.note(now, DecisionKind.BACKFILL, backfill.backfill_id, f"{backfill.state}: {summary}")
