"""One DAG over its whole life: its schedule, its runs, and what may happen next.

All that the `Dag` workflow knows is here, as plain data that travels through continue-as-new, and
so are its decisions: which runs are due, which may start, who holds a date. They read no clock
and ask nobody.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from ..base import iso
from ..bundle.data import DagFileState
from ..errors import InvalidInputError, OtherBundleError
from ..run.identity import RunIdentity, RunType, run_id, run_key, scheduled_run
from ..run.messages import RunReport
from ..run.revisions import Revision
from ..sizes import json_size
from ..spec.dag import DagSpec
from ..spec.timetables import DagRunInfo, TimeRestriction
from ..states import RunState, TaskState
from .assets import DagAssets
from .assignment import BY_HAND, Assignment
from .backfilling import DagBackfills
from .hand_over import HandOver
from .records import DateTakenError, DecisionKind, RunRecord, TrackedRun, short_past
from .ticks import Ticks, TimetableQuery, due, spread

LEDGER_LENGTH = 500
MAX_RUNNING = 1000
MAX_DELETED = 500
"""Runs of one DAG under way, whatever its limits are: Temporal takes 2,000 children of a workflow."""
TICKS_AHEAD = 2
TIMETABLE = "timetable: "
"""Before what a timetable has raised."""
TICKS_PLANNED = 20
TICKS_AHEAD_CATCHING_UP = 100


class DagState(DagAssets, DagBackfills):
    """A DAG's state. Only its workflow changes it, through the methods here and in the parts it is made of."""

    # The schedule

    def question(self, now: datetime) -> TimetableQuery | None:
        """What has to be asked of the timetable before anything can be decided at *now*; None if nothing."""
        if self.broken is not None or self.ticks_ended:
            return None if not self._late(now) else self.ask(now)
        if self.spec.schedule.answers_by_moment and (self.held_up or not self.room(now)):
            return None
        if len(self.ticks) < TICKS_AHEAD or self._late(now):
            return self.ask(now)
        return None

    def _late(self, now: datetime) -> bool:
        """Without catchup, whether a later run than the planned one has fallen due since the planning."""
        if self.spec.catchup or self.held_up or not self.room(now) or self.ticks_requested_at is None:
            return False
        due_now = due(self.ticks, now)
        return due_now >= 2 and due_now > due(self.ticks, self.ticks_requested_at)

    def ask(self, now: datetime) -> TimetableQuery:
        """What the timetable has to be asked to know the coming runs."""
        many = self.spec.catchup and (not self.ticks or due(self.ticks, now) == len(self.ticks))
        limit = TICKS_AHEAD_CATCHING_UP if many else TICKS_PLANNED
        return TimetableQuery(
            timetable=self.spec.schedule,
            restriction=self._restriction(),
            last=self.last_automated_interval,
            now=now,
            folder=self.spec.folder,
            bundle=self.spec.bundle,
            owns=self.spec.owns,
            limit=1 if self.spec.schedule.answers_by_moment else limit,
        )

    def _restriction(self) -> TimeRestriction:
        bounds = self.spec.restriction
        if self.resume_at is None:
            return bounds
        earliest = self.resume_at if bounds.earliest is None else max(bounds.earliest, self.resume_at)
        return bounds.model_copy(update={"earliest": earliest})

    def take(self, answer: Ticks, requested_at: datetime) -> None:
        """Keeps what the timetable answered at *requested_at*."""
        self.ticks = answer.infos
        self.ticks_ended = answer.ended
        self.ticks_requested_at = requested_at
        self.broken = f"{TIMETABLE}{answer.error}" if answer.error is not None else None
        if answer.infos and answer.infos[0].data_interval == self.last_automated_interval:
            self.ticks = ()
            self.broken = f"{TIMETABLE}it does not move on from {iso(answer.infos[0].logical_date)}. Mend the class"

    @property
    def next_info(self) -> DagRunInfo | None:
        """The next scheduled run; None if there is none, or none is known yet."""
        return self.ticks[0] if self.ticks else None

    @property
    def running(self) -> int:
        """How many runs are under way, backfills and all."""
        return sum(tracked.state is RunState.RUNNING for tracked in self.runs.values())

    def size_of_confs(self, *more: RunIdentity, without: RunIdentity | None = None) -> int:
        """Bytes of conf, as JSON, of all runs that are queued or running but *without*, and of *more*."""
        runs = [*(tracked.run for tracked in self.runs.values() if tracked.run is not without), *more]
        return sum(json_size(run.conf) for run in runs if run.conf)

    def room(self, now: datetime) -> int:
        """How many more runs max_active_runs lets in: queued and running ones count, backfills do not.

        A run that waits for a date in the future does not count before that.
        """
        return max(0, self.spec.max_active_runs - sum(self._takes_room(tracked, now) for tracked in self.runs.values()))

    def _takes_room(self, tracked: TrackedRun, now: datetime) -> bool:
        if tracked.run.run_type is RunType.BACKFILL:
            return False
        if tracked.state is RunState.RUNNING:
            return True
        return self.not_before(tracked.run) <= now

    def made_at(self, info: DagRunInfo) -> datetime:
        """When the run of *info* is made, if nothing stands in its way: later than it is due by the DAG's jitter."""
        return info.run_after + spread(self.spec.dag_id, info.run_after, self.spec.jitter)

    @property
    def due_at(self) -> datetime | None:
        """When the next scheduled run is made (UTC); None if there is none, or something stands in its way."""
        if self.held_up or self.broken is not None or not self.ticks:
            return None
        at = self.made_at(self.ticks[0])
        return at if self.room(at) else None

    def create_due(self, now: datetime) -> list[TrackedRun]:
        """Creates every scheduled run that is due and that the limit lets in, in order."""
        created: list[TrackedRun] = []
        while not self.held_up and self.broken is None and self.ticks and self.made_at(self.ticks[0]) <= now:
            if not self.room(now) or self._late(now):
                break
            info, *rest = self.ticks
            run = scheduled_run(self.spec.dag_id, self.spec.schedule, info)
            if info.run_ids or self.holder(run) == run.run_id:
                run = self.with_unique_run_id(run)
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

    def can_still_create(self, now: datetime) -> bool:
        """Whether the runs worked out ahead ran out while more of them may be due."""
        info = self.next_info
        return self.question(now) is not None and self.room(now) > 0 and (info is None or self.made_at(info) <= now)

    def create_by_assets(self, now: datetime) -> list[TrackedRun]:
        """Creates the runs that assets have made due."""
        made = self.due_by_assets(self.room(now), now)
        return [self.create(run, now, _by_assets(run)) for run in made]

    # Runs

    def create(self, run: RunIdentity, now: datetime, reason: str) -> TrackedRun:
        """Adds *run* to the queue. Raises DateTakenError if another run holds its date or its id.

        An id that was given to it here is changed where another date has it.
        """
        if _has_generated_run_id(run):
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
            self.keep_date(run)
        self.note(now, DecisionKind.CREATED, run.run_id, reason)
        return tracked

    def _with_free_id(self, run: RunIdentity) -> RunIdentity:
        """*run* with a number behind the id that it was given here, if two were triggered for one instant."""
        n, wanted = 1, run
        while self.holder(wanted) == wanted.run_id:
            n += 1
            wanted = run.model_copy(update={"run_id": f"{run.run_id}_{n}"})
        return wanted

    def startable(self, now: datetime) -> list[TrackedRun]:
        """The queued runs that may start at *now*: oldest logical date first, those of backfills last.

        A backfill's runs are held back where they are created, by the backfill's own limit. What a person changes in
        an ended run needs no slot: see `_at_once`.
        """
        first = [t for t in self.queued if self._at_once(t)]
        return first if self.held_up else [*first, *self._in_turn(now, first)]

    def _at_once(self, tracked: TrackedRun) -> bool:
        """Whether the run may start whatever the limit: it is only marked, or a run under way waits for it."""
        if tracked.revision is None:
            return False
        if tracked.revision.clear is None:
            return True
        return not self.held_up and bool(self.after(tracked.run.run_id))

    def _in_turn(self, now: datetime, others: Collection[TrackedRun]) -> list[TrackedRun]:
        backfill = RunType.BACKFILL
        running = sum(t.state is RunState.RUNNING and t.run.run_type is not backfill for t in self.runs.values())
        waiting = sorted(
            (t for t in self.queued if self.not_before(t.run) <= now and t not in others),
            key=lambda t: (t.run.logical_date or t.run.run_after, t.queued_at, t.run.run_id),
        )
        first = [t for t in waiting if t.run.run_type is not backfill]
        return first[: max(0, self.spec.max_active_runs - running)] + [t for t in waiting if t.run.run_type is backfill]

    @property
    def queued(self) -> list[TrackedRun]:
        return [t for t in self.runs.values() if t.state is RunState.QUEUED]

    def end_of_queued(self, workflow_id: str, end: RunState, now: datetime) -> RunReport | None:
        """How a run is to end that has not begun; None if there is no such run."""
        for tracked in self.queued:
            if tracked.run.workflow_id == workflow_id:
                past = {**dict.fromkeys(self.unknown_past(), TaskState.SKIPPED), **tracked.past}
                reason = f"marked {end}, while queued"
                return RunReport(key=tracked.run.key, state=end, ended_at=now, reason=reason, past=past)
        return None

    def changeable(self, run_id: str) -> TrackedRun:
        """The run of that id, if it has not begun. Raises InvalidInputError."""
        for tracked in self.queued:
            if tracked.run.run_id == run_id and not tracked.again:
                return tracked
        raise InvalidInputError(
            f"DAG {self.spec.dag_id!r} has no queued run {run_id!r}: the conf of a run is fixed once it has begun. "
            "Trigger another run with that conf"
        )

    def all_free(self, runs: Sequence[RunIdentity]) -> list[RunIdentity]:
        """*runs*, those without a run_id of their own told apart. Raises DateTakenError where one is taken."""
        found: list[RunIdentity] = []
        ids = {t.run.run_id for t in self.runs.values()} | {r.run_id for r in self.ledger} | {*self.dates.values()}
        dates: set[str] = set()
        for run in runs:
            n, own = 1, run
            while run.run_id == run_id(RunType.MANUAL, run.run_after) and own.run_id in ids:
                n += 1
                own = run.model_copy(update={"run_id": f"{run.run_id}_{n}"})
            holder = self.holder(own)
            if holder is not None or own.run_id in ids or own.key in dates:
                held = f"by run {holder!r}" if holder is not None else "twice in this request"
                raise DateTakenError(
                    f"DAG {self.spec.dag_id!r}: {run.key} is taken {held}. None of the {len(runs)} runs was created"
                )
            ids.add(own.run_id)
            dates.add(own.key)
            found.append(own)
        return found

    def delete_run(self, run_id: str) -> bool:
        """Forgets a run that is not under way: its date and its run_id are free. False if there is none."""
        known = [t.run.run_id for t in self.queued] + [record.run_id for record in self.ledger] + [*self.dates.values()]
        if run_id not in known:
            return False
        queued = [t for t in self.queued if t.run.run_id == run_id]
        for tracked in queued:
            del self.runs[tracked.run.key]
            if (backfill := self.backfill(tracked.backfill_id)) is not None:
                backfill.created -= 1
                backfill.skipped += 1
        keys = {run_key(record.logical_date, run_id) for record in self.ledger if record.run_id == run_id}
        keys |= {key for key, other in self.dates.items() if other == run_id}
        keys |= {tracked.run.key for tracked in queued if tracked.again}  # it has run: Temporal knows its workflow
        self.deleted = [*self.deleted, *sorted(keys.difference(self.deleted))][-MAX_DELETED:]
        self.ledger = [record for record in self.ledger if record.run_id != run_id]
        self.dates = {key: other for key, other in self.dates.items() if other != run_id}
        return True

    def may_run_again(self, tracked: TrackedRun) -> bool:
        """Whether a workflow of the run's id that has ended is no reason not to start it."""
        return tracked.again or tracked.run.key in self.deleted

    def not_before(self, run: RunIdentity) -> datetime:
        """When *run* may start at the earliest. Data from the future is waited for, unless the DAG says otherwise."""
        date = run.logical_date
        at_once = self.spec.allow_trigger_in_future and self.spec.schedule.kind == "null"
        return run.run_after if date is None or at_once else max(run.run_after, date)

    def came_due(self, since: datetime, now: datetime) -> bool:
        """Whether a queued run may start at *now*, as far as its date goes, that could not at *since*."""
        return any(since < self.not_before(tracked.run) <= now for tracked in self.queued)

    def start(self, tracked: TrackedRun, now: datetime) -> None:
        tracked.state = RunState.RUNNING
        tracked.started_at = tracked.started_at or now
        before = self.past_of(tracked)
        tracked.previous = before.run_id if before is not None else None
        self.note(now, DecisionKind.STARTED, tracked.run.run_id, "a slot is free")

    def finish(self, report: RunReport) -> bool:
        """Takes a run off the list and into the ledger. False if it was not on the list (told twice)."""
        tracked = self.runs.get(report.key)
        if tracked is None or _is_of_the_execution_before(report, tracked):
            return False
        del self.runs[report.key]
        if report.run is not None and report.run.run_id != tracked.run.run_id:
            tracked.run = tracked.run.called(report.run)
        self.ledger = [record for record in self.ledger if record.run_id != tracked.run.run_id]
        self.ledger.append(
            RunRecord(
                **tracked.run.shown,
                partition_date=tracked.run.partition_date,
                state=report.state,
                queued_at=tracked.queued_at,
                started_at=tracked.started_at,
                ended_at=report.ended_at,
                reason=report.reason,
                **short_past({**self.unknown_past(), **tracked.past, **report.past}),
            )
        )
        del self.ledger[:-LEDGER_LENGTH]
        self.note(report.ended_at, DecisionKind.FINISHED, tracked.run.run_id, f"{report.state}: {report.reason}")
        backfill = self.backfill(tracked.backfill_id)
        if backfill is not None:
            backfill.ended(report.state, report.progress)
        self.close_backfills(report.ended_at)
        if report.state is RunState.FAILED:
            self._pause_after_failures(report.ended_at)
        return True

    def _pause_after_failures(self, now: datetime) -> None:
        """max_consecutive_failed_dag_runs: the last runs by run_after, of any type, have all failed."""
        limit = self.spec.max_consecutive_failed_dag_runs
        last = sorted(self.ledger, key=lambda record: record.run_after)[-limit:] if limit else []
        if limit and len(last) == limit and all(record.state is RunState.FAILED for record in last):
            self.pause(True, now, f"the last {limit} runs have failed (max_consecutive_failed_dag_runs)")

    def revise(self, run: RunIdentity, revision: Revision, now: datetime, *, keeps_times: bool = False) -> None:
        """Has a run that has ended run again, changed. It keeps its run_id and its date.

        *keeps_times*: when it was queued and began also, as in Airflow where a person only says how it has ended.
        """
        known = next((record for record in self.ledger if record.run_id == run.run_id), None)
        before = known if keeps_times else None
        if known is not None:
            revision = revision.model_copy(update={"ended_as": known.state, "ended_reason": known.reason})
            if (backfill := self.backfill(known.backfill_id)) is not None:
                backfill.begins_again(known.state)
        self.runs[run.key] = TrackedRun(
            run=run,
            queued_at=before.queued_at if before is not None else now,
            started_at=before.started_at if before is not None else None,
            again=True,
            backfill_id=known.backfill_id if known is not None else None,
            revised_at=now if keeps_times else None,
            revision=revision,
            past=self.take_up(run.run_id),
        )
        self.note(now, DecisionKind.REVISED, run.run_id, "it runs again, on request")

    @property
    def unwatched(self) -> list[TrackedRun]:
        """Running runs whose end might be missed: started by an earlier execution of the workflow, or adopted."""
        return [t for t in self.runs.values() if t.state is RunState.RUNNING and not t.watched]

    # The DAG itself

    def register(self, spec: DagSpec, now: datetime) -> bool:
        """Puts *spec* in the place of the present one, at once. False if nothing changed.

        Runs that exist keep the version they were made with. The next run is the first interval
        of the new schedule that begins at or after the end of the last one.

        Raises OtherBundleError, or InvalidInputError, where the DAG is another's.
        """
        self._check_owner(spec)
        if self.assigned_to is not None and spec.source is not None and spec.source.bundle == self.assigned_to:
            self.assigned_to = None  # its source says so from now on
        self._ties_are_sent = False  # told again: an asset that was ended meanwhile knows nobody
        if self.file.is_stale and self.gathering is not None:
            self.gathering.forget_references()  # what it waits for is new, as in Airflow
            self.expect_assets(now)
        self.take_file(DagFileState(), now)  # it has just been read; what is wrong with it is told anew
        if self.broken is None and (spec.version == self.spec.version or same_but_for_its_start(spec, self.spec)):
            return False
        if self.last_automated_interval is None and _later(spec.start_date, self.spec.start_date):
            self.start_date_moves += 1
        if spec.schedule != self.spec.schedule and self.last_automated_interval is not None:
            self.resume_at = self.last_automated_interval.end
        self.count_version(spec, now)
        self.spec = spec
        self.expect_assets(now)
        self.replan()
        self.note(now, DecisionKind.REGISTERED, spec.version, "a new version was registered")
        return True

    def take_over(self, handed: HandOver, now: datetime) -> bool:
        """Goes on after the last run that another scheduler has made. False if it did already.

        Raises InvalidInputError where runs have been made here since.
        """
        if self.last_automated_interval == handed.last_interval:
            return False
        if self.last_automated_interval is not None:
            raise InvalidInputError(
                f"DAG {self.spec.dag_id!r} has made runs of its schedule here, the last for "
                f"{iso(self.last_automated_interval.start)}. Delete the DAG here first, if it is to begin anew"
            )
        self.last_automated_interval = handed.last_interval
        self.replan()
        reason = f"goes on after the run for {iso(handed.last_interval.start)}, the last that {handed.by} has made"
        self.note(now, DecisionKind.REGISTERED, self.spec.version, reason)
        return True

    def assign(self, assignment: Assignment, now: datetime) -> bool:
        """Have one bundle alone, or with None no bundle, register the DAG from now on. False if it was so already."""
        wanted = assignment.bundle or BY_HAND
        if self.assigned_to == wanted:
            return False
        self.assigned_to = wanted
        reason = (
            f"bundle {wanted!r} alone may register it" if wanted else "no bundle may register it: it is kept by hand"
        )
        self.note(now, DecisionKind.REGISTERED, self.spec.dag_id, reason)
        return True

    def is_replaced_by_hand(self, spec: DagSpec) -> bool:
        """Return whether *spec*, of no bundle, would take the place of a version that a bundle has."""
        source, offered = self.spec.source, spec.source
        mine = source is not None and source.bundle is not None and not self.file.is_stale
        return mine and self.assigned_to is None and (offered is None or offered.bundle is None)

    def _check_owner(self, spec: DagSpec) -> None:
        """Raises OtherBundleError where *spec* does not come from the bundle that has the DAG.

        A DAG that its bundle has in no file any more, or that no bundle has, is free.
        """
        source, offered = self.spec.source, spec.source
        owner = source.bundle if source is not None else None
        bundle = offered.bundle if offered is not None else None
        path = offered.path if offered is not None else "a document"
        if self.assigned_to is not None:
            if (bundle or BY_HAND) == self.assigned_to:
                return
            whose = f"bundle {self.assigned_to!r}" if self.assigned_to else "no bundle: it is registered by hand"
            raise InvalidInputError(
                f"dag_id {spec.dag_id!r} is assigned to {whose}. {path} cannot replace it. Rename it there, or say "
                f"whose it is: tidemill dags assign {spec.dag_id} " + (f"--bundle {bundle}" if bundle else "--by-hand")
            )
        if owner is None or owner == bundle or self.file.is_stale:
            return
        mine = f"dag_id {spec.dag_id!r} is defined by {source.path if source is not None else '?'} of bundle {owner!r}"
        if bundle is None and source is not None and source.path == path:
            raise OtherBundleError(f"{mine}, which keeps it registered: there is nothing to do by hand", owner)
        if bundle is None:
            raise OtherBundleError(
                f"{mine}, and would be replaced by {path}, which is in no bundle. Change the DAG in its bundle, or let "
                f"nobody but you register it: tidemill dags assign {spec.dag_id} --by-hand",
                owner,
            )
        raise OtherBundleError(
            f"{mine} and by {path} of bundle {bundle!r}. Rename or remove one of them, or say whose it is: "
            f"tidemill dags assign {spec.dag_id} --bundle {bundle}",
            owner,
        )

    @property
    def is_broken_by_timetable(self) -> bool:
        return self.broken is not None and self.broken.startswith(TIMETABLE)

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

    def take_file(self, file: DagFileState, now: datetime) -> None:
        """Takes note of how the DAG's file is, if it is its bundle that tells."""
        mine = self.spec.source.bundle if self.spec.source is not None else None
        if file.bundle is not None and mine is not None and file.bundle != mine:
            return
        before, self.file = self.held_up, file
        if before != self.held_up:
            kind = DecisionKind.UNPAUSED if self.held_up is None else DecisionKind.HELD_UP
            self.note(now, kind, self.spec.dag_id, self.held_up or "its file is in order")

    def refuse(self, about: str, reason: str, now: datetime) -> None:
        """Remembers a request that could not be followed, where nobody waits for the answer."""
        self.note(now, DecisionKind.REFUSED, about, reason)

    def break_down(self, reason: str, now: datetime) -> None:
        """Stops making runs until the DAG is registered again: something raised that should not have."""
        self.broken = reason
        self.note(now, DecisionKind.BROKEN, self.spec.dag_id, reason)

    def next_wake(self, now: datetime) -> datetime | None:
        """When something may have to be done next, if nothing happens before; None: only when told."""
        starts = [self.not_before(t.run) for t in self.queued]
        times = [start for start in starts if start > now]
        if self.ticks and not self.held_up and self.broken is None and self.room(now):
            times.append(self.made_at(self.ticks[0]))
        return min(times, default=None) if not self.held_up else None


def _has_generated_run_id(run: RunIdentity) -> bool:
    """Whether *run* is a manual one that was given its run_id, and not asked for by it."""
    return run.run_type is RunType.MANUAL and run.run_id == run_id(RunType.MANUAL, run.run_after)


def same_but_for_its_start(spec: DagSpec, other: DagSpec) -> bool:
    """Whether two specs of the same file differ in start dates alone: it works them out from the time of day."""
    if spec.source is None or other.source is None or spec.source != other.source:
        return False
    return _without_starts(spec) == _without_starts(other)


def _without_starts(spec: DagSpec) -> DagSpec:
    tasks = tuple(task.model_copy(update={"start_date": None}) for task in spec.tasks)
    return spec.model_copy(update={"start_date": None, "tasks": tasks})


def _later(new: datetime | None, old: datetime | None) -> bool:
    return new is not None and old is not None and new > old


def _by_assets(run: RunIdentity) -> str:
    events = run.asset_events
    names = ", ".join(dict.fromkeys(event.name for event in events))
    about = f"partition {run.partition_key}, " if run.partition_key is not None else ""
    return f"{about}{len(events)} events of {names}" if events else f"{about}the assets that it waits for are there"


def _is_of_the_execution_before(report: RunReport, tracked: TrackedRun) -> bool:
    """Whether *report* was on its way already when the run was taken on again."""
    if not tracked.again:
        return False
    if tracked.revised_at is None:  # release 0.2 knows no other time of a report than that of the end
        return report.ended_at < tracked.queued_at
    return (report.reported_at or report.ended_at) < tracked.revised_at
