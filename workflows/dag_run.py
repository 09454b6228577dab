"""One run from its first task to its last.

A thin shell: what happens next is decided by `model.scheduling`; this starts what it says, awaits
what comes of it, and tells it.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError, is_cancelled_exception

from ..activities.runs import LastExecution, load_run
from ..model.branching import skipped_tasks
from ..model.errors import InvalidInputError
from ..model.mapping import NotMappableError
from ..model.messages import Answer, DagNews, RunReport, TasksEnded
from ..model.past import remembered
from ..model.references import RETURN_VALUE
from ..model.revisions import ClearRequest, MarkRequest, Revision, RunMark
from ..model.run_changes import Change, answer_of, cleared, marked, run_marked
from ..model.run_state import DagRunState, Progress, progress, task_table
from ..model.runs import RunIdentity, dag_workflow_id
from ..model.scheduling import Decision, RunEnd, RunPlan
from ..model.states import RunState, TaskState
from ..model.task_instances import Attempt, Failure, Outcome, TaskInstance, may_retry, poke_delay, retry_delay
from ..model.tasks import ApprovalTask, EmptyTask, PokedTask, WaitingTask
from ..model.views import RunDetails, run_details, why
from .calls import look_up, refusing
from .leases import Granted, Leases
from .task_work import failure_of, work_of

RESULTS_LIMIT = 1_000_000
WAITS = (TaskState.DEFERRED, TaskState.AWAITING_INPUT, TaskState.UP_FOR_RESCHEDULE)


@workflow.defn(name="DagRun")
class DagRunWorkflow:
    """One run of a DAG, with the version of the DAG that it was created with."""

    @workflow.init
    def __init__(self, state: DagRunState) -> None:
        self._adopt(state)
        self.ended: RunEnd | None = None
        self._news = False
        self._defect: Exception | None = None
        self._attempts: dict[str, asyncio.Task[None]] = {}
        self._stopping: dict[str, TaskState] = {}
        self._clocks: dict[str, asyncio.Task[None]] = {}
        self._messages: set[asyncio.Task[None]] = set()

    def _adopt(self, state: DagRunState) -> None:
        """Makes *state* this run's."""
        state.fill()
        self.state = state
        self.plan = RunPlan(state.spec, state.states, state.past)
        self.plan.paused = state.is_paused
        for instance in state.instances.values():
            self.plan.skip(instance.key, instance.skips)
        self._remembered = remembered(state.spec)
        self._values: dict[str, list[dict[str, Any]]] = {}
        self._leases = Leases(state, self.plan.grant)

    @workflow.run
    async def run(self, _: DagRunState) -> str:
        """Runs every task that can run, tells the DAG how the run ended, and fails if the run failed."""
        if self.state.revision is not None:
            await self._resume(self.state.revision)
        self.state.started_at = self.state.started_at or workflow.now()
        self._leases.ask_again()
        self._set_clocks()
        try:
            end = await self._to_the_end()
        except BaseException as error:
            if isinstance(error, workflow.ContinueAsNewError):
                raise
            if is_cancelled_exception(error):
                await self._end_early(RunEnd(RunState.FAILED, "the run was cancelled"))
            elif isinstance(error, Exception):
                told = f"a defect of tidemill: {type(error).__name__}: {error}"
                await self._end_early(RunEnd(RunState.FAILED, told))
                raise ApplicationError(told, type="Defect", non_retryable=True) from error
            raise
        await self._report(end)
        if end.state is RunState.FAILED:
            raise ApplicationError(
                f"run {self.state.run.run_id} failed: {end.reason}", type="RunFailed", non_retryable=True
            )
        return f"{end.state}: {end.reason}"

    async def _resume(self, revision: Revision) -> None:
        """Goes on from where the last execution of this run ended, with what a person has changed."""
        last = LastExecution(workflow_id=workflow.info().workflow_id, execution=revision.execution)
        before = await look_up(load_run, last)
        fresh = self.state
        self._adopt(
            before.model_copy(
                update={
                    "past": fresh.past,
                    "is_paused": fresh.is_paused,
                    "news": fresh.news,
                    "started_at": None,
                    "leases": {},
                    "revision": None,
                }
            )
        )
        self._revise(revision)

    def _revise(self, revision: Revision) -> None:
        if revision.clear is not None:
            self._apply(cleared(self.state, revision.clear))
        if revision.mark is not None:
            self._apply(marked(self.state, revision.mark))
        if revision.mark_run is not None:
            self._mark_run(revision.mark_run)

    async def _to_the_end(self) -> RunEnd:
        draining = False
        while True:
            # What is in flight does not carry over: before it goes on as new, a run lets it finish.
            draining = draining or workflow.info().is_continue_as_new_suggested()
            if not draining:
                self._go_on()
            end = self.ended or self.plan.end()
            if end is not None and not self._attempts:
                await self._wind_up(end)
                return end
            if self.ended is not None:
                self._stop_all(self.ended.reason)
            if draining and not self._attempts:
                await self._go_on_as_new()
            workflow.set_current_details(task_table(self.state))
            await workflow.wait_condition(lambda: self._news)
            self._news = False
            if self._defect is not None:
                raise self._defect

    async def _go_on_as_new(self) -> None:
        await self._all_told()
        await workflow.wait_condition(workflow.all_handlers_finished)
        self.state.executions += 1
        workflow.continue_as_new(self.state)

    # What the plan decides

    def _go_on(self) -> None:
        """Everything that follows now. Again and again: a task without work is done at once, and lets others start."""
        while True:
            expanded = self._expand()
            decisions = self.plan.decide()
            for decision in decisions:
                self._follow(decision)
            if not decisions and not expanded:
                break
        self._leases.ask(self._drained(self.plan.wanted_leases))
        self._leases.give_back(self._drained(self.plan.returned_leases))

    @staticmethod
    def _drained(keys: list[str]) -> list[str]:
        taken = [*keys]
        keys.clear()
        return taken

    def _expand(self) -> bool:
        """Makes instances of mapped tasks whose values are known. True if there were any."""
        tasks = self.plan.mappable()
        scopes = dict.fromkeys(self.state.spec.map_scopes[task_id] for task_id in tasks)
        for scope in scopes:
            together = [task_id for task_id in tasks if self.state.spec.map_scopes[task_id] == scope]
            self._expand_scope(scope, together)
        return bool(tasks)

    def _expand_scope(self, scope: str, task_ids: list[str]) -> None:
        try:
            values = self.state.values_of(task_ids[0])
        except (NotMappableError, InvalidInputError) as error:
            for task_id in task_ids:
                self.plan.cannot_expand(task_id, str(error))
            return
        if not values:
            for task_id in task_ids:
                self._move(self.state.instances[task_id], TaskState.SKIPPED, "there is nothing to map it over")
            return
        self._values[scope] = values
        self.state.expand(task_ids, len(values))
        self.plan.expand(task_ids, len(values))

    def _values_for(self, instance: TaskInstance) -> dict[str, Any] | None:
        scope = self.state.spec.map_scopes.get(instance.task_id)
        if scope is None:
            return None
        if scope not in self._values:
            self._values[scope] = self.state.values_of(instance.task_id)
        return self._values[scope][instance.map_index]

    def _follow(self, decision: Decision) -> None:
        instance = self.state.instances[decision.key]
        if decision.state is TaskState.SHUTDOWN:
            self._stop(instance, TaskState.FAILED, decision.reason)
            return
        instance.move(decision.state, decision.reason)
        if decision.state.finished:
            self._end_of(instance)
        elif decision.state is TaskState.QUEUED:
            self._begin(instance)

    def _begin(self, instance: TaskInstance) -> None:
        if not instance.pokes:
            instance.try_number += 1
        instance.queued_at, instance.started_at, instance.ended_at = workflow.now(), None, None
        if isinstance(self.state.spec.by_id[instance.task_id], EmptyTask):
            self._settle(instance, Outcome(started_at=workflow.now()))
        else:
            self._attempts[instance.key] = asyncio.create_task(self._attempt(instance))

    async def _attempt(self, instance: TaskInstance) -> None:
        """Has one try made, and takes note of what came of it."""
        outcome: Outcome | Failure
        try:
            attempt = self.state.attempt(instance, workflow.info().run_id, self._values_for(instance))
            outcome = await work_of(self.state.spec, attempt)
        except FailureError as error:
            outcome = failure_of(error)
        except ValueError as error:  # values that do not fit the fields they are mapped to
            outcome = Failure(error_type=type(error).__name__, message=str(error), retryable=False)
        except Exception as error:  # not the task's: the run has to fail, or it would wait for ever
            self._defect = error
            return
        finally:
            self._attempts.pop(instance.key, None)
            self._news = True
        if instance.key in self._stopping:
            self._stopped(instance, outcome)
        else:
            self._settle(instance, outcome)

    # What comes of it

    def _settle(self, instance: TaskInstance, outcome: Outcome | Failure) -> None:
        """Takes note of the end of a try, and plans another if there is to be one."""
        instance.move(TaskState.RUNNING)
        if isinstance(outcome, Outcome):
            outcome = self._judged(instance, outcome)
        if isinstance(outcome, Outcome) and outcome.state in WAITS:
            self._wait(instance, outcome)
            return
        if isinstance(outcome, Outcome):
            self._count_try(instance, outcome, outcome.state)
            instance.xcom = outcome.xcom
            if instance.skips:
                self.plan.skip(instance.key, instance.skips)
            self._move(instance, outcome.state, outcome.note)
        else:
            self._fail(instance, outcome)

    def _judged(self, instance: TaskInstance, outcome: Outcome) -> Outcome | Failure:
        """*outcome*, or what is wrong with it: too large, a branch to nowhere, a wait that took too long."""
        task = self.state.spec.by_id[instance.task_id]
        if outcome.state is TaskState.FAILED:
            if isinstance(task, WaitingTask) and task.soft_fail:
                return outcome.model_copy(update={"state": TaskState.SKIPPED})
            return Failure(error_type="SensorTimeout", message=outcome.note or "", retryable=False)
        if outcome.state is TaskState.SUCCESS:
            try:
                instance.skips = skipped_tasks(self.state.spec, task, outcome.xcom.get(RETURN_VALUE))
            except InvalidInputError as error:
                return Failure(error_type="InvalidInput", message=str(error))
        return within_budget(outcome, self.state)

    def _count_try(self, instance: TaskInstance, outcome: Outcome | Failure, state: TaskState) -> None:
        """Keeps the try that has ended among those of the instance."""
        now = workflow.now()
        instance.ended_at = now
        started = outcome.started_at if isinstance(outcome, Outcome) else None
        instance.started_at = instance.waiting_since or started or instance.queued_at
        instance.waiting_since, instance.wake_at, instance.pokes = None, None, 0
        instance.attempts.append(
            Attempt(
                try_number=instance.try_number,
                state=state,
                started_at=instance.started_at,
                ended_at=now,
                failure=outcome if isinstance(outcome, Failure) else None,
            )
        )

    def _fail(self, instance: TaskInstance, failure: Failure) -> None:
        task, run = self.state.spec.by_id[instance.task_id], self.state.run
        tries = instance.try_number - instance.tries_cleared
        again = may_retry(task, tries, failure)
        state = TaskState.UP_FOR_RETRY if again else TaskState.FAILED
        self._count_try(instance, failure, state)
        if again:
            instance.retry_at = workflow.now() + retry_delay(task, tries, f"{run.dag_id}#{instance.key}#{run.key}")
        self._move(instance, state, failure.error_type)
        if again:
            self._set_clock(instance)

    def _move(self, instance: TaskInstance, state: TaskState, reason: str | None) -> None:
        """Gives *instance* a state that the plan has not decided, and tells the plan."""
        instance.move(state, reason)
        self.plan.record(instance.key, state)
        if not state.holds_a_worker and state not in WAITS:
            self._leases.give_back([instance.key])
        if state.finished:
            self._end_of(instance)
        self._news = True

    def _end_of(self, instance: TaskInstance) -> None:
        """What else follows from the end of a task."""
        instance.ended_at = instance.ended_at or workflow.now()
        if instance.task_id in self._remembered:
            ended = TasksEnded(key=self.state.run.key, states=self.state.past_for_next)
            self._send(self._tell_dag("tasks_ended", ended))

    # Waiting without a worker

    def _wait(self, instance: TaskInstance, outcome: Outcome) -> None:
        task = self.state.spec.by_id[instance.task_id]
        instance.started_at = outcome.started_at
        instance.waiting_since = instance.waiting_since or outcome.started_at or workflow.now()
        instance.wake_at = outcome.wake_at
        if isinstance(task, PokedTask):
            instance.pokes += 1
            instance.wake_at = workflow.now() + poke_delay(task, instance.pokes)
        self._leases.park(instance.key)
        self._move(instance, outcome.state, outcome.note)
        self._set_clock(instance)

    def _set_clocks(self) -> None:
        """Starts what waits for time alone: the run's own timeout, retries and waits that were carried over."""
        timeout, started = self.state.spec.dagrun_timeout, self.state.started_at
        if timeout is not None and started is not None:
            reason = f"dagrun_timeout of {timeout} was exceeded"
            self._clock("", started + timeout, lambda: self._end_with(RunEnd(RunState.FAILED, reason)))
        for instance in self.state.instances.values():
            if instance.state in WAITS or instance.state is TaskState.UP_FOR_RETRY:
                self._set_clock(instance)

    def _set_clock(self, instance: TaskInstance) -> None:
        until = instance.retry_at if instance.state is TaskState.UP_FOR_RETRY else instance.wake_at
        if until is not None:
            self._clock(instance.key, until, lambda: self._wake(instance))

    def _clock(self, name: str, until: datetime, then: Callable[[], None]) -> None:
        async def tick() -> None:
            await workflow.sleep(max(until - workflow.now(), timedelta()))
            self._clocks.pop(name, None)
            then()
            self._news = True

        self._forget_clock(name)
        self._clocks[name] = asyncio.create_task(tick())

    def _forget_clock(self, name: str) -> None:
        clock = self._clocks.pop(name, None)
        if clock is not None:
            clock.cancel()

    def _wake(self, instance: TaskInstance) -> None:
        """The time has come that *instance* waits for."""
        instance.retry_at = None
        match instance.state:
            case TaskState.UP_FOR_RETRY:
                self._move(instance, TaskState.SCHEDULED, "the retry delay is over")
            case TaskState.UP_FOR_RESCHEDULE:
                self._move(instance, TaskState.SCHEDULED, "the next poke is due")
            case TaskState.DEFERRED:
                self._finish_wait(instance, Outcome(started_at=instance.waiting_since))
            case TaskState.AWAITING_INPUT:
                self._finish_wait(instance, self._unanswered(instance))
            case _:
                pass

    def _unanswered(self, instance: TaskInstance) -> Outcome | Failure:
        task = self.state.spec.by_id[instance.task_id]
        assert isinstance(task, ApprovalTask)  # noqa: S101
        if task.defaults is not None:
            return answer_of(task, Answer(task=instance.key, chosen=task.defaults, by="default"))
        if task.soft_fail:
            return Outcome(state=TaskState.SKIPPED, note="nobody answered in time")
        return Failure(error_type="ApprovalTimeout", message=f"nobody answered within {task.timeout}", retryable=False)

    def _finish_wait(self, instance: TaskInstance, outcome: Outcome | Failure) -> None:
        """A wait without a worker is over, one way or the other."""
        self._forget_clock(instance.key)
        if isinstance(outcome, Failure):
            self._count_try(instance, outcome, TaskState.FAILED)
            self._move(instance, TaskState.FAILED, outcome.error_type)
            return
        self._count_try(instance, outcome, outcome.state)
        instance.xcom = outcome.xcom
        self._move(instance, outcome.state, outcome.note)

    # Changes by people

    def _apply(self, change: Change) -> None:
        """Brings about what a person asked for. What runs is stopped first, and takes its state when it is gone."""
        for key in change.collapse:
            self._values.pop(self.state.spec.map_scopes[key], None)
        for key, state in change.states.items():
            instance = self.state.instances[key]
            self.plan.forget_skips(key)
            self._forget_clock(key)
            if key in self._attempts:
                self._stop(instance, state, change.reason)
                continue
            self._leases.give_back([key])
            self._take(instance, state, change.reason)
        if change.collapse:
            for task_id in change.collapse:
                self.state.collapse(task_id)
            self._replan()
        self._news = True

    def _take(self, instance: TaskInstance, state: TaskState, reason: str) -> None:
        if instance.state is state:
            return
        if state is TaskState.NONE:
            instance.clear()
        self._move(instance, state, reason)

    def _replan(self) -> None:
        """Makes the plan anew: instances have come or gone."""
        self.plan = RunPlan(self.state.spec, self.state.states, self.state.past)
        self.plan.paused = self.state.is_paused
        for instance in self.state.instances.values():
            self.plan.skip(instance.key, instance.skips)
        self._leases = Leases(self.state, self.plan.grant)
        self._leases.ask_again()

    def _stop(self, instance: TaskInstance, then: TaskState, reason: str) -> None:
        """Ends the attempt that is under way; once it is gone the instance takes the state *then*."""
        self._stopping[instance.key] = then
        state = TaskState.RESTARTING if then is TaskState.NONE else TaskState.SHUTDOWN
        if instance.state is not state:
            instance.move(state, reason)
            self.plan.record(instance.key, state)
        self._attempts[instance.key].cancel()

    def _stopped(self, instance: TaskInstance, outcome: Outcome | Failure) -> None:
        then = self._stopping.pop(instance.key)
        self._count_try(instance, outcome, instance.state if then is TaskState.NONE else then)
        reason = instance.reason or "stopped"
        if then is TaskState.NONE:
            instance.clear()
        self._move(instance, then, reason)

    def _mark_run(self, mark: RunMark) -> None:
        self._apply(run_marked(self.state, mark))
        self._end_with(RunEnd(RunState(mark.state), f"marked {mark.state}"))

    def _end_with(self, end: RunEnd) -> None:
        """Ends the run whatever its tasks do: those that run are stopped, the others skipped."""
        self.ended = end
        self._stop_all(end.reason)
        self._news = True

    def _stop_all(self, reason: str) -> None:
        for instance in self.state.instances.values():
            if instance.key in self._stopping:
                continue
            if instance.key in self._attempts:
                self._stop(instance, TaskState.SKIPPED, reason)
            elif not instance.state.finished:
                self._forget_clock(instance.key)
                self._move(instance, TaskState.SKIPPED, reason)

    # The end

    async def _end_early(self, end: RunEnd) -> None:
        """Winds up a run that is being cancelled, and still tells the DAG."""
        self._end_with(end)
        await workflow.wait_condition(lambda: not self._attempts)
        await self._wind_up(end)
        await self._report(end)

    async def _wind_up(self, end: RunEnd) -> None:
        for name in [*self._clocks]:
            self._forget_clock(name)
        if self.ended is not None:
            self._stop_all(end.reason)
        self._leases.give_back([*self.state.leases])
        await self._all_told()

    async def _all_told(self) -> None:
        """Waits for messages on their way: a workflow that closes takes them with it."""
        await self._leases.all_told()
        await workflow.wait_condition(lambda: not self._messages)

    async def _report(self, end: RunEnd) -> None:
        self.ended = end
        workflow.set_current_details(task_table(self.state))
        report = RunReport(
            key=self.state.run.key,
            state=end.state,
            ended_at=workflow.now(),
            reason=end.reason,
            past=self.state.past_for_next,
        )
        await self._tell_dag("run_finished", report)

    async def _tell_dag(self, signal: str, message: RunReport | TasksEnded) -> None:
        dag = workflow.get_external_workflow_handle(dag_workflow_id(self.state.run.dag_id))
        try:
            await dag.signal(signal, message)
        except FailureError:
            workflow.logger.warning("the DAG's workflow is gone; nobody is told of %s", self.state.run.run_id)

    def _send(self, message: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(message)
        self._messages.add(task)
        task.add_done_callback(self._messages.discard)

    # Messages

    @workflow.signal
    def news(self, news: DagNews) -> None:
        """The DAG was paused or unpaused, or a task of the run before has ended."""
        if news.number <= self.state.news:
            return
        self.state.news = news.number
        self.state.is_paused = self.plan.paused = news.is_paused
        if news.past is not None:
            self.state.past = news.past
            self.plan.look_back(news.past)
        self._news = True

    @workflow.signal
    def granted(self, answer: Granted) -> None:
        """A pool has let instances of tasks in."""
        self._leases.granted(answer)
        self._news = True

    @workflow.update
    def clear_tasks(self, request: ClearRequest) -> list[str]:
        """Has tasks run again; those that run are stopped first. Returns the instances."""
        with refusing():
            change = cleared(self.state, request)
        self._apply(change)
        return [*change.states]

    @workflow.update
    def set_task_state(self, request: MarkRequest) -> list[str]:
        """Gives tasks a state without running them; those that run are stopped first. Returns the instances."""
        with refusing():
            change = marked(self.state, request)
        self._apply(change)
        return [*change.states]

    @workflow.update
    def set_state(self, mark: RunMark) -> RunState:
        """Ends the run as success or failed: what runs is stopped, what waits is skipped."""
        self._mark_run(mark)
        return RunState(mark.state)

    @workflow.update
    def respond(self, answer: Answer) -> str:
        """Answers an approval task; the answer is its result."""
        instance = self._awaiting(answer)
        task = self.state.spec.by_id[instance.task_id]
        assert isinstance(task, ApprovalTask)  # noqa: S101
        with refusing():
            outcome = answer_of(task, answer)
        self._finish_wait(instance, outcome)
        return instance.key

    @respond.validator
    def _check_answer(self, answer: Answer) -> None:
        self._awaiting(answer)

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
    def describe(self) -> RunDetails:
        """The run and every task: state, tries, times, and why a task is not running."""
        return run_details(self.state, self._why, self.ended.state if self.ended is not None else None)

    @workflow.query
    def progress(self) -> Progress:
        """How many tasks have finished, and how."""
        return progress(self.state.instances)

    @workflow.query
    def explain(self, task: str) -> str:
        """Why a task, or an instance such as `load[3]`, has the state that it has."""
        instance = self.state.instances.get(task)
        if instance is None:
            return f"there is no task {task!r}; the tasks are: {', '.join(self.state.instances)}"
        return f"{task} is {instance.state}: {self._why(instance)}"

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
        """The instances that a clearing would have run again. Nothing is changed."""
        with refusing():
            return [*cleared(self.state, request).states]

    def _why(self, instance: TaskInstance) -> str:
        return self._leases.error(instance.key) or why(self.plan, instance)


def within_budget(outcome: Outcome, state: DagRunState) -> Outcome | Failure:
    """*outcome*, or a failure if the run's results together would outgrow what Temporal carries."""
    if not outcome.xcom:
        return outcome
    size = sum(len(json.dumps(instance.xcom)) for instance in state.instances.values() if instance.xcom)
    if size + len(json.dumps(outcome.xcom)) > RESULTS_LIMIT:
        told = f"the results of this run's tasks together exceed {RESULTS_LIMIT:,} bytes. Return paths instead of data"
        return Failure(error_type="ResultsTooLarge", message=told, retryable=False)
    return outcome
