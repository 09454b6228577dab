"""One run from its first task to its last.

A thin shell: what happens next is decided by `model.run.engine`, what is under way for the tasks
is kept by `workflows.run.tasks`; this says when the run is over, and speaks with everybody else.
"""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError, is_cancelled_exception

from ...activities.names import JUST_ENDED
from ...activities.runs import LastExecution, load_run
from ...model.errors import InvalidInputError
from ...model.interfaces.calls import SignalCall
from ...model.interfaces.dag import DagInterface
from ...model.interfaces.run import RunInterface
from ...model.pool.state import Granted, RunLeases
from ...model.run.changes import Change, answer_of, cleared, form_of, keeps_times, marked, resumed, that_fit
from ...model.run.forms import answered, response_to
from ...model.run.identity import RunIdentity, dag_workflow_id
from ...model.run.instance_keys import split_key
from ...model.run.messages import Answer, DagUpdate, RunReport, TasksEnded, XComQuestion
from ...model.run.past import Past, remembered
from ...model.run.planner import RunEnd
from ...model.run.progress import Progress, progress
from ...model.run.revisions import ClearRequest, MarkRequest, Revision, RunMark
from ...model.run.state import DagRunState, task_table
from ...model.run.task_instances import TaskInstance
from ...model.run.views import RunDetails, run_details, run_row
from ...model.spec.tasks import ApprovalTask
from ...model.states import RunState, TaskState
from .. import lineage, metrics
from ..calls import look_up, refusing, send
from ..continuing import ContinueSuggestion
from ..memo_view import MemoView, memo_with_view
from .deadlines import of_queueing
from .tasks import RunTasks

MAX_EVENTS = 20_000
MAX_BYTES = 20 * 2**20
"""Of a history, before a run starts nothing more in it; the server ends it at 51,200 events or 50 MB."""
SHORT = timedelta(seconds=10)
"""A task that has been under way for longer may take any time."""


@workflow.defn(name=RunInterface.workflow, sandboxed=False)
class DagRunWorkflow:
    """One run of a DAG, with the version of the DAG that it was created with."""

    @workflow.init
    def __init__(self, state: DagRunState) -> None:
        self._since_reset = ""
        self._adopt(state)
        self._messages: set[asyncio.Task[None]] = set()
        self._ready = False
        self._is_closing = False
        """Whether the end of the run is being told: what is changed now would be lost with it."""
        self._looks_again = False
        self._untold: set[str] = set()
        """Tasks whose state the DAG has not been told, though the next run looks back at them."""
        self._telling = False
        self._memo = MemoView()
        self._suggestion = ContinueSuggestion()

    def _adopt(self, state: DagRunState) -> None:
        """Makes *state* this run's."""
        self.state = state
        self.tasks = RunTasks(state, self._task_ended)
        self.tasks.leases.since_reset = self._since_reset
        self._remembered = remembered(state.spec)

    def _task_ended(self, instance: TaskInstance) -> None:
        if instance.task_id not in self._remembered:
            return
        self._untold.add(instance.task_id)

    def _tell_of_tasks(self) -> None:
        """Tells the DAG what the next run looks back at: together, and in order, since a message names only changes."""
        if self._untold and not self._telling:
            self._telling = True
            self._send(self._tell_untold())

    async def _tell_untold(self) -> None:
        while self._untold:
            states = self.state.past_of_tasks(self._untold)
            self._untold.clear()
            await self._tell_dag(
                DagInterface.tasks_ended(TasksEnded(key=self.state.run.key, states=states, is_delta=True))
            )
        self._telling = False

    def _revised(self, change: Change) -> list[str]:
        """Takes up what a person has changed; the next run looks back at that, too."""
        self.tasks.engine.apply(change)
        self.state.ended_at = None
        self._untold |= {split_key(key)[0] for key in change.states} & self._remembered
        return [*change.states]

    def _reset(self, seed: int) -> None:
        """Take note that an operator has reset the workflow: only then does Temporal give it another *seed*."""
        self._since_reset = self.tasks.leases.since_reset = f"~{seed % 2**32:x}"

    @workflow.run
    async def run(self, _: DagRunState) -> str:
        """Runs every task that can run, tells the DAG how the run ended, and fails if the run failed."""
        workflow.register_random_seed_callback(self._reset)  # not in __init__: a replay makes the object earlier
        try:
            if self.state.revision is not None:
                await self._resume(self.state.revision)
            self._mark_as_queued()
            self._ready = True
            if self.state.started_at is None:
                self.state.started_at = workflow.now()
                metrics.run_started(self.state)
                lineage.run_started(self.state)
            self.tasks.start()
            end = await self._to_the_end()
        except BaseException as error:
            if isinstance(error, workflow.ContinueAsNewError):
                raise
            if is_cancelled_exception(error):
                await self._end_early(RunEnd(RunState.FAILED, "the run was cancelled"), tears_down=True)
            elif isinstance(error, Exception):
                message = f"a defect of tidemill: {type(error).__name__}: {error}"
                await self._end_early(RunEnd(RunState.FAILED, message))
                raise ApplicationError(message, type="Defect", non_retryable=True) from error
            raise
        await self._report(end)
        metrics.run_ended(self.state, end.state)
        lineage.run_ended(self.state, end.state)
        if end.state is RunState.FAILED:
            raise ApplicationError(
                f"run {self.state.run.run_id} failed: {end.reason}", type="RunFailed", non_retryable=True
            )
        return f"{end.state}: {end.reason}"

    def _mark_as_queued(self) -> None:
        """Gives tasks the state that a person has said while the run was queued."""
        marks, self.state.marks = self.state.marks, ()
        for request in that_fit(self.state.spec, marks):
            if workflow.patched("marks-of-queued-runs"):
                self._revised(marked(self.state, request))

    async def _resume(self, revision: Revision) -> None:
        """Goes on from where the last execution of this run ended, with what a person has changed."""
        last = LastExecution(workflow_id=workflow.info().workflow_id, execution=revision.execution)
        before = await look_up(load_run, last)
        before.settle_ended(waits_cost_no_try=before.has_waits and workflow.patched("waits-cost-no-try"))
        fresh = self.state
        if revision.clear is not None and self._takes_latest(revision.clear):
            is_new = bool(before.other_expansions(fresh.spec)) and workflow.patched("versions-keep-indexes")
            before = before.with_version(fresh.spec, keeps_indexes=is_new)
        current: dict[str, Any] = {
            "run": fresh.run,
            "past": fresh.past,
            "is_paused": fresh.is_paused,
            "last_update": fresh.last_update,
        }
        current["parallelism"] = fresh.parallelism
        names = of_queueing(before.spec) if revision.clear is not None else set()
        if names:
            workflow.deprecate_patch("cleared-deadlines-count-anew")
            current["queued_at"] = fresh.queued_at
            current["missed"] = [name for name in before.missed if name not in names]
        keeps = revision.clear is None and keeps_times(before, revision.mark, revision.mark_run)
        current["began_at"] = before.began if keeps else fresh.began_at
        current["ended_at"] = before.ended_at if keeps else None
        self._adopt(before.model_copy(update={**current, "started_at": None, "revision": None}))
        self.tasks.leases.begin_anew()
        if keeps and revision.mark is not None:
            self._stay_ended(revision)
        try:
            self._revise(revision)
        except InvalidInputError as error:
            workflow.logger.warning("run %s is not changed: %s", self.state.run.run_id, error)

    def _stay_ended(self, revision: Revision) -> None:
        """Keeps the end that a person, or its timeout, has given the run before tasks are marked."""
        state, engine = revision.ended_as, self.tasks.engine
        if state is not None and not engine.is_ended_by_its_tasks(state) and workflow.patched("marks-keep-ends"):
            engine.stay_ended(RunEnd(state, revision.ended_reason or f"marked {state}"))

    def _takes_latest(self, request: ClearRequest) -> bool:
        wanted = request.run_on_latest_version
        if wanted is None and self.state.spec.reruns_latest:
            workflow.deprecate_patch("clears-to-latest")
            return True
        return bool(wanted)

    def _revise(self, revision: Revision) -> None:
        if revision.clear is not None:
            self.tasks.engine.apply(cleared(self.state, revision.clear))
        if revision.mark is not None:
            for change in self._marks(revision.mark):
                self.tasks.engine.apply(change)
        if revision.mark_run is not None:
            self._mark_run(revision.mark_run)

    async def _to_the_end(self) -> RunEnd:
        while True:
            # What is in flight does not carry over: before it goes on as new, a run lets it finish.
            draining = self._has_to_go_on_as_new() and not self.tasks.engine.is_tearing_down
            if draining:
                self.tasks.engine.hold()
            else:
                self.tasks.engine.go_on()
            end = self.tasks.engine.end
            if end is not None and not self.tasks.busy:
                await self._wind_up(end)
                # Somebody may have changed the run while messages were on their way.
                if end == self.tasks.engine.end and not self.tasks.busy:
                    return end
                if workflow.patched("clocks-go-on"):  # that it was over has stopped them
                    self.tasks.set_clocks()
                continue
            if self.tasks.ended is not None:
                self.tasks.engine.stop_all(self.tasks.ended.reason)
            self._tell_of_tasks()
            if not self.tasks.busy and (draining or self._suggestion.is_made()):
                await self._go_on_as_new()
            self._show(None)
            await self.tasks.something_happens(SHORT if draining and self._looks_again else None)

    def _show(self, end: RunEnd | None) -> None:
        """Keeps what Temporal's UI and lists show of the run."""
        counts = self.tasks.plan.counts
        workflow.set_current_details(task_table(self.state, counts))
        self._memo.show(run_row(self.state, counts, end, workflow.now()), at_once=end is not None)

    def _has_to_go_on_as_new(self) -> bool:
        """Whether nothing more may be started before that.

        It is suggested early; a run that waited then for its slowest task would stand still behind it. So it goes on
        beside a task that takes long, until its history is half of what the server lets it have.
        """
        if not self._suggestion.is_made():
            return False
        long = self.tasks.under_way_since(workflow.now() - SHORT)
        info = workflow.info()
        late = info.get_current_history_length() > MAX_EVENTS or info.get_current_history_size() > MAX_BYTES
        self._looks_again = not late  # whether one that is waited for turns out to take long
        return late or not long

    async def _go_on_as_new(self) -> None:
        await self._all_sent()
        await workflow.wait_condition(workflow.all_handlers_finished)
        while self._untold or self.tasks.leases.keeps_free:  # somebody has changed the run meanwhile
            self._tell_of_tasks()
            await self._all_sent()
        if self.tasks.ended is None and not self.tasks.busy:  # else it was ended meanwhile
            self.tasks.leave_triggers()
            self.state.executions += 1
            workflow.continue_as_new(self.state, memo=memo_with_view())

    # The end

    async def _end_early(self, end: RunEnd, *, tears_down: bool = False) -> None:
        """Winds up a run that is being cancelled, and still tells the DAG; first it *tears_down* what it has set up."""
        given = self.tasks.engine.ended
        if tears_down and given is not None and workflow.patched("marks-outlive-cancels"):
            end = given  # a person has marked the run, and had it cancelled: it ends as it was marked
        self.tasks.engine.end_with(end, tears_down=tears_down)
        if self.tasks.engine.is_tearing_down:
            end = await self._to_the_end()
            self._is_closing = True
        else:
            self._is_closing = True
            await self.tasks.all_stopped()
            await self._wind_up(end)
        await self._report(end)
        lineage.run_ended(self.state, end.state)

    async def _wind_up(self, end: RunEnd) -> None:
        await self.tasks.wind_up(end)
        await self._all_sent()

    async def _all_sent(self) -> None:
        """Waits for messages on their way: a workflow that closes takes them with it."""
        await self.tasks.all_sent()
        await workflow.wait_condition(lambda: not self._messages)

    async def _report(self, end: RunEnd) -> None:
        self._is_closing = True
        self.tasks.engine.ended = end
        self.state.ended_at = self.state.ended_at or workflow.now()
        self._show(end)
        report = RunReport(
            key=self.state.run.key,
            state=end.state,
            ended_at=self.state.ended_at,
            reported_at=workflow.now(),
            reason=end.reason,
            past=self.state.past_for_next,
            progress=progress(self.tasks.plan.counts),
        )
        await self._tell_dag(DagInterface.run_finished(report))
        # A slot may have been granted meanwhile, and be on its way back.
        while self.tasks.leases.telling:
            workflow.deprecate_patch("returns-late-grants")
            await self.tasks.leases.all_sent()

    async def _tell_dag(self, call: SignalCall) -> None:
        dag = workflow.get_external_workflow_handle(dag_workflow_id(self.state.run.dag_id))
        try:
            await send(dag, call)
        except FailureError:
            workflow.logger.warning("the DAG's workflow is gone; nobody is told of %s", self.state.run.run_id)

    def _send(self, message: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(message)
        self._messages.add(task)
        task.add_done_callback(self._messages.discard)

    # Messages

    @workflow.signal(name=RunInterface.dag_update.name)
    def dag_update(self, update: DagUpdate) -> None:
        """The DAG was paused or unpaused, or a task of the run before has ended."""
        known = self.state.past.run_id if self.state.past is not None else None
        if update.is_delta and update.past is not None and update.past.run_id != known:
            return  # of a run that is not known to be the one before: all of it is on its way
        if update.number <= self.state.last_update:
            return
        self.state.last_update = update.number
        self.state.is_paused = self.tasks.plan.paused = update.is_paused
        if update.past is not None:
            changed = None
            if update.is_delta and self.state.past is not None:
                changed = {*update.past.states}
                states = {**self.state.past.states, **update.past.states}
                self.state.past = Past(run_id=update.past.run_id, states=states)
            else:
                self.state.past = update.past
            self.tasks.plan.look_back(self.state.past, changed)
        self.tasks.changed()

    @workflow.signal
    def granted(self, answer: Granted) -> None:
        """A pool has let instances of tasks in."""
        self.tasks.leases.granted(answer)
        self.tasks.changed()

    async def _can_be_changed(self, *, to_another_end: bool = False) -> None:
        """Waits until the run knows its tasks. Raises ApplicationError, JUST_ENDED, where a change comes too late.

        That is while its end is told; and before, where it ends whatever its tasks do, unless *to_another_end*: that is
        the run's own, or that of a teardown for which it waits.
        """
        await workflow.wait_condition(lambda: self._ready)
        too_late = self._is_closing or (self.tasks.ended is not None and not to_another_end)
        if too_late and workflow.patched("changes-come-too-late"):
            raise ApplicationError("the run has just ended", type=JUST_ENDED)

    @workflow.update
    async def clear_tasks(self, request: ClearRequest) -> list[str]:
        """Has tasks run again; those that run are stopped first. Returns the instances."""
        await self._can_be_changed()
        with refusing():
            if request.run_on_latest_version:
                raise InvalidInputError(
                    "run_on_latest_version: the run is under way, and keeps its version. Wait for its end, or cancel it"
                )
            change = cleared(self.state, request)
        return self._revised(change)

    @workflow.update
    async def set_task_state(self, request: MarkRequest) -> list[str]:
        """Gives tasks a state without running them; those that run are stopped first. Returns the instances."""
        await self._can_be_changed(to_another_end=self._is_of_teardowns(request))
        with refusing():
            mark, *others = self._marks(request)
        instances = self._revised(mark)
        for change in others:
            self._revised(change)
        return instances

    def _is_of_teardowns(self, request: MarkRequest) -> bool:
        """Whether *request* is about teardowns for which the run waits, and nothing else."""
        known = self.state.spec.by_id
        named = [known.get(split_key(task)[0]) for task in request.tasks]
        return self.tasks.engine.is_tearing_down and all(task is not None and task.is_teardown for task in named)

    def _marks(self, request: MarkRequest) -> list[Change]:
        """What a mark changes, and what goes on for it. Raises InvalidInputError."""
        below = resumed(self.state, request)
        if not below.states:
            return [marked(self.state, request)]
        workflow.deprecate_patch("marks-resume")
        return [marked(self.state, request), below]

    @workflow.update
    async def set_state(self, mark: RunMark) -> RunState:
        """Ends the run as success or failed: what runs is stopped, what waits is skipped."""
        await self._can_be_changed(to_another_end=True)
        self._mark_run(mark)
        return RunState(mark.state)

    def _mark_run(self, mark: RunMark) -> None:
        workflow.deprecate_patch("run-marks-keep-ends")
        self.tasks.engine.mark_run(mark)

    @workflow.update
    async def respond(self, answer: Answer) -> str:
        """Answers an approval task; the answer is its result."""
        await workflow.wait_condition(lambda: self._ready)
        instance = self._awaiting(answer)
        task, deferral = self.state.spec.by_id[instance.task_id], instance.deferral
        with refusing():
            if deferral is not None and deferral.form is not None:
                event = answered(deferral.form, answer, workflow.now())
                instance.response = response_to(deferral.form, answer, workflow.now())
                self.tasks.engine.resume(instance, deferral.woken(event))
                return instance.key
            assert isinstance(task, ApprovalTask)  # noqa: S101
            outcome = answer_of(task, answer)
            instance.response = response_to(form_of(task, instance.subject), answer, workflow.now())
        self.tasks.engine.finish_wait(instance, outcome)
        return instance.key

    def _awaiting(self, answer: Answer) -> TaskInstance:
        instance = self.state.instances.get(answer.task)
        if instance is None or instance.state is not TaskState.AWAITING_INPUT:
            waiting = [key for key, i in self.state.instances.items() if i.state is TaskState.AWAITING_INPUT]
            with refusing():
                raise InvalidInputError(
                    f"task {answer.task!r} does not wait for an answer. These do: {', '.join(waiting) or 'none'}"
                )
        assert instance is not None  # noqa: S101
        return instance

    # Questions

    @workflow.query
    def xcom(self, question: XComQuestion) -> dict[str, Any]:
        """By map_index: what the instances of a task have left under a key."""
        made = self.state.of_task(question.task_id)
        return {str(i.map_index): i.xcom[question.key] for i in made if question.key in i.xcom}

    @workflow.query
    def describe(self) -> RunDetails:
        """The run and every task: state, tries, times, and why a task is not running."""
        ended = None if self.tasks.engine.is_tearing_down else self.tasks.ended
        end = ended.state if ended is not None else None
        details = run_details(self.state, progress(self.tasks.plan.counts), self.tasks.why, end)
        before = self.state.revision
        return details if before is None else details.model_copy(update={"goes_on_from": before.execution})

    @workflow.query
    def progress(self) -> Progress:
        """How many tasks have finished, and how."""
        return progress(self.tasks.plan.counts)

    @workflow.query
    def explain(self, task: str) -> str:
        """Why a task, or an instance such as `load[3]`, has the state that it has."""
        instance = self.state.instances.get(task)
        if instance is None:
            return f"there is no task {task!r}; the tasks are: {', '.join(self.state.instances)}"
        return f"{task} is {instance.state}: {self.tasks.why(instance)}"

    @workflow.query
    def leases(self, pool: str) -> RunLeases:
        """The requests by which tasks of this run hold slots of *pool*, a workflow id."""
        return self.tasks.leases.of_pool(pool)

    @workflow.query
    def identity(self) -> RunIdentity:
        """Which run this is."""
        return self.state.run

    @workflow.query
    def whole_state(self) -> DagRunState:
        """All that the run knows, for the execution that goes on from it."""
        return self.state

    @workflow.query
    def would_clear(self, request: ClearRequest) -> list[str]:
        """The instances that a clearing would have run again once this execution has ended. Nothing is changed."""
        with refusing():
            return [*cleared(self._as_ended(), request).states]

    @workflow.query
    def would_mark(self, request: MarkRequest) -> list[str]:
        """The instances that a marking would change once this execution has ended. Nothing is changed."""
        with refusing():
            return [*marked(self._as_ended(), request).states]

    def _as_ended(self) -> DagRunState:
        state = self.state.model_copy(deep=True)
        state.settle_ended()
        return state
