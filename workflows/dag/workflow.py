"""One DAG for as long as it exists: knows when its next run is due, and is the only one to create runs.

Its state and all its decisions are `model.dag.state`; this waits, asks, starts and is told.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from ...activities.names import INVALID_INPUT, calls_queue
from ...activities.runs import Revised, revise_run
from ...activities.timetables import TimetableActivities
from ...model.asset.gathering import Gathered, Unqueue
from ...model.asset.state import Delivery
from ...model.dag.assets import ties_need_bundle
from ...model.dag.assignment import Assignment
from ...model.dag.backfill_request import BackfillRequest
from ...model.dag.backfills import Backfill, BackfillPlan, BackfillProgress, check_backfill, check_batch
from ...model.dag.explaining import Explanation, explain_dag
from ...model.dag.hand_over import HandOver
from ...model.dag.inputs import check_workflow_id, read_file_state, read_report, read_start, read_update
from ...model.dag.manual_runs import ConfChange, TriggerQuestion, TriggersQuestion
from ...model.dag.previews import Preview, preview, upcoming
from ...model.dag.records import DecisionKind, TrackedRun
from ...model.dag.state import MAX_RUNNING, DagState
from ...model.dag.ticks import Ticks, TimetableQuery
from ...model.dag.views import Change, DagView, QueuedRun, Registration, dag_row, dag_view, queued_run, run_views
from ...model.errors import InvalidInputError
from ...model.interfaces.asset import AssetInterface
from ...model.interfaces.dag import DagInterface
from ...model.run.changes import cleared, marked, marked_while_queued, whole_tasks, without_tasks
from ...model.run.identity import RunIdentity, TriggeredBy, run_key, run_workflow_id
from ...model.run.messages import TasksEnded
from ...model.run.revisions import ClearRequest, MarkRequest, ReviseQuestion, Revision
from ...model.run.views import RunView
from ...model.sizes import CONFS_LIMIT, check_conf_size, check_triggers_size
from ...model.spec.dag import DagSpec
from ...model.spec.timetables import waited_for
from ...model.states import RunState
from ..alarm import Alarm
from ..asset_messages import tell_asset
from ..calls import INFRASTRUCTURE, ask, cause_of, refusing
from ..continuing import ContinueSuggestion
from ..memo_view import MemoView, memo_with_view
from .backfill_counting import BackfillCounting
from .child_runs import ChildRuns

HOLD = timedelta(seconds=3)
"""How long no run is started, once a history is long, so that those under way may end before it goes on as new."""
REVISE_TIMEOUT = timedelta(minutes=2)
SETTLING_TIMEOUT = timedelta(seconds=5)
TIE_AGAIN = timedelta(minutes=10)
"""How often an asset hears again of a DAG that waits for it."""
ASK_AGAIN_FIRST, ASK_AGAIN_LAST = timedelta(minutes=1), timedelta(hours=1)
"""After how long a timetable is asked again that has raised."""

MAX_RUNS_PER_REQUEST = 100
"""Runs in one request: their answers come in one activity, and each may have a large conf."""


@workflow.defn(name=DagInterface.workflow, sandboxed=False)
class DagWorkflow:
    """One DAG. Its input is the DAG as JSON; starting the workflow is registering the DAG."""

    @workflow.init
    def __init__(self, *start: Any) -> None:
        # Before any handler runs, so that none finds a half-made object; bad input ends the start at once.
        with refusing():
            self.state: DagState = read_start(start, workflow.now())
            check_workflow_id(workflow.info().workflow_id, self.state.spec.dag_id)
        self.state.expect_assets(workflow.now())
        self._alarm = Alarm()
        self._runs = ChildRuns(self.state, self._alarm, self._look_up_if_held)
        self._tying: set[asyncio.Task[None]] = set()
        self._counting = BackfillCounting(self.state, self._alarm, lambda: self._hold_until is None)
        self._hold_until: datetime | None = None
        self._memo = MemoView()
        self._suggestion = ContinueSuggestion()
        self._ask_again_at: datetime | None = None
        self._pause = ASK_AGAIN_FIRST
        self._tie_again_at: datetime | None = None
        self._was_reset = False

    def _reset(self, _: int) -> None:
        """Take note that an operator has reset the workflow: only then does Temporal give it another seed."""
        if workflow.patched("tells-all-after-reset"):
            self._was_reset = True
            self._alarm.fire()

    @workflow.run
    async def run(self, *_: Any) -> None:
        """Creates each run when it is due, for ever."""
        workflow.register_random_seed_callback(self._reset)  # not in __init__: a replay makes the object earlier
        if workflow.info().continued_run_id is None and workflow.patched("numbers-by-time"):
            self.state.number_by_time(workflow.now())
        while True:
            try:
                await self._step()
            except Exception as error:
                if is_cancelled_exception(error) and workflow.patched("cancels-while-asking"):
                    raise
                # Raised on, the server would retry this task for ever: the DAG would hang, unseen.
                self.state.break_down(f"{type(error).__name__}: {error}", workflow.now())
            self._ask_broken_later()
            if self._ripe():
                break
            row = dag_row(self.state)
            # What they are made of is news.
            known_by = row.model_copy(update={"is_cut": False, "due_at": None, "knows_due": False})
            self._memo.show(row, known_by=known_by, as_before=known_by.model_copy(update={"newest_run": None}))
            await self._alarm.until(self._next_wake())
        await workflow.wait_condition(
            lambda: (
                workflow.all_handlers_finished()
                and self._runs.all_sent
                and not self._counting.under_way
                and not self._tying
            )
        )
        self.state.executions += 1
        workflow.continue_as_new(args=[{"state": self.state.model_dump(mode="json")}], memo=memo_with_view())

    async def _step(self) -> None:
        """Everything that can be done now."""
        if self._was_reset:
            self._was_reset = False
            self.state.number_by_time(workflow.now())
            self._runs.tell_all()
        self._ask_broken_again()
        self._tie_again()
        self._tell_assets()
        while self.state.triggers:
            await self._create_triggered(self.state.triggers.pop(0))
        await self._runs.reconcile()
        while True:
            question = self.state.question(workflow.now())
            if question is not None:
                await self._ask(question)
            ahead = self.state.ticks
            self.state.create_by_assets(workflow.now())
            self.state.create_due(workflow.now())
            dealt_with = await self._create_for_backfills()
            looked_at = workflow.now()
            await self._start_queued()
            done = self.state.ticks == ahead and not dealt_with and not self.state.can_still_create(workflow.now())
            # A catch-up has no end of its own that a history could wait for.
            if (done and not self._came_due(looked_at)) or self._ripe():
                return

    def _tell_assets(self) -> None:
        """Tells assets what this version of the DAG has to do with them."""
        if ties_need_bundle(self.state.spec):
            workflow.deprecate_patch("ties-of-bundles")
        for workflow_id, tie in self.state.ties_to_tell().items():
            task = asyncio.create_task(tell_asset(workflow_id, AssetInterface.tie(tie), tie.asset))
            self._tying.add(task)
            task.add_done_callback(self._tying.discard)

    def _tie_again(self) -> None:
        """Have assets told again now and then: one that was ended, and began anew, knows nobody."""
        if waited_for(self.state.spec.schedule) is None:
            self._tie_again_at = None
            return
        workflow.deprecate_patch("ties-again")
        if self._tie_again_at is None:
            self._tie_again_at = workflow.now() + TIE_AGAIN
        elif workflow.now() >= self._tie_again_at:
            self._tie_again_at = workflow.now() + TIE_AGAIN
            self.state.resend_ties()

    def _ask_broken_again(self) -> None:
        """Asks a timetable again that has raised, less and less often: its code, or what it reads, may be mended."""
        if self.state.broken is None or not self.state.is_broken_by_timetable:
            self._ask_again_at, self._pause = None, ASK_AGAIN_FIRST
            return
        if self._ask_again_at is None:
            self._ask_again_at = workflow.now() + self._pause
        elif workflow.now() >= self._ask_again_at:
            self._ask_again_at, self._pause = None, min(2 * self._pause, ASK_AGAIN_LAST)
            self.state.replan()

    def _ask_broken_later(self) -> None:
        """Sets when a timetable is asked again that has raised in this step: nothing else may wake the DAG for that."""
        broken = self.state.broken is not None and self.state.is_broken_by_timetable
        if broken and self._ask_again_at is None and workflow.patched("asks-until-a-timetable-answers"):
            self._ask_again_at = workflow.now() + self._pause

    def _ripe(self) -> bool:
        """Whether to go on as new: when no run is under way, or after holding runs back for a while in vain.

        Under way, a run that ends in that moment has the server refuse to go on as new, and the whole
        history is replayed to try again; and what is told of a run's end is lost with its handle.
        """
        if not self._suggestion.is_made():
            return False
        self._hold_until = self._hold_until or workflow.now() + HOLD
        return self._runs.quiet or workflow.now() >= self._hold_until

    def _look_up_if_held(self) -> None:
        if self._hold_until is not None:
            self._alarm.fire()

    async def _create_for_backfills(self) -> int:
        """Creates what backfills have room for; how many dates were dealt with."""
        if self.state.held_up:
            return 0
        for backfill in self.state.backfills:
            question = backfill.question()
            if question is not None:
                answers = TimetableActivities.ask_backfill_part if question.placed else TimetableActivities.ask_backfill
                backfill.take(await ask(answers, question))
        self._counting.go_on()
        return self.state.create_backfill_runs(workflow.now())

    async def _ask(self, question: TimetableQuery) -> None:
        version = self.state.spec.version
        answer = await ask(TimetableActivities.ask_timetable, question)
        if version == self.state.spec.version and question.last == self.state.last_automated_interval:
            # Else the DAG was registered anew meanwhile, and this answers an old question.
            self.state.take(answer, question.now)

    def _next_wake(self) -> datetime | None:
        if self._hold_until is not None:
            return self._hold_until
        now = workflow.now()
        times = (
            self.state.next_wake(now),
            self._runs.next_look(now),
            self._memo.held_back_until,
            self._ask_again_at,
            self._tie_again_at,
        )
        return min((time for time in times if time is not None), default=None)

    # Starting runs

    async def _start_queued(self) -> None:
        if self._hold_until is not None:
            return
        room = max(0, MAX_RUNNING - self.state.running)
        startable = self.state.startable(workflow.now())[:room]
        for tracked in startable:
            self.state.start(tracked, workflow.now())
        if startable:
            await asyncio.gather(*(self._runs.start(tracked) for tracked in startable))

    def _came_due(self, since: datetime) -> bool:
        """Whether a run has come due while others were started: who looks for the next wake does not see it."""
        came_due = self._hold_until is None and self.state.came_due(since, workflow.now())
        return came_due and workflow.patched("starts-what-came-due-meanwhile")

    # Manual runs

    async def _create_triggered(self, request: Any) -> None:
        """Follows a trigger that nobody waits for: what is wrong with it is kept for `describe` and `explain`."""
        try:
            await self._trigger(request, TriggeredBy.SIGNAL)
        except InvalidInputError as error:
            self.state.refuse("trigger", str(error), workflow.now())

    async def _trigger(self, request: Any, by: TriggeredBy) -> RunIdentity:
        now = workflow.now()
        requested = await self._ask_trigger(request, by, now)
        return self._create(requested, now)

    def _create(self, requested: RunIdentity, now: datetime) -> RunIdentity:
        self._check_confs(requested)
        made = self.state.create(requested, now, f"triggered by {requested.triggered_by}")
        self._alarm.fire()
        return made.run

    async def _ask_trigger(
        self, request: Any, by: TriggeredBy, now: datetime, *, about_conf: bool = False
    ) -> RunIdentity:
        """The run that *request* asks for. Raises InvalidInputError."""
        self._check_triggerable()
        check_triggers_size([request])
        request = _triggered(request, by)
        question = TriggerQuestion(spec=self.state.spec, request=request, now=now, about_conf=about_conf)
        return (await ask(TimetableActivities.ask_trigger, question)).made()

    def _check_triggerable(self) -> None:
        if self.state.held_up is not None and not self.state.is_paused:
            raise InvalidInputError(f"DAG {self.state.spec.dag_id!r} cannot be triggered: {self.state.held_up}")

    def _check_confs(self, *runs: RunIdentity, instead_of: RunIdentity | None = None) -> None:
        size = self.state.size_of_confs(*runs, without=instead_of) if any(run.conf for run in runs) else 0
        if size > CONFS_LIMIT:
            raise InvalidInputError(
                f"conf: with it, the {len(self.state.runs) + len(runs)} queued and running runs of DAG "
                f"{self.state.spec.dag_id!r} have {size:,} bytes of conf, and may have {CONFS_LIMIT:,}. "
                "Wait until some have ended, or keep the data elsewhere"
            )

    # Messages

    @workflow.signal
    def pause(self) -> None:
        """Creates and starts no more runs; those under way start no more tasks, tasks that run go on."""
        if self.state.pause(True, workflow.now()):
            self._runs.tell_all()
        self._alarm.fire()

    @workflow.signal
    def unpause(self) -> None:
        """Creates runs again, as `catchup` says."""
        if self.state.pause(False, workflow.now()):
            self._runs.tell_all()
        self._alarm.fire()

    @workflow.update
    async def take_over(self, handed: HandOver) -> bool:
        """Goes on after the last run that another scheduler has made. False if it did already."""
        with refusing():
            changed = self.state.take_over(handed, workflow.now())
        self._alarm.fire()
        return changed

    @workflow.update
    def assign(self, assignment: Assignment) -> bool:
        """Has one bundle alone, or none, register the DAG from now on. False if it was so already."""
        return self.state.assign(assignment, workflow.now())

    @workflow.signal
    def file_state(self, file: Any) -> None:
        """The DAG's file is broken, mended, gone or back; told by its bundle. Takes a `DagFileState`."""
        try:
            self.state.take_file(read_file_state(file), workflow.now())
        except InvalidInputError as error:
            self.state.refuse("file_state", str(error), workflow.now())
        self._alarm.fire()

    @workflow.signal
    def trigger(self, *request: Any) -> None:
        """Asks for a manual run; nobody waits for the answer. Takes a `TriggerRequest`, or nothing."""
        self.state.triggers.append(request[0] if request else None)
        self._alarm.fire()

    @workflow.query
    def gathered(self) -> list[Gathered]:
        """The assets that are there for its next run, each since its first event."""
        return self.state.gathering.rows if self.state.gathering is not None else []

    @workflow.update
    def unqueue(self, request: Unqueue) -> int:
        """Has assets count as not there for its next run (Airflow: deletes queued events). Returns how many did."""
        gathering = self.state.gathering
        if gathering is None:
            return 0
        keys = [row.key for row in gathering.rows if request.name in (None, row.name)]
        return sum(gathering.unqueue(key, request.before) for key in keys)

    @workflow.signal
    def asset_events(self, delivery: Delivery) -> None:
        """An asset that the DAG waits for has been updated."""
        if delivery.history:
            if self.state.gathering is not None:
                self.state.gathering.learn(delivery.events)
            return
        for event in delivery.events:
            self.state.hear_of_asset(event, workflow.now())
        self._alarm.fire()

    @workflow.signal
    def run_finished(self, report: Any) -> None:
        """A run tells that it has ended."""
        try:
            self._runs.finish(read_report(report))
        except InvalidInputError as error:
            self.state.refuse("run_finished", str(error), workflow.now())

    @workflow.signal
    def tasks_ended(self, ended: TasksEnded) -> None:
        """A run tells of tasks that the next run looks back at."""
        affected = self.state.tasks_ended(ended)
        if ended.is_delta:
            self._runs.tell_changes(affected, ended.states)
        else:
            self._runs.tell(affected)

    @workflow.update
    async def revise_run(self, question: ReviseQuestion) -> list[str]:
        """Clears or marks tasks of a run, or marks the run. One that has ended runs again, under its run_id.

        Returns the instances of tasks that are changed.
        """
        while True:
            if (queued := self._queued(question.workflow_id)) is not None:
                return self._revise_queued(queued, question)
            revised = await self._ask_to_revise(question)
            if revised.run is None or revised.execution is None:
                return list(revised.instances)
            key = revised.run.key
            if key not in self.state.runs:
                break
            # Temporal knows of its end before we do, or somebody else has it run again: asked anew, that is seen.
            with suppress(asyncio.TimeoutError):
                await workflow.wait_condition(partial(self._is_over, key), timeout=SETTLING_TIMEOUT)
        if not revised.instances and question.mark_run is None:
            return []
        change = question.model_dump(include={"clear", "mark", "mark_run"})
        revision = Revision(execution=revised.execution, **change)
        keeps_times = revised.keeps_times
        if keeps_times or revision.mark_run is not None:
            keeps_times = True
            workflow.deprecate_patch("run-marks-keep-times")
        self.state.revise(revised.run, revision, workflow.now(), keeps_times=keeps_times)
        if revision.mark_run is None:
            self._runs.tell_of_revision(self.state.runs[key], revised.instances)
        self._alarm.fire()
        return list(revised.instances)

    def _is_over(self, key: str) -> bool:
        return key not in self.state.runs

    def _queued(self, workflow_id: str) -> TrackedRun | None:
        return next((t for t in self.state.queued if t.run.workflow_id == workflow_id), None)

    def _revise_queued(self, queued: TrackedRun, question: ReviseQuestion) -> list[str]:
        """A run that has not begun can be ended by a mark; there is nothing in it to clear."""
        if queued.revision is not None:
            message = f"run {queued.run.run_id!r} is still queued: it has nothing to change yet"
            raise ApplicationError(message, type=INVALID_INPUT, non_retryable=True)
        if question.mark is not None:
            return self._mark_in_queued(queued, question.mark)
        if question.clear is not None and queued.marks:
            return self._clear_in_queued(queued, question.clear)
        if question.mark_run is not None:
            end = RunState(question.mark_run.state)
            report = self.state.end_of_queued(question.workflow_id, end, workflow.now())
            if report is not None:
                self._runs.finish(report)
        return []

    def _mark_in_queued(self, queued: TrackedRun, mark: MarkRequest) -> list[str]:
        """Keeps what a person says of tasks of a run that has not begun: it follows that when it begins."""
        before = marked_while_queued(queued.run, self.state.spec, queued.marks)
        with refusing():
            change = marked(before, mark)
            tasks = whole_tasks(before, change.states)
        # A task is in one of them: what a person says again and again does not grow.
        queued.marks = [*without_tasks(queued.marks, tasks), mark.of_tasks(tasks)]
        self.state.note(workflow.now(), DecisionKind.REVISED, queued.run.run_id, f"tasks are {change.reason}")
        return [key for key, state in change.states.items() if before.states[key] is not state]

    def _clear_in_queued(self, queued: TrackedRun, clear: ClearRequest) -> list[str]:
        """Forgets what a person has said of tasks of a run that has not begun: they run as all others."""
        before = marked_while_queued(queued.run, self.state.spec, queued.marks)
        with refusing():
            keys = [key for key in cleared(before, clear).states if before.states[key].finished]
            tasks = whole_tasks(before, keys)
        queued.marks = without_tasks(queued.marks, tasks)
        return keys

    @workflow.update
    def delete_run(self, run_id: str) -> None:
        """Forgets a run that is not under way, so that its date can be run again."""
        if any(t.run.run_id == run_id and t.state is RunState.RUNNING for t in self.state.runs.values()):
            message = f"run {run_id!r} is under way. Cancel it first"
            raise ApplicationError(message, type=INVALID_INPUT, non_retryable=True)
        if not self.state.delete_run(run_id):
            raise ApplicationError(f"there is no run {run_id!r}", type=INVALID_INPUT, non_retryable=True)
        self._alarm.fire()

    async def _ask_to_revise(self, question: ReviseQuestion) -> Revised:
        try:
            return await workflow.execute_activity(
                revise_run,
                question,
                task_queue=calls_queue(workflow.info().task_queue),
                start_to_close_timeout=REVISE_TIMEOUT,
                retry_policy=INFRASTRUCTURE,
            )
        except ActivityError as error:
            raise ApplicationError(cause_of(error), type=INVALID_INPUT, non_retryable=True) from None

    @workflow.update
    async def trigger_run(self, *request: Any) -> RunIdentity:
        """Creates a manual run and returns it; refused with the name of the run that holds the date."""
        with refusing():
            return await self._trigger(request[0] if request else {}, TriggeredBy.CLIENT)

    @workflow.update
    async def trigger_runs(self, requests: list[Any]) -> list[RunIdentity]:
        """Creates several manual runs, or none of them if one is refused. Takes `TriggerRequest`s."""
        now = workflow.now()
        with refusing():
            if len(requests) > MAX_RUNS_PER_REQUEST:
                raise InvalidInputError(
                    f"{len(requests)} runs are asked for. Ask for {MAX_RUNS_PER_REQUEST} at a time at most"
                )
            check_triggers_size(requests)
            self._check_triggerable()
            triggers = [_triggered(each, TriggeredBy.CLIENT) for each in requests]
            question = TriggersQuestion(spec=self.state.spec, requests=triggers, now=now)
            requested = [answer.made() for answer in await ask(TimetableActivities.ask_triggers, question)]
            self._check_confs(*requested)
            return [self._create(run, now) for run in self.state.all_free(requested)]

    @workflow.update
    async def set_conf(self, change: ConfChange) -> RunIdentity:
        """Gives a run another conf that has not begun. Raises InvalidInputError."""
        with refusing():
            tracked = self.state.changeable(change.run_id)
            await self._ask_trigger({"conf": change.conf}, TriggeredBy.CLIENT, workflow.now(), about_conf=True)
            if self.state.changeable(change.run_id) is not tracked:
                raise InvalidInputError(f"run {change.run_id!r} was deleted and made again meanwhile")
            changed = tracked.run.model_copy(update={"conf": change.conf})
            self._check_confs(changed, instead_of=tracked.run)
            tracked.run = changed
            return changed

    @workflow.update
    def register(self, *spec: Any) -> Registration:
        """Puts another version of the DAG in place, at once."""
        with refusing():
            read = self._read(spec)
            if self.state.is_replaced_by_hand(read):
                workflow.deprecate_patch("bundles-keep-their-dags")
            changed = self.state.register(read, workflow.now())
        self._alarm.fire()
        new = workflow.now() == self.state.registered_at  # this very message started the workflow
        change = Change.CREATED if new else Change.CHANGED if changed else Change.UNCHANGED
        return Registration(dag_id=self.state.spec.dag_id, version=self.state.spec.version, change=change)

    @register.validator
    def _check_register(self, *spec: Any) -> None:
        with refusing():
            self._read(spec)

    def _read(self, spec: Sequence[Any]) -> DagSpec:
        return read_update(spec, self.state.spec.dag_id)

    # Backfills

    @workflow.update
    async def create_backfill(self, request: BackfillRequest) -> BackfillPlan:
        """Takes a backfill on, or with `dry_run` tells what it would be. Refuses an empty one."""
        with refusing():
            check_backfill(self.state.spec, request)
            check_conf_size(request.conf, request.max_active_runs)
            if request.conf:
                workflow.deprecate_patch("checks-conf-of-backfills")
                await self._ask_trigger({"conf": request.conf}, TriggeredBy.CLIENT, workflow.now(), about_conf=True)
        now = workflow.now()
        spec = self.state.spec
        question = Backfill.first_question(spec, request, now)
        batch = await ask(TimetableActivities.ask_backfill_part, question)
        with refusing():
            check_batch(self.state.spec, request, batch)
        made = None if request.dry_run else self.state.add_backfill(spec, request, batch, now)
        self._alarm.fire()
        infos, total = batch.infos, batch.total
        if request.dry_run:
            infos = tuple(info for info in infos if self.state.would_create(request, spec.schedule, info))
            total -= len(batch.infos) - len(infos)
        return BackfillPlan(
            backfill_id=made.backfill_id if made is not None else None,
            total=total,
            infos=infos,
            counted=batch.counted_to is None,
        )

    @workflow.update
    def pause_backfill(self, backfill_id: str) -> BackfillProgress:
        """Creates no more runs of the backfill. Those under way go on."""
        return self._change_backfill(backfill_id, is_paused=True)

    @workflow.update
    def unpause_backfill(self, backfill_id: str) -> BackfillProgress:
        """Goes on with the backfill."""
        return self._change_backfill(backfill_id, is_paused=False)

    @workflow.update
    def cancel_backfill(self, backfill_id: str) -> BackfillProgress:
        """Ends the backfill once the runs under way have ended; no more are created."""
        return self._change_backfill(backfill_id, cancelled=True)

    def _change_backfill(self, backfill_id: str, **change: bool) -> BackfillProgress:
        backfill = self.state.backfill(backfill_id)
        if backfill is None or not backfill.open:
            known = ", ".join(b.backfill_id for b in self.state.backfills if b.open) or "none"
            message = f"backfill_id = {backfill_id!r}: no such unfinished backfill. Unfinished are: {known}"
            raise ApplicationError(message, type="InvalidInput", non_retryable=True)
        for name, value in change.items():
            setattr(backfill, name, value)
        self.state.close_backfills(workflow.now())
        self._alarm.fire()
        return backfill.progress(len(self.state.spec.tasks))

    # Questions

    @workflow.query
    def backfills(self) -> list[BackfillProgress]:
        """Every backfill that is kept, and how far it is."""
        return [backfill.progress(len(self.state.spec.tasks)) for backfill in self.state.backfills]

    @workflow.query
    def explain(self) -> Explanation:
        """Why the next run is due when it is or not at all, what is waited for, and what was decided last."""
        return explain_dag(self.state, workflow.now())

    @workflow.query
    def upcoming(self, limit: int) -> Ticks:
        """The next *limit* scheduled runs as things are."""
        return upcoming(self.state, workflow.now(), limit)

    @workflow.query
    def preview(self, *spec: Any) -> Preview:
        """What registering another version would do to the schedule."""
        return preview(self.state, self._read(spec), workflow.now())

    @workflow.query
    def describe(self) -> DagView:
        """The DAG: when it runs next and why, what it is doing, what it decided last."""
        return dag_view(self.state, workflow.now())

    @workflow.query
    def spec(self) -> DagSpec:
        """The version of the DAG that is in place."""
        return self.state.spec

    @workflow.query
    def queued_run(self, run_id: str) -> QueuedRun | None:
        """Which run that is and what it waits for, while it has not begun for the first time."""
        return queued_run(self.state, run_id, workflow.now())

    @workflow.query
    def runs(self) -> list[RunView]:
        """Queued, running and recent runs, newest first."""
        dag_id = self.state.spec.dag_id
        return run_views(self.state, lambda date, run_id: run_workflow_id(dag_id, run_key(date, run_id)))


def _triggered(request: Any, by: TriggeredBy) -> Any:
    """The request, with who has sent it if it does not say."""
    if not isinstance(request, dict):
        return request
    return {**request, "triggered_by": request.get("triggered_by") or by}
