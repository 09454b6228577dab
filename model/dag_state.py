"""One DAG over its whole life: its schedule, its runs, and what may happen next.

All that the `Dag` workflow knows is here, as plain data that travels through continue-as-new, and
so are its decisions: which runs are due, which may start, who holds a date. They read no clock
and ask nobody.
"""

from datetime import datetime
from typing import Any

from .backfills import Backfill, BackfillBatch, BackfillRequest
from .base import Instant, Record, iso
from .dag import DagSpec
from .dag_records import DateTakenError, DecisionKind, MadeDecision, RunRecord, TrackedRun
from .messages import DagNews, RunReport, TasksEnded
from .past import Past, remembered, run_before
from .revisions import Revision
from .runs import RunIdentity, RunType, backfill_run, run_id, scheduled_run
from .states import RunState, TaskState
from .ticks import Ticks, TicksQuestion, due
from .timetables import DagRunInfo, DataInterval, TimeRestriction

LEDGER_LENGTH = 500
DECISIONS_KEPT = 10
DATES_KEPT = 5000
BACKFILLS_KEPT = 20
TICKS_AHEAD = 2
TICKS_PLANNED = 20
TICKS_AHEAD_CATCHING_UP = 100


class DagState(Record):
    """A DAG's state. Only its workflow changes it, through the methods here."""

    spec: DagSpec
    is_paused: bool = False
    broken: str | None = None
    registered_at: Instant
    last_automated_interval: DataInterval | None = None
    resume_at: Instant | None = None
    """Where the present schedule takes over from another: no interval of it begins earlier."""
    ticks: tuple[DagRunInfo, ...] = ()
    ticks_ended: bool = False
    ticks_asked_at: Instant | None = None
    runs: dict[str, TrackedRun] = {}
    ledger: list[RunRecord] = []
    triggers: list[Any] = []
    """Triggers that have arrived and were not looked at yet."""
    backfills: list[Backfill] = []
    backfills_made: int = 0
    start_date_moves: int = 0
    """How often a new version moved the start_date on before there was a first run."""
    dates: dict[str, str] = {}
    """run_id by key, of runs made out of order: what the high-water mark does not tell."""
    decisions: list[MadeDecision] = []
    news: int = 0
    """The number of the last message to a run."""
    executions: int = 1

    # The schedule

    def question(self, now: datetime) -> TicksQuestion | None:
        """What has to be asked of the timetable before anything can be decided at *now*; None if nothing."""
        if self.broken is not None or self.ticks_ended:
            return None if not self._late(now) else self.ask(now)
        if self.spec.schedule.answers_by_moment and (self.is_paused or not self.room):
            return None
        if len(self.ticks) < TICKS_AHEAD or self._late(now):
            return self.ask(now)
        return None

    def _late(self, now: datetime) -> bool:
        """Without catchup, whether a later run than the planned one has fallen due since the planning."""
        if self.spec.catchup or self.is_paused or not self.room or self.ticks_asked_at is None:
            return False
        due_now = due(self.ticks, now)
        return due_now >= 2 and due_now > due(self.ticks, self.ticks_asked_at)

    def ask(self, now: datetime) -> TicksQuestion:
        """What the timetable has to be asked to know the coming runs."""
        many = self.spec.catchup and (not self.ticks or due(self.ticks, now) == len(self.ticks))
        most = TICKS_AHEAD_CATCHING_UP if many else TICKS_PLANNED
        return TicksQuestion(
            timetable=self.spec.schedule,
            restriction=self._restriction(),
            last=self.last_automated_interval,
            now=now,
            folder=self.spec.folder,
            most=1 if self.spec.schedule.answers_by_moment else most,
        )

    def _restriction(self) -> TimeRestriction:
        bounds = self.spec.restriction
        if self.resume_at is None:
            return bounds
        earliest = self.resume_at if bounds.earliest is None else max(bounds.earliest, self.resume_at)
        return bounds.model_copy(update={"earliest": earliest})

    def take(self, answer: Ticks, asked_at: datetime) -> None:
        """Keeps what the timetable answered at *asked_at*."""
        self.ticks = answer.infos
        self.ticks_ended = answer.ended
        self.ticks_asked_at = asked_at
        self.broken = f"timetable: {answer.error}" if answer.error is not None else None
        if answer.infos and answer.infos[0].data_interval == self.last_automated_interval:
            self.ticks = ()
            self.broken = f"timetable: it does not move on from {iso(answer.infos[0].logical_date)}. Mend the class"

    @property
    def next_info(self) -> DagRunInfo | None:
        """The next scheduled run; None if there is none, or none is known yet."""
        return self.ticks[0] if self.ticks else None

    @property
    def room(self) -> int:
        """How many more runs max_active_runs lets in: queued and running ones count, backfills do not."""
        counted = sum(tracked.run.run_type is not RunType.BACKFILL for tracked in self.runs.values())
        return max(0, self.spec.max_active_runs - counted)

    def create_due(self, now: datetime) -> list[TrackedRun]:
        """Creates every scheduled run that is due and that the limit lets in, in order."""
        created: list[TrackedRun] = []
        while not self.is_paused and self.broken is None and self.ticks and self.ticks[0].run_after <= now:
            if not self.room or self._late(now):
                break
            info, *rest = self.ticks
            run = scheduled_run(self.spec.dag_id, self.spec.schedule, info)
            holder = self.holder(run)
            self.ticks = tuple(rest)
            self.last_automated_interval = info.data_interval
            if holder is not None:
                self.note(
                    now, DecisionKind.SKIPPED, run.run_id, f"its date is taken by {holder}, so the tick counts as done"
                )
                continue
            created.append(self.create(run, now, f"due since {iso(info.run_after)}"))
        return created

    # Runs

    def holder(self, run: RunIdentity) -> str | None:
        """The run_id of the run that holds *run*'s date or its run_id; None if both are free."""
        tracked = self.runs.get(run.key)
        if tracked is not None:
            return tracked.run.run_id
        if run.key in self.dates:
            return self.dates[run.key]
        others = [(t.run.run_id, t.run.logical_date) for t in self.runs.values()]
        others += [(record.run_id, record.logical_date) for record in self.ledger]
        for other, logical_date in others:
            if other == run.run_id or (run.logical_date is not None and run.logical_date == logical_date):
                return other
        return None

    def create(self, run: RunIdentity, now: datetime, reason: str) -> TrackedRun:
        """Adds *run* to the queue. Raises DateTakenError if another run holds its date or its id."""
        if run.run_type is RunType.MANUAL and run.run_id == run_id(RunType.MANUAL, run.run_after):
            run = self._with_free_id(run)
        holder = self.holder(run)
        if holder is not None:
            what = "run_id" if holder == run.run_id else f"logical_date {iso(run.logical_date or run.run_after)}"
            raise DateTakenError(
                f"DAG {self.spec.dag_id!r}: {what} is taken by run {holder!r}. Clear that run, or choose another"
            )
        tracked = TrackedRun(run=run, queued_at=now)
        self.runs[run.key] = tracked
        if run.run_type is not RunType.SCHEDULED:
            self._keep_date(run)
        self.note(now, DecisionKind.CREATED, run.run_id, reason)
        return tracked

    def _with_free_id(self, run: RunIdentity) -> RunIdentity:
        """*run* with a number behind the id that it was given here, if two were triggered for one instant."""
        n, wanted = 1, run
        while run.logical_date is None and self.holder(wanted) is not None:
            n += 1
            wanted = run.model_copy(update={"run_id": f"{run.run_id}_{n}"})
        return wanted

    def startable(self, now: datetime) -> list[TrackedRun]:
        """The queued runs that may start at *now*: oldest logical date first, those of backfills last.

        A backfill's runs are held back where they are created, by the backfill's own limit.
        """
        if self.is_paused:
            return []
        backfill = RunType.BACKFILL
        running = sum(t.state is RunState.RUNNING and t.run.run_type is not backfill for t in self.runs.values())
        waiting = sorted(
            (t for t in self.runs.values() if t.state is RunState.QUEUED and self.not_before(t.run) <= now),
            key=lambda t: (t.run.logical_date or t.run.run_after, t.queued_at, t.run.run_id),
        )
        first = [t for t in waiting if t.run.run_type is not backfill]
        return first[: max(0, self.spec.max_active_runs - running)] + [t for t in waiting if t.run.run_type is backfill]

    def not_before(self, run: RunIdentity) -> datetime:
        """When *run* may start at the earliest. Data from the future is waited for, unless the DAG says otherwise."""
        date = run.logical_date
        at_once = self.spec.allow_trigger_in_future and self.spec.schedule.kind == "null"
        return run.run_after if date is None or at_once else max(run.run_after, date)

    def start(self, tracked: TrackedRun, now: datetime) -> None:
        tracked.state = RunState.RUNNING
        tracked.started_at = now
        before = self.past_of(tracked)
        tracked.previous = before.run_id if before is not None else None
        self.note(now, DecisionKind.STARTED, tracked.run.run_id, "a slot is free")

    def finish(self, report: RunReport) -> bool:
        """Takes a run off the list and into the ledger. False if it was not on the list (told twice)."""
        tracked = self.runs.pop(report.key, None)
        if tracked is None:
            return False
        self.ledger = [record for record in self.ledger if record.run_id != tracked.run.run_id]
        self.ledger.append(
            RunRecord(
                run_id=tracked.run.run_id,
                run_type=tracked.run.run_type,
                state=report.state,
                logical_date=tracked.run.logical_date,
                run_after=tracked.run.run_after,
                queued_at=tracked.queued_at,
                started_at=tracked.started_at,
                ended_at=report.ended_at,
                reason=report.reason,
                past={**self._unknown_past(), **tracked.past, **report.past},
            )
        )
        del self.ledger[:-LEDGER_LENGTH]
        self.note(report.ended_at, DecisionKind.FINISHED, tracked.run.run_id, f"{report.state}: {report.reason}")
        backfill = self.backfill(tracked.backfill_id)
        if backfill is not None:
            backfill.ended(report.state)
            self.close_backfills(report.ended_at)
        self._pause_after_failures(report.ended_at)
        return True

    def _unknown_past(self) -> dict[str, TaskState]:
        """What is known of a run that has told nothing: where the next run looks, nothing has ended well."""
        return dict.fromkeys(sorted(remembered(self.spec)), TaskState.NONE)

    def _pause_after_failures(self, now: datetime) -> None:
        """max_consecutive_failed_dag_runs: the last runs by run_after, of any type, have all failed."""
        most = self.spec.max_consecutive_failed_dag_runs
        last = sorted(self.ledger, key=lambda record: record.run_after)[-most:] if most else []
        if most and len(last) == most and all(record.state is RunState.FAILED for record in last):
            self.pause(True, now, f"the last {most} runs have failed (max_consecutive_failed_dag_runs)")

    def revise(self, run: RunIdentity, revision: Revision, now: datetime) -> None:
        """Has a run that has ended run again, changed. It keeps its run_id and its date."""
        self.ledger = [record for record in self.ledger if record.run_id != run.run_id]
        self.runs[run.key] = TrackedRun(run=run, queued_at=now, again=True, revision=revision)
        self.note(now, DecisionKind.REVISED, run.run_id, "it runs again, on request")

    # What runs have to know of each other

    def past_of(self, tracked: TrackedRun) -> Past | None:
        """The run before, if tasks depend on it: what is known of it now."""
        unknown = self._unknown_past()
        if not unknown or tracked.ignores_past:
            return None
        known: list[RunIdentity | RunRecord] = [other.run for other in self.runs.values()]
        before = run_before(tracked.run, [*known, *self.ledger], catchup=self.spec.catchup)
        if before is None:
            return None
        states = before.past if isinstance(before, RunRecord) else self.runs[before.key].past
        if isinstance(before, RunRecord) and not states:  # it ran when no task was looked back at
            return Past(run_id=before.run_id)
        return Past(run_id=before.run_id, states={**unknown, **states})

    def tasks_ended(self, ended: TasksEnded) -> list[TrackedRun]:
        """Takes note of how tasks of a run have ended, and returns the runs that have to hear of it."""
        tracked = self.runs.get(ended.key)
        if tracked is None:
            return []
        tracked.past = ended.states
        return self.after(tracked.run.run_id)

    def after(self, before: str) -> list[TrackedRun]:
        """The runs under way that look back at the run *before*."""
        return [t for t in self.runs.values() if t.previous == before and t.state is RunState.RUNNING]

    def news_for(self, tracked: TrackedRun) -> DagNews:
        """What a run under way has to hear."""
        self.news += 1
        past = self.past_of(tracked)
        tracked.previous = past.run_id if past is not None else None
        return DagNews(number=self.news, is_paused=self.is_paused, past=past)

    # Backfills

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
            created_at=now,
            total=batch.total,
        )
        made.take(batch)
        self.backfills.append(made)
        closed = [backfill for backfill in self.backfills if not backfill.open]
        for backfill in closed[: max(0, len(self.backfills) - BACKFILLS_KEPT)]:
            self.backfills.remove(backfill)
        self.note(now, DecisionKind.BACKFILL, made.backfill_id, f"{made.total} runs were asked for")
        return made

    def create_backfill_runs(self, now: datetime) -> int:
        """Creates the runs that open backfills have room for; how many dates were dealt with."""
        dealt_with = 0
        for backfill in self.backfills:
            while backfill.room and backfill.infos and not self.is_paused:
                info, *rest = backfill.infos
                backfill.infos = tuple(rest)
                self._create_for(backfill, info, now)
                dealt_with += 1
        self.close_backfills(now)
        return dealt_with

    def _create_for(self, backfill: Backfill, info: DagRunInfo, now: datetime) -> None:
        run = backfill_run(self.spec.dag_id, info, backfill.request.conf)
        done = next((record for record in self.ledger if record.logical_date == run.logical_date), None)
        if run.key in self.runs or (done is None and run.key in self.dates):
            holder = self.holder(run)
            self.skip_in_backfill(backfill, f"{holder} is in flight or holds the date", run, now)
        elif done is not None and not backfill.request.reprocess_behavior.again(done.state):
            self.skip_in_backfill(backfill, f"{done.run_id} exists already and ended in {done.state}", run, now)
        else:
            kept = run if done is None else run.model_copy(update={"run_id": done.run_id})
            self.runs[run.key] = TrackedRun(
                run=kept,
                queued_at=now,
                backfill_id=backfill.backfill_id,
                again=done is not None,
                ignores_past=backfill.created == 0,
            )
            backfill.created += 1
            self._mark_ahead(kept)
            self.note(now, DecisionKind.CREATED, kept.run_id, f"{backfill.backfill_id} has room for it")

    def skip_in_backfill(self, backfill: Backfill, reason: str, run: RunIdentity, now: datetime) -> None:
        backfill.skipped += 1
        self.note(now, DecisionKind.SKIPPED, f"{backfill.backfill_id} {iso(run.logical_date or now)}", reason)

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
            self._keep_date(run)
        else:
            self.last_automated_interval = interval
            self.ticks, self.ticks_ended = (), False

    def _keep_date(self, run: RunIdentity) -> None:
        self.dates[run.key] = run.run_id
        while len(self.dates) > DATES_KEPT:
            self.dates.pop(next(iter(self.dates)))

    def close_backfills(self, now: datetime) -> None:
        for backfill in self.backfills:
            if backfill.close_if_done(now):
                progress = backfill.progress()
                told = f"{progress.succeeded} succeeded, {progress.failed} failed, {progress.skipped} skipped"
                self.note(now, DecisionKind.BACKFILL, backfill.backfill_id, f"{progress.state}: {told}")

    @property
    def unwatched(self) -> list[TrackedRun]:
        """Running runs whose end might be missed: started by an earlier execution of the workflow, or adopted."""
        return [t for t in self.runs.values() if t.state is RunState.RUNNING and not t.watched]

    # The DAG itself

    def register(self, spec: DagSpec, now: datetime) -> bool:
        """Puts *spec* in the place of the present one, at once. False if nothing changed.

        Runs that exist keep the version they were made with. The next run is the first interval
        of the new schedule that begins at or after the end of the last one.
        """
        if spec.version == self.spec.version and self.broken is None:
            return False
        if self.last_automated_interval is None and _later(spec.start_date, self.spec.start_date):
            self.start_date_moves += 1
        if spec.schedule != self.spec.schedule and self.last_automated_interval is not None:
            self.resume_at = self.last_automated_interval.end
        self.spec = spec
        self.replan()
        self.note(now, DecisionKind.REGISTERED, spec.version, "a new version was registered")
        return True

    def replan(self) -> None:
        """Forgets what was worked out ahead."""
        self.ticks, self.ticks_ended, self.broken = (), False, None

    def pause(self, paused: bool, now: datetime, reason: str = "on request") -> bool:
        """Pauses or unpauses. False if nothing changed."""
        if self.is_paused == paused:
            return False
        self.is_paused = paused
        kind = DecisionKind.PAUSED if paused else DecisionKind.UNPAUSED
        self.note(now, kind, self.spec.dag_id, reason)
        return True

    def refuse(self, about: str, reason: str, now: datetime) -> None:
        """Remembers a request that could not be followed, where nobody waits for the answer."""
        self.note(now, DecisionKind.REFUSED, about, reason)

    def break_down(self, reason: str, now: datetime) -> None:
        """Stops making runs until the DAG is registered again: something raised that should not have."""
        self.broken = reason
        self.note(now, DecisionKind.BROKEN, self.spec.dag_id, reason)

    def note(self, at: datetime, kind: DecisionKind, about: str, reason: str) -> None:
        self.decisions.append(MadeDecision(at=at, kind=kind, about=about, reason=reason))
        del self.decisions[:-DECISIONS_KEPT]

    def next_wake(self, now: datetime) -> datetime | None:
        """When something may have to be done next, if nothing happens before; None: only when told."""
        starts = [self.not_before(t.run) for t in self.runs.values() if t.state is RunState.QUEUED]
        times = [start for start in starts if start > now]
        if self.ticks and not self.is_paused and self.broken is None and self.room:
            times.append(self.ticks[0].run_after)
        return min(times, default=None) if not self.is_paused else None


def _later(new: datetime | None, old: datetime | None) -> bool:
    return new is not None and old is not None and new > old
