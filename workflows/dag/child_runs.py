"""The runs of a DAG that are under way: started as children that outlive it, followed to their end, and told things."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ChildWorkflowError, FailureError, WorkflowAlreadyStartedError

from ...activities.runs import RunsQuestion, find_conf, find_ended_runs, find_run
from ...model.dag.records import DecisionKind, TrackedRun
from ...model.dag.state import DagState
from ...model.interfaces.run import RunInterface
from ...model.run.messages import RunReport
from ...model.run.revisions import ClearRequest, Revision
from ...model.run.state import DagRunState
from ...model.spec.dag import DagSpec, with_default_pools
from ...model.states import RunState, TaskState
from ..alarm import Alarm
from ..calls import look_up, send
from ..command_budget import CommandBudget
from ..memo_view import SHOWS_VIEW
from ..run.workflow import DagRunWorkflow

CLOSING = timedelta(seconds=1)
CLOSES_AFTER = 5
"""So often an execution is waited for that is about to close; if it goes on then, somebody has reset it."""
RECONCILE_FIRST = timedelta(seconds=2)
RECONCILE_LAST = timedelta(minutes=1)


@dataclass
class Changes:
    """Tasks of the run *previous* that have changed since a run heard of them last."""

    previous: str | None
    states: dict[str, TaskState]

    def add(self, previous: str | None, changed: Mapping[str, TaskState]) -> None:
        if previous != self.previous:
            self.previous = None  # of two runs: then everything is told
        self.states.update(changed)


ADDED_SINCE: Any = {"spec": True, "began_at": True, "revision": {"ended_as": True, "ended_reason": True}}
"""What does not count in the size of a run's start: its DAG, which counts once, and fields that are newer than 0.2."""


class ChildRuns:
    """Starts and follows runs. Rings *alarm* when one has ended; calls *let_go* when one is followed no more."""

    def __init__(self, state: DagState, alarm: Alarm, let_go: Callable[[], None]) -> None:
        self._state = state
        self._alarm = alarm
        self._let_go = let_go
        self._followed: set[asyncio.Task[None]] = set()
        self._telling: set[asyncio.Task[None]] = set()
        self._reconcile_at: datetime | None = None
        self._reconcile_pause = RECONCILE_FIRST
        self._budget = CommandBudget()
        self._written: tuple[DagSpec, int] | None = None
        self._changes: dict[str, Changes] = {}
        """By run, what it has to hear of the run before as soon as the message before has arrived."""
        for tracked in state.runs.values():
            tracked.watched = False  # handles of children do not carry over

    @property
    def quiet(self) -> bool:
        """Whether no run is under way, and none that has told of its end is still about to close."""
        return not self._followed and not any(t.state is RunState.RUNNING for t in self._state.runs.values())

    @property
    def all_sent(self) -> bool:
        """Whether no message to a run is on its way."""
        return not self._telling

    # Starting and following

    async def start(self, tracked: TrackedRun, tries: int = 0) -> None:
        """Starts the run's workflow, to outlive this execution. One that exists is taken as it is.

        *tries*: how often it was found still running, though it is to run again.
        """
        again = WorkflowIDReusePolicy.ALLOW_DUPLICATE
        if tracked.again and tries == 0 and tracked.backfill_id is not None and tracked.revision is None:
            self.tell_of_revision(tracked)
            await self._take_up(tracked)
        await self._budget.take(self._size_of_start(tracked))
        last_update = self._state.last_update
        try:
            handle = await workflow.start_child_workflow(
                DagRunWorkflow.run,
                self._start_of(tracked),
                id=tracked.run.workflow_id,
                id_reuse_policy=again if self._state.may_run_again(tracked) else WorkflowIDReusePolicy.REJECT_DUPLICATE,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                memo={
                    "dag_id": tracked.run.dag_id,
                    "run_id": tracked.run.run_id,
                    "snapshot": self._snapshot,
                    SHOWS_VIEW: True,
                },
                static_summary=f"{tracked.run.dag_id}: {tracked.run.run_id}",
            )
        except WorkflowAlreadyStartedError:
            await self._adopt(tracked, tries)
            return
        tracked.watched = True
        if last_update != self._state.last_update:  # what was told meanwhile could not reach it yet
            self.tell([tracked])
        follower = asyncio.create_task(self._follow(handle, tracked))
        self._followed.add(follower)
        follower.add_done_callback(self._forget)

    async def _take_up(self, tracked: TrackedRun) -> None:
        """Has a run that a backfill runs again go on from its last execution, as in Airflow.

        All its tasks are cleared: their numbers of tries go on. It keeps the conf that it had, unless the backfill has
        one. What Temporal no longer keeps begins anew.
        """
        workflow.deprecate_patch("backfills-clear")
        had = await look_up(find_conf, tracked.run.workflow_id)
        if had.execution is not None:
            everything = ClearRequest(run_on_latest_version=True)
            tracked.revision = Revision(execution=had.execution, clear=everything)
        reason = f"it begins anew, with try 1: {had.problem}"
        if not tracked.run.conf:
            tracked.run = tracked.run.model_copy(update={"conf": had.conf})
            reason = f"it runs again without the conf that it may have had: {had.problem}. Give the backfill one"
        if had.problem is not None:
            self._state.note(workflow.now(), DecisionKind.REVISED, tracked.run.run_id, reason)

    def _start_of(self, tracked: TrackedRun) -> DagRunState:
        return DagRunState(
            run=tracked.run,
            spec=with_default_pools(self._state.spec),
            began_at=tracked.started_at,
            past=self._state.past_of(tracked),
            last_update=self._state.last_update,
            is_paused=self._state.is_paused,
            revision=tracked.revision,
            marks=tuple(tracked.marks),
            queued_at=tracked.queued_at if self._state.spec.deadline_alerts else None,
        )

    def _size_of_start(self, tracked: TrackedRun) -> int:
        """How large the input of a run is as JSON. The DAG, its largest part, is written once for all runs.

        Without what a release has added since: how many starts go together is in histories.
        """
        start = self._start_of(tracked)
        if self._written is None or self._written[0] is not self._state.spec:
            self._written = (self._state.spec, len(start.spec.model_dump_json()))
        return len(start.model_dump_json(exclude=ADDED_SINCE)) + len('"spec":,') + self._written[1]

    @property
    def _snapshot(self) -> str | None:
        """Which kept code the run needs: what nobody needs any more can be removed."""
        source = self._state.spec.source
        return source.snapshot if source is not None else None

    def _forget(self, follower: asyncio.Task[None]) -> None:
        self._followed.discard(follower)
        self._let_go()

    async def _adopt(self, tracked: TrackedRun, tries: int) -> None:
        """The run's workflow exists, or existed. Most often it ran long ago; then a backfill may run it again."""
        key = tracked.run.key
        reports = await look_up(find_ended_runs, RunsQuestion(workflow_ids={key: tracked.run.workflow_id}))
        if self._state.runs.get(key) is not tracked:
            return  # it has told us meanwhile that it ended
        backfill = self._state.backfill(tracked.backfill_id)
        if not reports and self._is_about_to_close(tracked, tries):
            await workflow.sleep(CLOSING)  # the execution before is just about to close
            await self.start(tracked, tries + 1)
        elif not reports:  # it is running: whoever started it, its end will be found out
            if workflow.patched("tells-what-it-adopts"):
                self._state.number_by_time(workflow.now())
                self.tell([tracked])
            if workflow.patched("calls-what-it-adopts-by-its-name"):
                found = await look_up(find_run, tracked.run.workflow_id)
                is_another = found is not None and found.run_id != tracked.run.run_id
                if found is not None and is_another and self._state.runs.get(key) is tracked:
                    tracked.run = tracked.run.called(found)
                    self._alarm.fire()
        elif backfill is None or tracked.revision is not None:
            self.finish(reports[0])
        elif backfill.request.reprocess_behavior.again(reports[0].state):
            tracked.again = True
            await self.start(tracked)
        else:
            reason = f"it ran already and ended in {reports[0].state}"
            self._state.give_up_in_backfill(backfill, tracked, reason, workflow.now())
            self._alarm.fire()

    @staticmethod
    def _is_about_to_close(tracked: TrackedRun, tries: int) -> bool:
        """Whether an execution that was found running for the *tries*-th time is the one before."""
        return tracked.again and tries < CLOSES_AFTER

    async def _follow(self, handle: workflow.ChildWorkflowHandle[Any, str], tracked: TrackedRun) -> None:
        """Hears of the run's end even if it cannot tell: terminated, timed out, failed."""
        key = tracked.run.key
        try:
            await handle
        except ChildWorkflowError:
            # Perhaps not the end: a run that is reset ends here and goes on as another execution of its workflow.
            tracked.watched = False
            self._reconcile_at = None
            self._alarm.fire()
            return
        if self._state.runs.get(key) is tracked:
            self.finish(RunReport(key=key, state=RunState.SUCCESS, ended_at=workflow.now(), reason="completed"))

    def finish(self, report: RunReport) -> None:
        """Takes note of the end of a run, and tells those that wait for it."""
        tracked = self._state.runs.get(report.key)
        was_paused = self._state.is_paused
        if tracked is not None and self._state.finish(report):
            self.tell(self._state.after(tracked.run.run_id))
            if self._state.is_paused != was_paused:
                self.tell_all()
            self._alarm.fire()

    # Runs that an earlier execution started

    def next_look(self, now: datetime) -> datetime | None:
        """When runs are asked about whose end nobody would tell; None: there are none."""
        return (self._reconcile_at or now) if self._state.unwatched else None

    async def reconcile(self) -> None:
        """Asks about them, if it is time."""
        unwatched = self._state.unwatched
        if not unwatched or (self._reconcile_at is not None and workflow.now() < self._reconcile_at):
            return
        self._reconcile_at = workflow.now() + self._reconcile_pause
        self._reconcile_pause = min(2 * self._reconcile_pause, RECONCILE_LAST)
        question = RunsQuestion(workflow_ids={t.run.key: t.run.workflow_id for t in unwatched})
        for report in await look_up(find_ended_runs, question):
            self.finish(report)

    # Telling

    def tell_all(self) -> None:
        """Tells every run under way whether the DAG is paused."""
        self.tell([t for t in self._state.runs.values() if t.state is RunState.RUNNING])

    def tell(self, runs: Sequence[TrackedRun]) -> None:
        """Tells *runs* what is new for each of them."""
        for tracked in runs:
            telling = asyncio.create_task(self._send_update(tracked))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)

    async def _send_update(self, tracked: TrackedRun, changed: Mapping[str, TaskState] | None = None) -> None:
        run = workflow.get_external_workflow_handle(tracked.run.workflow_id)
        with suppress(FailureError):  # it has ended meanwhile, and will be reported as ended
            await send(run, RunInterface.dag_update(self._state.update_for_run(tracked, changed)))

    def tell_of_revision(self, tracked: TrackedRun, instances: Collection[str] | None = None) -> None:
        """Has runs that look back at *tracked*, which had ended, wait for its tasks that run again, or are marked.

        *instances*: which they are; None: all, as where a backfill runs it again.
        """
        affected = self._state.after(tracked.run.run_id)
        anew = self._state.begin_again(tracked, instances)
        if anew and affected and workflow.patched("clears-are-told"):
            self.tell_changes(affected, anew)

    def tell_changes(self, runs: Sequence[TrackedRun], changed: Mapping[str, TaskState]) -> None:
        """Tells *runs* that tasks of the run before have *changed*: one message at a time, with all that there is."""
        for tracked in runs:
            waiting = self._changes.get(tracked.run.key)
            if waiting is not None:
                waiting.add(tracked.previous, changed)
                continue
            self._changes[tracked.run.key] = Changes(tracked.previous, dict(changed))
            telling = asyncio.create_task(self._send_changes(tracked))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)

    async def _send_changes(self, tracked: TrackedRun) -> None:
        key = tracked.run.key
        while (changes := self._changes[key]).states:
            self._changes[key] = Changes(changes.previous, {})
            await self._send_update(tracked, changes.states if changes.previous == tracked.previous else None)
        del self._changes[key]
