"""One run from its first task to its last.

A thin shell: what happens next is decided by `model.scheduling`; this starts what it says, awaits
what comes of it, and tells it.
"""

import asyncio
import json
from datetime import timedelta
from typing import Any

from temporalio import exceptions, workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, is_cancelled_exception

from ..activities.names import TASK_FAILED
from ..model.dag_state import RunReport
from ..model.run_state import DagRunState, Progress, progress, task_table
from ..model.runs import dag_workflow_id
from ..model.scheduling import Decision, RunEnd, RunPlan
from ..model.states import RunState, TaskState
from ..model.task_instances import Attempt, Failure, Outcome, TaskInstance, may_retry, retry_delay
from ..model.views import RunDetails, run_details, why
from .calls import INFRASTRUCTURE, TIMEOUT_GRACE, UNBOUNDED

RESULTS_LIMIT = 1_000_000


@workflow.defn(name="DagRun")
class DagRunWorkflow:
    """One run of a DAG, with the version of the DAG that it was created with."""

    @workflow.init
    def __init__(self, state: DagRunState) -> None:
        state.fill()
        self.state = state
        self.plan = RunPlan(state.spec, {task_id: i.state for task_id, i in state.instances.items()})
        self.ended: RunEnd | None = None
        self._news = False
        self._defect: Exception | None = None
        self._attempts: dict[str, asyncio.Task[None]] = {}
        self._clocks: set[asyncio.Task[None]] = set()

    @workflow.run
    async def run(self, _: DagRunState) -> str:
        """Runs every task that can run, tells the DAG how the run ended, and fails if the run failed."""
        self.state.started_at = self.state.started_at or workflow.now()
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

    async def _to_the_end(self) -> RunEnd:
        draining = False
        while True:
            # What is in flight does not carry over: before it goes on as new, a run lets it finish.
            draining = draining or workflow.info().is_continue_as_new_suggested()
            if not draining:
                # Again and again: a task without work is done at once, and lets others start.
                while decisions := self.plan.decide():
                    for decision in decisions:
                        self._follow(decision)
            end = self.ended or self.plan.end()
            if end is not None:
                await self._stop_attempts()
                return end
            if draining and not self._attempts:
                await workflow.wait_condition(workflow.all_handlers_finished)
                self.state.executions += 1
                workflow.continue_as_new(self.state)
            workflow.set_current_details(task_table(self.state))
            await workflow.wait_condition(lambda: self._news)
            self._news = False
            if self._defect is not None:
                raise self._defect

    # What the plan decides

    def _follow(self, decision: Decision) -> None:
        instance = self.state.instances[decision.task_id]
        instance.move(decision.state, decision.reason)
        if decision.state.finished:
            instance.ended_at = workflow.now()
        elif decision.state is TaskState.QUEUED:
            self._begin(instance)

    def _begin(self, instance: TaskInstance) -> None:
        task = self.state.spec.by_id[instance.task_id]
        instance.try_number += 1
        instance.queued_at, instance.started_at, instance.ended_at = workflow.now(), None, None
        if task.activity is None:
            self._settle(instance, Outcome(started_at=workflow.now()))
        else:
            self._attempts[instance.task_id] = asyncio.create_task(self._attempt(instance, task.activity))

    async def _attempt(self, instance: TaskInstance, activity: str) -> None:
        """Has one try made, and takes note of what came of it."""
        task = self.state.spec.by_id[instance.task_id]
        timeout = task.execution_timeout
        try:
            outcome = await workflow.execute_activity(
                activity,
                self.state.attempt(task, workflow.info().run_id),
                activity_id=f"{task.task_id}/{instance.try_number}",
                result_type=Outcome,
                task_queue=task.queue,
                start_to_close_timeout=UNBOUNDED if timeout is None else timeout + TIMEOUT_GRACE,
                heartbeat_timeout=self.state.spec.heartbeat_timeout,
                retry_policy=INFRASTRUCTURE,
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary=f"{task.task_id}, try {instance.try_number}",
            )
        except ActivityError as error:
            self._settle(instance, failure_of(error))
        except Exception as error:  # not the task's: the run has to fail, or it would wait for ever
            self._defect = error
        else:
            self._settle(instance, outcome)
        finally:
            self._attempts.pop(instance.task_id, None)
            self._news = True

    # What comes of it

    def _settle(self, instance: TaskInstance, outcome: Outcome | Failure) -> None:
        """Takes note of the end of a try, and plans another if there is to be one."""
        now = workflow.now()
        instance.move(TaskState.RUNNING)
        instance.ended_at = now
        if isinstance(outcome, Outcome):
            outcome = within_budget(outcome, self.state)
        if isinstance(outcome, Outcome):
            instance.started_at = outcome.started_at or instance.queued_at
            instance.xcom = outcome.xcom
            instance.move(outcome.state, outcome.note)
            failure = None
        else:
            failure = outcome
            task = self.state.spec.by_id[instance.task_id]
            again = may_retry(task, instance.try_number, failure)
            instance.move(TaskState.UP_FOR_RETRY if again else TaskState.FAILED, failure.error_type)
            if again:
                delay = retry_delay(
                    task, instance.try_number, f"{self.state.run.dag_id}#{task.task_id}#{self.state.run.key}"
                )
                instance.retry_at = now + delay
                self._clock(self._retry_later(instance))
        instance.attempts.append(
            Attempt(
                try_number=instance.try_number,
                state=instance.state,
                started_at=instance.started_at or instance.queued_at,
                ended_at=now,
                failure=failure,
            )
        )
        self.plan.record(instance.task_id, instance.state)

    async def _retry_later(self, instance: TaskInstance) -> None:
        assert instance.retry_at is not None  # noqa: S101
        await workflow.sleep(max(instance.retry_at - workflow.now(), timedelta()))
        instance.retry_at = None
        instance.move(TaskState.SCHEDULED, "the retry delay is over")
        self.plan.record(instance.task_id, TaskState.SCHEDULED)
        self._news = True

    def _set_clocks(self) -> None:
        """Starts what waits for time alone: the run's own timeout, and retries carried over."""
        timeout, started = self.state.spec.dagrun_timeout, self.state.started_at
        if timeout is not None and started is not None:
            self._clock(self._time_out(max(started + timeout - workflow.now(), timedelta())))
        for instance in self.state.instances.values():
            if instance.state is TaskState.UP_FOR_RETRY:
                self._clock(self._retry_later(instance))

    async def _time_out(self, after: timedelta) -> None:
        await workflow.sleep(after)
        self.ended = RunEnd(RunState.FAILED, f"dagrun_timeout of {self.state.spec.dagrun_timeout} was exceeded")
        self._news = True

    def _clock(self, waiting: Any) -> None:
        clock = asyncio.create_task(waiting)
        self._clocks.add(clock)
        clock.add_done_callback(self._clocks.discard)

    # The end

    async def _end_early(self, end: RunEnd) -> None:
        """Winds up a run that is being cancelled, and still tells the DAG."""
        self.ended = end
        await self._stop_attempts()
        await self._report(end)

    async def _stop_attempts(self) -> None:
        """Cancels what still runs and waits until it is gone; unfinished tasks are skipped, as in Airflow."""
        attempts = [*self._attempts.values()]
        for attempt in attempts:
            attempt.cancel()
        if attempts:
            await workflow.wait(attempts)
        for clock in self._clocks:
            clock.cancel()
        if self.ended is not None:
            for instance in self.state.instances.values():
                if not instance.state.finished:
                    instance.move(TaskState.SKIPPED, self.ended.reason)
                    instance.ended_at = workflow.now()

    async def _report(self, end: RunEnd) -> None:
        self.ended = end
        workflow.set_current_details(task_table(self.state))
        report = RunReport(key=self.state.run.key, state=end.state, ended_at=workflow.now(), reason=end.reason)
        dag = workflow.get_external_workflow_handle(dag_workflow_id(self.state.run.dag_id))
        try:
            await dag.signal("run_finished", report)
        except FailureError:
            workflow.logger.warning("the DAG's workflow is gone; nobody is told that %s ended", self.state.run.run_id)

    # Questions

    @workflow.query
    def describe(self) -> RunDetails:
        """The run and every task: state, tries, times, and why a task is not running."""
        return run_details(self.state, self.plan, self.ended.state if self.ended is not None else None)

    @workflow.query
    def progress(self) -> Progress:
        """How many tasks have finished, and how."""
        return progress(self.state.instances)

    @workflow.query
    def explain(self, task_id: str) -> str:
        """Why a task has the state that it has."""
        instance = self.state.instances.get(task_id)
        if instance is None:
            return f"there is no task {task_id!r}; the tasks are: {', '.join(self.state.instances)}"
        return f"{task_id} is {instance.state}: {why(self.plan, instance)}"


def within_budget(outcome: Outcome, state: DagRunState) -> Outcome | Failure:
    """*outcome*, or a failure if the run's results together would outgrow what Temporal carries."""
    size = sum(len(json.dumps(instance.xcom)) for instance in state.instances.values() if instance.xcom)
    if outcome.xcom and size + len(json.dumps(outcome.xcom)) > RESULTS_LIMIT:
        told = f"the results of this run's tasks together exceed {RESULTS_LIMIT:,} bytes. Return paths instead of data"
        return Failure(error_type="ResultsTooLarge", message=told, retryable=False)
    return outcome


def failure_of(error: ActivityError) -> Failure:
    """What a failed try failed of: the task's own report, or what happened to its worker."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == TASK_FAILED and cause.details:
        return Failure.model_validate(cause.details[0])
    if isinstance(cause, exceptions.TimeoutError):
        kind = cause.type.name.lower() if cause.type is not None else "unknown"
        starts = INFRASTRUCTURE.maximum_attempts
        return Failure(
            error_type="WorkerLost", message=f"no worker finished the attempt: {kind} timeout, {starts} starts"
        )
    if cause is not None and is_cancelled_exception(cause):
        return Failure(error_type="Cancelled", message="the attempt was cancelled", retryable=False)
    return Failure(error_type="Infrastructure", message=str(cause or error))
