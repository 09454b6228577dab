"""One DAG for as long as it exists: knows when its next run is due, and is the only one to create runs.

Its state and all its decisions are `model.dag_state`; this waits, asks, starts and is told.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    FailureError,
    WorkflowAlreadyStartedError,
)

from ..activities.names import INVALID_INPUT, control_queue
from ..activities.runs import Revised, ReviseQuestion, RunsQuestion, find_ended_runs, revise_run
from ..activities.timetables import ask_backfill, ask_timetable, ask_trigger
from ..model.backfills import (
    BackfillPlan,
    BackfillProgress,
    BackfillQuestion,
    BackfillRequest,
    check_backfill,
    check_batch,
)
from ..model.dag import DagSpec, with_default_pools
from ..model.dag_records import DateTakenError, TrackedRun
from ..model.dag_state import DagState
from ..model.errors import InvalidInputError
from ..model.explaining import Explanation, explain_dag
from ..model.inputs import check_workflow_id, read_file_state, read_report, read_start, read_update
from ..model.manual_runs import TriggerQuestion
from ..model.messages import RunReport, TasksEnded
from ..model.previews import Preview, preview, upcoming
from ..model.revisions import Revision
from ..model.run_state import DagRunState
from ..model.runs import RunIdentity, TriggeredBy, run_key, run_workflow_id
from ..model.states import RunState
from ..model.ticks import Ticks, TicksQuestion
from ..model.views import Change, DagView, Registration, RunView, dag_view, run_views
from .alarm import Alarm
from .calls import INFRASTRUCTURE, ask, look_up, refusing
from .dag_run import DagRunWorkflow

HOLD = timedelta(seconds=3)
"""How long no run is started, once a history is long, so that those under way may end before it goes on as new."""
CLOSING = timedelta(seconds=1)
REVISE_WITHIN = timedelta(minutes=2)
SETTLE_WITHIN = timedelta(seconds=5)
RECONCILE_FIRST = timedelta(seconds=2)
RECONCILE_LAST = timedelta(minutes=1)


@workflow.defn(name="Dag")
class DagWorkflow:
    """One DAG. Its input is the DAG as JSON; starting the workflow is registering the DAG."""

    @workflow.init
    def __init__(self, *start: Any) -> None:
        # Before any handler runs, so that none finds a half-made object; bad input ends the start at once.
        with refusing():
            self.state: DagState = read_start(start, workflow.now())
            check_workflow_id(workflow.info().workflow_id, self.state.spec.dag_id)
        for tracked in self.state.runs.values():
            tracked.watched = False  # handles of children do not carry over
        self._alarm = Alarm()
        self._followed: set[asyncio.Task[None]] = set()
        self._telling: set[asyncio.Task[None]] = set()
        self._hold_until: datetime | None = None
        self._reconcile_at: datetime | None = None
        self._reconcile_pause = RECONCILE_FIRST

    @workflow.run
    async def run(self, *_: Any) -> None:
        """Creates each run when it is due, for ever."""
        while True:
            try:
                await self._step()
            except (ActivityError, ApplicationError, ValueError, LookupError, TypeError, ArithmeticError) as error:
                # Raised on, the server would retry this task for ever: the DAG would hang, unseen.
                self.state.break_down(f"{type(error).__name__}: {error}", workflow.now())
            if self._ripe():
                break
            await self._alarm.until(self._next_wake())
        await workflow.wait_condition(lambda: workflow.all_handlers_finished() and not self._telling)
        self.state.executions += 1
        workflow.continue_as_new(args=[{"state": self.state.model_dump(mode="json")}])

    async def _step(self) -> None:
        """Everything that can be done now."""
        while self.state.triggers:
            await self._create_triggered(self.state.triggers.pop(0))
        await self._reconcile()
        while True:
            question = self.state.question(workflow.now())
            if question is not None:
                await self._ask(question)
            ahead = self.state.ticks
            self.state.create_due(workflow.now())
            dealt_with = await self._create_for_backfills()
            await self._start_queued()
            done = self.state.ticks == ahead and not dealt_with and not self._can_still_create()
            # A catch-up has no end of its own that a history could wait for.
            if done or self._ripe():
                return

    def _ripe(self) -> bool:
        """Whether to go on as new: when no run is under way, or after holding runs back for a while in vain.

        Under way, a run that ends in that moment has the server refuse to go on as new, and the whole
        history is replayed to try again; and what is told of a run's end is lost with its handle.
        """
        if not workflow.info().is_continue_as_new_suggested():
            return False
        if not workflow.patched("continue-as-new-when-quiet"):
            return True
        self._hold_until = self._hold_until or workflow.now() + HOLD
        # A run tells of its end just before its workflow closes: that is waited for, too.
        quiet = not self._followed and not any(t.state is RunState.RUNNING for t in self.state.runs.values())
        return quiet or workflow.now() >= self._hold_until

    def _can_still_create(self) -> bool:
        """Whether the runs worked out ahead ran out while more of them may be due."""
        info = self.state.next_info
        question = self.state.question(workflow.now())
        return question is not None and self.state.room > 0 and (info is None or info.run_after <= workflow.now())

    async def _create_for_backfills(self) -> int:
        """Creates what backfills have room for; how many dates were dealt with."""
        if self.state.held_up:
            return 0
        for backfill in self.state.backfills:
            question = backfill.question()
            if question is not None:
                backfill.take(await ask(ask_backfill, question))
        return self.state.create_backfill_runs(workflow.now())

    async def _ask(self, question: TicksQuestion) -> None:
        version = self.state.spec.version
        answer = await ask(ask_timetable, question)
        if version == self.state.spec.version and question.last == self.state.last_automated_interval:
            # Else the DAG was registered anew meanwhile, and this answers an old question.
            self.state.take(answer, question.now)

    def _next_wake(self) -> datetime | None:
        wake = self.state.next_wake(workflow.now())
        if self._hold_until is not None:
            return self._hold_until
        if self.state.unwatched:
            look = self._reconcile_at or workflow.now()
            return look if wake is None else min(wake, look)
        return wake

    # Starting runs

    async def _start_queued(self) -> None:
        if self._hold_until is not None:
            return
        startable = self.state.startable(workflow.now())
        for tracked in startable:
            self.state.start(tracked, workflow.now())
        if startable:
            await asyncio.gather(*(self._start(tracked) for tracked in startable))

    async def _start(self, tracked: TrackedRun) -> None:
        """Starts the run's workflow, to outlive this execution. One that exists is taken as it is."""
        again = WorkflowIDReusePolicy.ALLOW_DUPLICATE
        news = self.state.news
        try:
            handle = await workflow.start_child_workflow(
                DagRunWorkflow.run,
                DagRunState(
                    run=tracked.run,
                    spec=with_default_pools(self.state.spec),
                    past=self.state.past_of(tracked),
                    news=self.state.news,
                    revision=tracked.revision,
                ),
                id=tracked.run.workflow_id,
                id_reuse_policy=again if tracked.again else WorkflowIDReusePolicy.REJECT_DUPLICATE,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                memo={"dag_id": tracked.run.dag_id, "run_id": tracked.run.run_id},
                static_summary=f"{tracked.run.dag_id}: {tracked.run.run_id}",
            )
        except WorkflowAlreadyStartedError:
            await self._adopt(tracked)
            return
        tracked.watched = True
        if news != self.state.news:  # what was told meanwhile could not reach it yet
            self._tell([tracked])
        follower = asyncio.create_task(self._follow(handle, tracked))
        self._followed.add(follower)
        follower.add_done_callback(self._followed.discard)
        follower.add_done_callback(self._look_up_if_held)

    def _look_up_if_held(self, _: asyncio.Task[None]) -> None:
        if self._hold_until is not None:
            self._alarm.ring()

    async def _adopt(self, tracked: TrackedRun) -> None:
        """The run's workflow exists, or existed. Most often it ran long ago; then a backfill may run it again."""
        key = tracked.run.key
        reports = await look_up(find_ended_runs, RunsQuestion(workflow_ids={key: tracked.run.workflow_id}))
        if self.state.runs.get(key) is not tracked:
            return  # it has told us meanwhile that it ended
        backfill = self.state.backfill(tracked.backfill_id)
        if not reports and tracked.again:
            await workflow.sleep(CLOSING)  # the execution before is just about to close
            await self._start(tracked)
        elif not reports:
            return  # it is running: whoever started it, its end will be found out
        elif backfill is None:
            self._finish(reports[0])
        elif backfill.request.reprocess_behavior.again(reports[0].state):
            tracked.again = True
            await self._start(tracked)
        else:
            reason = f"it ran already and ended in {reports[0].state}"
            self.state.give_up_in_backfill(backfill, tracked, reason, workflow.now())
            self._alarm.ring()

    async def _follow(self, handle: workflow.ChildWorkflowHandle[Any, str], tracked: TrackedRun) -> None:
        """Hears of the run's end even if it cannot tell: terminated, timed out, failed."""
        key = tracked.run.key
        try:
            await handle
        except ChildWorkflowError:
            # Perhaps not the end: a run that is reset ends here and goes on as another execution of its workflow.
            tracked.watched = False
            self._reconcile_at = None
            self._alarm.ring()
            return
        if self.state.runs.get(key) is tracked:
            self._finish(RunReport(key=key, state=RunState.SUCCESS, ended_at=workflow.now(), reason="completed"))

    def _finish(self, report: RunReport) -> None:
        tracked = self.state.runs.get(report.key)
        was_paused = self.state.is_paused
        if tracked is not None and self.state.finish(report):
            self._tell(self.state.after(tracked.run.run_id))
            if self.state.is_paused != was_paused:
                self._tell_all()
            self._alarm.ring()

    # Telling runs

    def _tell_all(self) -> None:
        """Tells every run under way whether the DAG is paused."""
        if workflow.patched("runs-hear-of-pauses"):
            self._tell([t for t in self.state.runs.values() if t.state is RunState.RUNNING])

    def _tell(self, runs: Sequence[TrackedRun]) -> None:
        for tracked in runs:
            telling = asyncio.create_task(self._send_news(tracked))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)

    async def _send_news(self, tracked: TrackedRun) -> None:
        run = workflow.get_external_workflow_handle(tracked.run.workflow_id)
        with suppress(FailureError):  # it has ended meanwhile, and will be reported as ended
            await run.signal("news", self.state.news_for(tracked))

    async def _reconcile(self) -> None:
        """Asks about runs whose end nobody would tell: those that an earlier execution started."""
        unwatched = self.state.unwatched
        if not unwatched or (self._reconcile_at is not None and workflow.now() < self._reconcile_at):
            return
        self._reconcile_at = workflow.now() + self._reconcile_pause
        self._reconcile_pause = min(2 * self._reconcile_pause, RECONCILE_LAST)
        question = RunsQuestion(workflow_ids={t.run.key: t.run.workflow_id for t in unwatched})
        for report in await look_up(find_ended_runs, question):
            self._finish(report)

    # Manual runs

    async def _create_triggered(self, request: Any) -> None:
        """Follows a trigger that nobody waits for: what is wrong with it is kept for `describe` and `explain`."""
        try:
            await self._trigger(request, TriggeredBy.SIGNAL)
        except InvalidInputError as error:
            self.state.refuse("trigger", str(error), workflow.now())

    async def _trigger(self, request: Any, by: TriggeredBy) -> RunIdentity:
        now = workflow.now()
        if self.state.held_up is not None and not self.state.is_paused:
            raise InvalidInputError(f"DAG {self.state.spec.dag_id!r} cannot be triggered: {self.state.held_up}")
        if isinstance(request, dict):
            request = {**request, "triggered_by": request.get("triggered_by") or by}
        question = TriggerQuestion(spec=self.state.spec, request=request, now=now)
        answer = await ask(ask_trigger, question)
        if answer.run is None:
            raise InvalidInputError(answer.error or "the trigger was refused")
        try:
            made = self.state.create(answer.run, now, f"triggered by {answer.run.triggered_by}")
        except DateTakenError as error:
            raise InvalidInputError(str(error)) from None
        self._alarm.ring()
        return made.run

    # Messages

    @workflow.signal
    def pause(self) -> None:
        """Creates and starts no more runs; those under way start no more tasks, tasks that run go on."""
        if self.state.pause(True, workflow.now()):
            self._tell_all()
        self._alarm.ring()

    @workflow.signal
    def unpause(self) -> None:
        """Creates runs again, as `catchup` says."""
        if self.state.pause(False, workflow.now()):
            self._tell_all()
        self._alarm.ring()

    @workflow.signal
    def file_state(self, file: Any) -> None:
        """The DAG's file is broken, mended, gone or back; told by its bundle. Takes a `DagFileState`."""
        try:
            self.state.take_file(read_file_state(file), workflow.now())
        except InvalidInputError as error:
            self.state.refuse("file_state", str(error), workflow.now())
        self._alarm.ring()

    @workflow.signal
    def trigger(self, *request: Any) -> None:
        """Asks for a manual run; nobody waits for the answer. Takes a `TriggerRequest`, or nothing."""
        self.state.triggers.append(request[0] if request else None)
        self._alarm.ring()

    @workflow.signal
    def run_finished(self, report: Any) -> None:
        """A run tells that it has ended."""
        try:
            self._finish(read_report(report))
        except InvalidInputError as error:
            self.state.refuse("run_finished", str(error), workflow.now())

    @workflow.signal
    def tasks_ended(self, ended: TasksEnded) -> None:
        """A run tells of tasks that the next run looks back at."""
        self._tell(self.state.tasks_ended(ended))

    @workflow.update
    async def revise_run(self, question: ReviseQuestion) -> list[str]:
        """Clears or marks tasks of a run, or marks the run. One that has ended runs again, under its run_id.

        Returns the instances of tasks that are changed.
        """
        while True:
            self._refuse_if_queued(question.workflow_id)
            revised = await self._ask_to_revise(question)
            if revised.run is None or revised.execution is None:
                return list(revised.instances)
            key = revised.run.key
            if key not in self.state.runs:
                break
            # Temporal knows of its end before we do, or somebody else has it run again: asked anew, that is seen.
            with suppress(asyncio.TimeoutError):
                await workflow.wait_condition(partial(self._is_over, key), timeout=SETTLE_WITHIN)
        if not revised.instances and question.mark_run is None:
            return []
        change = question.model_dump(include={"clear", "mark", "mark_run"})
        self.state.revise(revised.run, Revision(execution=revised.execution, **change), workflow.now())
        self._alarm.ring()
        return list(revised.instances)

    def _is_over(self, key: str) -> bool:
        return key not in self.state.runs

    def _refuse_if_queued(self, workflow_id: str) -> None:
        for tracked in self.state.runs.values():
            if tracked.run.workflow_id == workflow_id and tracked.state is RunState.QUEUED:
                told = f"run {tracked.run.run_id!r} is still queued: it has nothing to change yet"
                raise ApplicationError(told, type=INVALID_INPUT, non_retryable=True)

    async def _ask_to_revise(self, question: ReviseQuestion) -> Revised:
        try:
            return await workflow.execute_activity(
                revise_run,
                question,
                task_queue=control_queue(workflow.info().task_queue),
                start_to_close_timeout=REVISE_WITHIN,
                retry_policy=INFRASTRUCTURE,
            )
        except ActivityError as error:
            told = error.cause.message if isinstance(error.cause, ApplicationError) else str(error.cause)
            raise ApplicationError(told, type=INVALID_INPUT, non_retryable=True) from None

    @workflow.update
    async def trigger_run(self, *request: Any) -> RunIdentity:
        """Creates a manual run and returns it; refused with the name of the run that holds the date."""
        with refusing():
            return await self._trigger(request[0] if request else {}, TriggeredBy.CLIENT)

    @workflow.update
    def register(self, *spec: Any) -> Registration:
        """Puts another version of the DAG in place, at once."""
        with refusing():
            changed = self.state.register(self._read(spec), workflow.now())
        self._alarm.ring()
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
        now = workflow.now()
        spec = self.state.spec
        question = BackfillQuestion(timetable=spec.schedule, request=request, now=now, folder=spec.folder)
        batch = await ask(ask_backfill, question)
        with refusing():
            check_batch(self.state.spec, request, batch)
        made = None if request.dry_run else self.state.add_backfill(spec, request, batch, now)
        self._alarm.ring()
        return BackfillPlan(
            backfill_id=made.backfill_id if made is not None else None, total=batch.total, infos=batch.infos
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
            told = f"backfill_id = {backfill_id!r}: no such unfinished backfill. Unfinished are: {known}"
            raise ApplicationError(told, type="InvalidInput", non_retryable=True)
        for name, value in change.items():
            setattr(backfill, name, value)
        self.state.close_backfills(workflow.now())
        self._alarm.ring()
        return backfill.progress()

    # Questions

    @workflow.query
    def backfills(self) -> list[BackfillProgress]:
        """Every backfill that is kept, and how far it is."""
        return [backfill.progress() for backfill in self.state.backfills]

    @workflow.query
    def explain(self) -> Explanation:
        """Why the next run is due when it is or not at all, what is waited for, and what was decided last."""
        return explain_dag(self.state, workflow.now())

    @workflow.query
    def upcoming(self, most: int) -> Ticks:
        """The next *most* scheduled runs as things are."""
        return upcoming(self.state, workflow.now(), most)

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
    def runs(self) -> list[RunView]:
        """Queued, running and recent runs, newest first."""
        dag_id = self.state.spec.dag_id
        return run_views(self.state, lambda date, run_id: run_workflow_id(dag_id, run_key(date, run_id)))
