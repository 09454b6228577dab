"""The tasks of one run: starts what the plan says, takes note of what comes of it, and waits where that is all.

The run's workflow owns one of these, and says when the run is over.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

from ...activities.names import MOST_STARTS
from ...model.errors import InvalidInputError
from ...model.run.attempts import inline_limit
from ...model.run.branching import skipped_tasks
from ...model.run.changes import Change, answer_of, run_marked
from ...model.run.deferrals import Deferral, TriggerEnd
from ...model.run.forms import unanswered
from ...model.run.mapping import NotMappableError
from ...model.run.messages import Answer
from ...model.run.planner import Decision, RunEnd, RunPlan
from ...model.run.ready_tasks import needs_lease
from ...model.run.revisions import RunMark
from ...model.run.state import DagRunState
from ...model.run.task_instances import Attempt, Failure, Outcome, TaskInstance, may_retry, poke_delay, retry_delay
from ...model.run.views import why
from ...model.spec.notifiers import Event
from ...model.spec.references import RETURN_VALUE
from ...model.spec.tasks import AirflowTask, ApprovalTask, EmptyTask, PokedTask, WaitingTask
from ...model.states import RunState, TaskState
from .. import lineage, metrics
from ..command_budget import CommandBudget
from .asset_events import AssetEvents
from .clocks import Clocks
from .deadlines import Deadlines
from .leases import Leases
from .notices import Notices
from .pool_messages import TOGETHER
from .task_work import failure_of, work_of
from .triggers import Triggers

RESULTS_LIMIT = 1_000_000
EVENTS = {
    TaskState.SUCCESS: Event.ON_SUCCESS,
    TaskState.FAILED: Event.ON_FAILURE,
    TaskState.UP_FOR_RETRY: Event.ON_RETRY,
    TaskState.SKIPPED: Event.ON_SKIPPED,
}
WAITS = (TaskState.DEFERRED, TaskState.AWAITING_INPUT, TaskState.UP_FOR_RESCHEDULE)


class RunTasks:
    """The tasks of a run and all that is under way for them. *task_ended* is called at each end of a task."""

    def __init__(self, state: DagRunState, task_ended: Callable[[TaskInstance], None]) -> None:
        state.fill()
        self.state = state
        self.ended: RunEnd | None = None
        """How the run ends whatever its tasks do; None: as they do."""
        self._task_ended = task_ended
        self._news = False
        self._defect: Exception | None = None
        self._attempts: dict[str, asyncio.Task[None]] = {}
        self._stopping: dict[str, TaskState] = {}
        self.notices = Notices(state)
        self.assets = AssetEvents(state)
        self._clocks = Clocks(self._fail_run)
        self._triggers = Triggers(state, self._trigger_ended, self._fail_run)
        self._deadlines = Deadlines(state, self._clocks, self.notices)
        self._values: dict[str, list[dict[str, Any]]] = {}
        self._results_size = sum(len(json.dumps(i.xcom, default=str)) for i in state.instances.values() if i.xcom)
        self._budget = CommandBudget()
        self._asks_once = False
        self._make_plan()
        self.leases = Leases(self.state, self.plan)

    def _make_plan(self) -> None:
        self.plan = RunPlan(self.state.spec, self.state.states, self.state.past, self.state.parallelism)
        self.plan.paused = self.state.is_paused
        for instance in self.state.instances.values():
            self.plan.skip(instance.key, instance.skips)

    def start(self) -> None:
        """Takes up what an earlier execution of the run left: leases asked for, and waits for time."""
        leases = any(needs_lease(task, self.state.parallelism) for task in self.state.spec.tasks)
        self._asks_once = leases and workflow.patched(TOGETHER)
        self._go_on_asking()
        self.leases.ask_again()
        self._set_clocks()

    def _go_on_asking(self) -> None:
        """Tells a new plan what has been asked for."""
        if self._asks_once:
            self.plan.ask_ahead()
            self.plan.asked(self.leases.unanswered)

    @property
    def busy(self) -> bool:
        """Whether an attempt is under way."""
        return bool(self._attempts)

    def under_way_since(self, time: datetime) -> bool:
        """Whether an attempt has been under way since *time* or before."""
        queued = (self.state.instances[key].queued_at for key in self._attempts)
        return any(at is not None and at <= time for at in queued)

    async def something_happens(self, within: timedelta | None = None) -> None:
        """Waits for the next thing that may change what the plan says, no longer than *within*."""
        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(lambda: self._news, timeout=within)
        self._news = False
        if self._defect is not None:
            raise self._defect

    def ring(self) -> None:
        """Something has happened."""
        self._news = True

    # What the plan decides

    def go_on(self) -> None:
        """Everything that follows now. Again and again: a task without work is done at once, and lets others start."""
        self.plan.carry_out(self._expand, self._follow)
        wanted, returned = self._drained(self.plan.wanted_leases), self._drained(self.plan.returned_leases)
        # Returned and wanted again in one step: asking returns what was held, and what is asked for is to stay.
        again = {*wanted} & {*returned}
        if again and workflow.patched("keeps-what-is-asked-again"):
            returned = [key for key in returned if key not in again]
        self.leases.ask(wanted)
        self.leases.give_back(returned)

    def hold(self) -> None:
        """Starts nothing more: slots that pools have granted are given back."""
        self.plan.hold()
        self.leases.give_back(self._drained(self.plan.returned_leases))

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
            self._clocks.forget(instance.key)
            self._triggers.stop(instance.key)
            self.leases.give_back([instance.key])
            self._end_of(instance)
        elif decision.state is TaskState.QUEUED:
            self._begin(instance)

    def _begin(self, instance: TaskInstance) -> None:
        if not instance.pokes:
            instance.try_number += 1
            instance.xcom = {}
            lineage.task_started(self.state, instance)
            self.notices.tell(Event.ON_EXECUTE, instance)
        instance.queued_at, instance.started_at, instance.ended_at = workflow.now(), None, None
        if isinstance(self.state.spec.by_id[instance.task_id], EmptyTask):
            self._settle(instance, Outcome(started_at=workflow.now()))
        else:
            attempt = asyncio.create_task(self._attempt(instance))
            self._attempts[instance.key] = attempt
            attempt.add_done_callback(partial(self._never_began, instance))

    def _never_began(self, instance: TaskInstance, attempt: asyncio.Task[None]) -> None:
        """Ends an attempt that was stopped in the workflow task that made it: none of its own code has run."""
        if self._attempts.get(instance.key) is not attempt or not workflow.patched("ends-unbegun-attempts"):
            return
        del self._attempts[instance.key]
        self._news = True
        self._finish(instance, Failure(error_type="Cancelled", message="the attempt was cancelled", retryable=False))

    async def _attempt(self, instance: TaskInstance) -> None:
        """Has one try made, and takes note of what came of it."""
        outcome: Outcome | Failure
        try:
            values, limit = self._values_for(instance), inline_limit(self._results_size)
            attempt = self.state.attempt(instance, workflow.info().run_id, values, limit)
            await self._budget.take(len(attempt.model_dump_json()))
            outcome = await work_of(self.state.spec, attempt)
        except FailureError as error:
            outcome = failure_of(error, self.state.spec.by_id[instance.task_id].max_starts or MOST_STARTS)
        except asyncio.CancelledError:  # stopped before there was anything to stop
            outcome = Failure(error_type="Cancelled", message="the attempt was cancelled", retryable=False)
        except (ValueError, LookupError) as error:  # values that do not fit what they are mapped to
            outcome = Failure(error_type=type(error).__name__, message=str(error), retryable=False)
        except Exception as error:
            self._fail_run(error)
            return
        finally:
            self._attempts.pop(instance.key, None)
            self._news = True
        self._finish(instance, outcome)

    def _finish(self, instance: TaskInstance, outcome: Outcome | Failure) -> None:
        """Apply what an attempt came to. A defect of ours fails the run."""
        try:
            if instance.key in self._stopping:
                self._stopped(instance, outcome)
            else:
                self._settle(instance, outcome)
        except Exception as error:
            self._fail_run(error)

    def _fail_run(self, error: Exception) -> None:
        """What is not the task's fault: the run has to fail, or it would wait for ever."""
        self._defect = error
        self._news = True

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
            instance.xcom = {**instance.xcom, **self._kept(instance, outcome)}
            instance.mapped_length, instance.map_label = outcome.mapped_length, outcome.map_label
            if instance.skips:
                self.plan.skip(instance.key, instance.skips)
            if outcome.state is TaskState.SUCCESS:
                self.assets.tell(instance, outcome.asset_events)
            self._move(instance, outcome.state, outcome.note)
        else:
            self._fail(instance, outcome)

    def _kept(self, instance: TaskInstance, outcome: Outcome) -> dict[str, Any]:
        """What others may pull: with do_xcom_push=False, only what the task has pushed itself."""
        if self.state.spec.by_id[instance.task_id].do_xcom_push:
            return outcome.xcom
        return {key: value for key, value in outcome.xcom.items() if key != RETURN_VALUE}

    def _judged(self, instance: TaskInstance, outcome: Outcome) -> Outcome | Failure:
        """*outcome*, or what is wrong with it: too large, a branch to nowhere, a wait that took too long."""
        task = self.state.spec.by_id[instance.task_id]
        if outcome.state is TaskState.FAILED:
            if isinstance(task, WaitingTask) and task.soft_fail:
                return outcome.model_copy(update={"state": TaskState.SKIPPED})
            return Failure(error_type="SensorTimeout", message=outcome.note or "", retryable=False)
        if outcome.state is TaskState.SUCCESS:
            try:
                said = tuple(task_id for task_id in outcome.skips if task_id in self.state.spec.by_id)
                instance.skips = said or skipped_tasks(self.state.spec, task, outcome.xcom.get(RETURN_VALUE))
            except InvalidInputError as error:
                return Failure(error_type="InvalidInput", message=str(error))
            owns = self.state.spec.owns
            refused = owns and owns.first_problem(("asset", said.asset.name) for said in outcome.asset_events)
            if refused:
                return Failure(error_type="NotOwned", message=refused, retryable=False)
        return self._within_budget(outcome)

    def _within_budget(self, outcome: Outcome) -> Outcome | Failure:
        """*outcome*, or a failure if the run's results together would outgrow what Temporal carries."""
        size = len(json.dumps(outcome.xcom, default=str)) if outcome.xcom else 0
        if size and self._results_size + size > RESULTS_LIMIT:
            told = (
                f"the result has {size:,} bytes, and with it the results of this run's tasks have more than "
                f"{RESULTS_LIMIT:,}. Return paths instead"
            )
            return Failure(error_type="ResultsTooLarge", message=told, retryable=False)
        self._results_size += size
        return outcome

    def _count_try(self, instance: TaskInstance, outcome: Outcome | Failure, state: TaskState) -> None:
        """Keeps the try that has ended among those of the instance."""
        now = workflow.now()
        failure = outcome if isinstance(outcome, Failure) else None
        instance.ended_at = now
        started = outcome.started_at if isinstance(outcome, Outcome) else None
        instance.started_at = instance.waiting_since or started or instance.queued_at
        instance.waiting_since, instance.wake_at, instance.pokes, instance.deferral = None, None, 0, None
        instance.attempts.append(
            Attempt(
                try_number=instance.try_number,
                state=state,
                started_at=instance.started_at,
                ended_at=now,
                failure=failure,
            )
        )
        said = outcome.asset_events if isinstance(outcome, Outcome) else ()
        lineage.task_ended(self.state, instance, state, failure, said)
        told = f"{outcome.error_type}: {outcome.message}" if isinstance(outcome, Failure) else outcome.note
        if state in EVENTS:
            self.notices.tell(EVENTS[state], instance, state, told)

    def _fail(self, instance: TaskInstance, failure: Failure) -> None:
        task, run = self.state.spec.by_id[instance.task_id], self.state.run
        tries = instance.try_number - instance.tries_cleared
        again = may_retry(task, tries, failure)
        state = TaskState.UP_FOR_RETRY if again else TaskState.FAILED
        self._count_try(instance, failure.model_copy(update={"xcom": {}}) if failure.xcom else failure, state)
        instance.xcom = {**instance.xcom, **failure.xcom}
        if again:
            delay = failure.retry_delay
            if delay is None:
                delay = retry_delay(task, tries, f"{run.dag_id}#{instance.key}#{run.key}")
            instance.retry_at = workflow.now() + delay
        self._move(instance, state, failure.error_type)
        if again:
            self._set_clock(instance)

    def _move(self, instance: TaskInstance, state: TaskState, reason: str | None) -> None:
        """Gives *instance* a state that the plan has not decided, and tells the plan."""
        instance.move(state, reason)
        self.plan.record(instance.key, state)
        if not state.holds_a_worker and state not in WAITS:
            self.leases.give_back([instance.key])
        if state.finished:
            self._end_of(instance)
        self._news = True

    def _end_of(self, instance: TaskInstance) -> None:
        """What else follows from the end of a task."""
        instance.ended_at = instance.ended_at or workflow.now()
        metrics.task_ended(self.state, instance)
        self._task_ended(instance)

    # Waiting without a worker

    def _wait(self, instance: TaskInstance, outcome: Outcome) -> None:
        task = self.state.spec.by_id[instance.task_id]
        instance.started_at = outcome.started_at
        instance.waiting_since = instance.waiting_since or outcome.started_at or workflow.now()
        instance.wake_at = outcome.wake_at
        if isinstance(task, PokedTask):
            instance.pokes += 1
            instance.wake_at = workflow.now() + poke_delay(task, instance.pokes)
        elif isinstance(task, AirflowTask):
            instance.pokes += 1
            instance.xcom = {**instance.xcom, **outcome.xcom}
            instance.deferral = outcome.deferral
            instance.wake_at = outcome.wake_at if outcome.deferral is None else outcome.deferral.alarm
        if outcome.state is TaskState.UP_FOR_RESCHEDULE:  # as in Airflow it counts nowhere between two pokes
            self.leases.give_back([instance.key])
        else:
            self.leases.park(instance.key)
        self._move(instance, outcome.state, outcome.note)
        self._set_clock(instance)
        self._triggers.begin(instance)

    def _set_clocks(self) -> None:
        """Starts what waits for time alone: the run's own timeout, retries and waits that were carried over."""
        timeout, started = self.state.spec.dagrun_timeout, self.state.started_at
        if timeout is not None and started is not None:
            reason = f"dagrun_timeout of {timeout} was exceeded"
            self._clocks.set("", started + timeout, lambda: self.end_with(RunEnd(RunState.FAILED, reason)))
        self._deadlines.set()
        for instance in self.state.instances.values():
            if instance.state in WAITS or instance.state is TaskState.UP_FOR_RETRY:
                self._set_clock(instance)
                self._triggers.begin(instance)

    def _set_clock(self, instance: TaskInstance) -> None:
        until = instance.retry_at if instance.state is TaskState.UP_FOR_RETRY else instance.wake_at
        if until is not None:
            self._clocks.set(instance.key, until, lambda: self._wake(instance))

    def _wake(self, instance: TaskInstance) -> None:
        """The time has come that *instance* waits for."""
        instance.retry_at, self._news = None, True
        if instance.deferral is not None and instance.state in WAITS:
            self._end_wait(instance, instance.deferral)
            return
        match instance.state:
            case TaskState.UP_FOR_RETRY:
                self._move(instance, TaskState.SCHEDULED, "the retry delay is over")
            case TaskState.UP_FOR_RESCHEDULE:
                self._move(instance, TaskState.SCHEDULED, "the next poke is due")
            case TaskState.DEFERRED:
                self.finish_wait(instance, Outcome(started_at=instance.waiting_since))
            case TaskState.AWAITING_INPUT:
                self.finish_wait(instance, self._unanswered(instance))
            case _:
                pass

    def _end_wait(self, instance: TaskInstance, deferral: Deferral) -> None:
        """The moment has come that a try waits for, or that ends its wait."""
        now = workflow.now()
        if instance.state is TaskState.AWAITING_INPUT:
            self.resume(instance, deferral.woken(unanswered(deferral.form, now)))
        elif deferral.moment is None or now < deferral.moment:
            self._triggers.stop(instance.key)
            self.resume(instance, deferral.failed("Trigger timeout"))
        elif deferral.ends_task:
            self._end_by_trigger(instance, deferral, TaskState.SUCCESS)
        else:
            self.resume(instance, deferral.woken(deferral.event))

    def _trigger_ended(self, instance: TaskInstance, deferral: Deferral, end: TriggerEnd) -> None:
        """A trigger has said what has happened."""
        instance.xcom = {**instance.xcom, **end.xcom}
        if end.error is not None:
            self.resume(instance, deferral.failed(end.error, end.traceback))
        elif end.ended is None:
            self.resume(instance, deferral.woken(end.event))
        else:
            self._end_by_trigger(instance, deferral, TaskState(end.ended))

    def _end_by_trigger(self, instance: TaskInstance, deferral: Deferral, state: TaskState) -> None:
        """Its trigger has ended the task. Callbacks of a failure are called by a process of the task's (as in Airflow:
        only those)."""
        task = self.state.spec.by_id[instance.task_id]
        self._clocks.forget(instance.key)
        if state is not TaskState.FAILED:
            self.finish_wait(instance, Outcome(state=state, started_at=instance.waiting_since, xcom=instance.xcom))
        elif isinstance(task, AirflowTask) and task.calls_back:
            self.resume(instance, deferral.failed_by_trigger())
        else:
            self._fail(instance, Failure(error_type="TriggerFailed", message="its trigger has ended the task"))

    def resume(self, instance: TaskInstance, deferral: Deferral) -> None:
        """A try that has waited outside of a worker goes on."""
        self._clocks.forget(instance.key)
        instance.deferral, instance.wake_at = deferral, None
        self._move(instance, TaskState.SCHEDULED, "what it waited for has come")

    def _unanswered(self, instance: TaskInstance) -> Outcome | Failure:
        task = self.state.spec.by_id[instance.task_id]
        assert isinstance(task, ApprovalTask)  # noqa: S101
        if task.defaults is not None:
            return answer_of(task, Answer(task=instance.key, chosen=task.defaults, by="default"))
        if task.soft_fail:
            return Outcome(state=TaskState.SKIPPED, note="nobody answered in time")
        return Failure(error_type="ApprovalTimeout", message=f"nobody answered within {task.timeout}", retryable=False)

    def finish_wait(self, instance: TaskInstance, outcome: Outcome | Failure) -> None:
        """A wait without a worker is over, one way or the other."""
        self._clocks.forget(instance.key)
        if isinstance(outcome, Failure):
            self._count_try(instance, outcome, TaskState.FAILED)
            self._move(instance, TaskState.FAILED, outcome.error_type)
            return
        self._count_try(instance, outcome, outcome.state)
        instance.xcom = outcome.xcom
        if outcome.state is TaskState.SUCCESS:
            self.assets.tell(instance, outcome.asset_events)
        self._move(instance, outcome.state, outcome.note)

    # Changes by people

    def apply(self, change: Change) -> None:
        """Brings about what a person asked for. What runs is stopped first, and takes its state when it is gone."""
        for key in change.collapse:
            self._values.pop(self.state.spec.map_scopes[key], None)
        for key, state in change.states.items():
            instance = self.state.instances[key]
            self.plan.forget_skips(key)
            self._clocks.forget(key)
            self._triggers.stop(key)
            if key in self._attempts:
                self._stop(instance, state, change.reason)
                continue
            self.leases.give_back([key])
            self._take(instance, state, change.reason)
        if change.collapse:
            for task_id in change.collapse:
                self.state.collapse(task_id)
            self._make_plan()
            if self._asks_once:
                self.leases.follow(self.plan)
            else:
                self.leases = Leases(self.state, self.plan)
            self._go_on_asking()
            self.leases.ask_again()
        self._news = True

    def _take(self, instance: TaskInstance, state: TaskState, reason: str) -> None:
        if instance.state is state:
            return
        if state is TaskState.NONE:
            instance.clear()
        self._move(instance, state, reason)

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

    def mark_run(self, mark: RunMark) -> None:
        self.apply(run_marked(self.state, mark))
        self.end_with(RunEnd(RunState(mark.state), f"marked {mark.state}"))

    def end_with(self, end: RunEnd) -> None:
        """Ends the run whatever its tasks do: those that run are stopped, the others skipped."""
        self.ended = end
        self.stop_all(end.reason)
        self._news = True

    def stop_all(self, reason: str) -> None:
        for instance in self.state.instances.values():
            if instance.key in self._stopping:
                continue
            if instance.key in self._attempts:
                self._stop(instance, TaskState.SKIPPED, reason)
            elif not instance.state.finished:
                self._clocks.forget(instance.key)
                self._triggers.stop(instance.key)
                self._move(instance, TaskState.SKIPPED, reason)

    async def wind_up(self, end: RunEnd) -> None:
        """The run is over: nothing is waited for, and nothing is held, any more."""
        self._clocks.forget_all()
        self._triggers.stop_all()
        if self.ended is not None:
            self.stop_all(end.reason)
        self.leases.give_back([*self.state.leases])
        self.notices.tell(
            Event.ON_SUCCESS if end.state is RunState.SUCCESS else Event.ON_FAILURE,
            None,
            end.state,
            end.reason,
        )
        await self.all_told()

    async def all_told(self) -> None:
        """Waits for messages on their way: a workflow that closes takes them with it."""
        await self.leases.all_told()
        await self.notices.all_told()
        await self._triggers.all_stopped()
        await workflow.wait_condition(lambda: self.assets.all_told)

    def leave_triggers(self) -> None:
        """The run's next execution watches them."""
        self._triggers.leave()

    async def all_stopped(self) -> None:
        """Waits until no attempt is under way."""
        await workflow.wait_condition(lambda: not self._attempts)

    def why(self, instance: TaskInstance) -> str:
        """Why *instance* has its state."""
        return self.leases.why(instance.key) or why(self.plan, instance)
