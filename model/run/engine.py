"""What follows in a run from what happens to it: the same in its workflow and in a run without a server.

A driver tells the engine what has happened: an attempt has ended, a time has come, a trigger has ended, a person
changes something. The engine changes the run's state, and tells the driver what is to be done, in its order. It reads
no clock, waits for nothing and starts nothing by itself.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from ..asset.outlets import OutletEvent
from ..errors import InvalidInputError
from ..spec.references import RETURN_VALUE
from ..spec.tasks import AirflowTask, ApprovalTask, EmptyTask, PokedTask, SparkWork, Task, TimeTask, WaitingTask
from ..states import WAITS, RunState, TaskState
from .attempts import TaskAttempt, inline_limit
from .branching import SKIPMIXIN, skipped_as_pushed, skipped_tasks
from .changes import Change, answer_of, form_of, run_marked
from .deferrals import Deferral, TriggerEnd
from .forms import kept_form, response_of_defaults, unanswered
from .instance_keys import UNMAPPED
from .mapping import NotMappableError
from .messages import Answer
from .moments import timed_out
from .planner import Decision, RunEnd, RunPlan
from .revisions import RunMark
from .state import DagRunState
from .task_instances import Attempt, Failure, Outcome, TaskInstance, may_retry, poke_delay, retry_delay

RESULTS_LIMIT = 1_000_000
"""Bytes that the results of a run's tasks may have together: more is no history's to carry."""
PUSHED_LIMIT = 256_000
"""Bytes that failed tasks of a run may have pushed together; what is more is dropped, and fails nobody."""
MAX_DISRUPTIONS = 10
"""So many tries of a task may its cluster end at no cost."""
DISRUPTION_DELAY = timedelta(seconds=30)
"""When another try is begun for one that its cluster has ended."""
CANCELLED = Failure(error_type="Cancelled", message="the attempt was cancelled", retryable=False)
"""What an attempt comes to that was stopped before there was anything to stop."""
GIVES_UP = frozenset({"TaskTimeout", "AirflowTaskTimeout", "AirflowSensorTimeout", "AirflowFailException"})
"""Failures of a sensor that are no defect of it: what it waits for does not come."""


class RunDriver(Protocol):
    """Does what the engine decides; each method returns at once."""

    def current_time(self) -> datetime:
        """The time of what happens now."""
        ...

    def changed(self) -> None:
        """Something may follow: `RunEngine.go_on` has to be called."""
        ...

    def softens_failures(self) -> bool:
        """Whether `soft_fail` is for failures, too: the history of a run may be older. Asked where it matters alone."""
        ...

    # Attempts

    def is_under_way(self, key: str) -> bool:
        """Whether an attempt of the instance *key* was started, and has not ended."""
        ...

    def start_attempt(self, instance: TaskInstance) -> None:
        """Have the present try of *instance* made, and tell `RunEngine.end_attempt` what came of it."""
        ...

    def stop_attempt(self, key: str) -> None:
        """End the attempt that is under way. `RunEngine.end_attempt` is told as of any other."""
        ...

    # Waits

    def set_timer(self, instance: TaskInstance, until: datetime) -> None:
        """Call `RunEngine.wake` at *until*. An earlier timer of the instance is forgotten."""
        ...

    def forget_timer(self, key: str) -> None:
        """Do not call it."""
        ...

    def begin_trigger(self, instance: TaskInstance) -> None:
        """Watch for what *instance* waits for, if something watches for that; see `RunEngine.end_trigger`."""
        ...

    def stop_trigger(self, key: str) -> None:
        """Watch no more: somebody has ended the wait."""
        ...

    # Slots of pools

    def exchange_slots(self, wanted: Sequence[str], returned: Sequence[str]) -> bool:
        """Ask for slots for the instances *wanted*, and give those of *returned* back.

        Returns whether some of *wanted* have been let in at once, and the plan knows of it.
        """
        ...

    def return_slots(self, keys: Sequence[str]) -> None:
        """Give back what the instances *keys* hold or wait for."""
        ...

    def park_slots(self, key: str) -> None:
        """The instance *key* waits without a worker."""
        ...

    def replan(self) -> None:
        """The engine has made its plan anew."""
        ...

    # What others are told

    def tears_down(self) -> bool:
        """Whether teardowns go on where a run ends early: not in a history of a release before."""
        ...

    def tell_of_try(self, instance: TaskInstance) -> None:
        """A try begins."""
        ...

    def tell_of_end_of_try(
        self, instance: TaskInstance, state: TaskState, outcome: Outcome | Failure, reason: str | None
    ) -> None:
        """A try has come to *state*, which may be UP_FOR_RETRY."""
        ...

    def tell_of_assets(self, instance: TaskInstance, events: tuple[OutletEvent, ...]) -> None:
        """A task has succeeded that may have outlets; *events* are what it has said of them itself."""
        ...

    def tell_of_end(self, instance: TaskInstance) -> None:
        """A task has ended."""
        ...


class RunEngine:
    """Decides for one run. Nobody else changes *state* and its instances."""

    def __init__(self, state: DagRunState, driver: RunDriver) -> None:
        state.fill()
        self.state = state
        self.ended: RunEnd | None = None
        """How the run ends whatever its tasks do; None: as they do."""
        self._tears_down = False
        """Whether teardowns go on where it ends so."""
        self._driver = driver
        self._stopping: dict[str, TaskState] = {}
        """The state that each instance takes whose attempt is being stopped."""
        self._values: dict[str, list[dict[str, Any]]] = {}
        sizes = {key: size_of(i.xcom) for key, i in state.instances.items()}
        self._pushed = {key: size for key, size in sizes.items() if state.instances[key].has_failed}
        """By instance, the size of what its last try had pushed before it failed."""
        self._pushed_size = sum(self._pushed.values())
        self._results_size = sum(sizes.values()) - self._pushed_size
        self.plan = self._made_plan()

    def _made_plan(self) -> RunPlan:
        state = self.state
        plan = RunPlan(state.spec, state.states, state.past, state.parallelism)
        plan.paused, plan.ending = self.state.is_paused, self._tears_down
        for instance in self.state.instances.values():
            plan.skip(instance.key, instance.skips)
        return plan

    @property
    def end(self) -> RunEnd | None:
        """How the run ends; None: it goes on."""
        if self.ended is None:
            return self.plan.end()
        if self.is_tearing_down:
            return None
        return self._ended_by_teardown() or self.ended

    @property
    def is_tearing_down(self) -> bool:
        """Whether the run ends as somebody has said, or its timeout has, as soon as its teardowns have ended."""
        return self._tears_down and any(self._unfinished_teardowns())

    def _unfinished_teardowns(self) -> Iterator[TaskInstance]:
        return (i for i in self._teardowns() if not i.state.finished)

    def _teardowns(self) -> Iterator[TaskInstance]:
        return (i for i in self.state.instances.values() if self.state.spec.by_id[i.task_id].is_teardown)

    def _ended_by_teardown(self) -> RunEnd | None:
        """How a teardown ends a run that was marked success (Airflow: on_failure_fail_dagrun)."""
        if not self._tears_down or self.ended is None or self.ended.state is not RunState.SUCCESS:
            return None
        failing = (i.key for i in self._teardowns() if self.state.spec.by_id[i.task_id].on_failure_fail_dagrun)
        failed = sorted(key for key in failing if self.state.instances[key].state is TaskState.FAILED)
        return RunEnd(RunState.FAILED, f"{failed[0]} failed") if failed else None

    # What the plan decides

    def go_on(self) -> None:
        """Does everything that follows now, also from what it does itself: a task without work is done at once."""
        lets_in = True
        while lets_in:
            self.plan.carry_out(self._expand, self._follow)
            wanted, returned = _drained(self.plan.wanted_leases), _drained(self.plan.returned_leases)
            lets_in = self._driver.exchange_slots(wanted, returned)
            lets_in = self._tears_down_where_stuck() or lets_in

    def _tears_down_where_stuck(self) -> bool:
        """A run in which nothing can move any more ends early, too, if it has teardowns left."""
        end = self.plan.end() if self.ended is None else None
        if end is None or not any(self._unfinished_teardowns()) or not self._driver.tears_down():
            return False
        self.end_with(end)
        return True

    def hold(self) -> None:
        """Starts nothing more: slots that pools have granted are given back."""
        self.plan.hold()
        self._driver.return_slots(_drained(self.plan.returned_leases))

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
            values = self._values_of(task_ids)
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

    def _values_of(self, task_ids: list[str]) -> list[dict[str, Any]]:
        """The arguments of each instance of tasks that are mapped together."""
        return self.state.values_of(task_ids[0])

    def _follow(self, decision: Decision) -> None:
        instance = self.state.instances[decision.key]
        if decision.state is TaskState.SHUTDOWN:
            self._stop(instance, TaskState.FAILED, decision.reason)
            return
        instance.move(decision.state, decision.reason)
        if decision.state.finished:
            self._driver.forget_timer(instance.key)
            self._driver.stop_trigger(instance.key)
            self._driver.return_slots([instance.key])
            self._end_of(instance)
        elif decision.state is TaskState.QUEUED:
            self.begin_try(instance)

    def begin_try(self, instance: TaskInstance) -> None:
        """Begins a try of *instance*, or goes on with one that has waited. It is QUEUED."""
        if not instance.pokes:
            instance.try_number += 1
            instance.xcom = {}
            self._pushed_size -= self._pushed.pop(instance.key, 0)
            self._driver.tell_of_try(instance)
        now = self._driver.current_time()
        instance.queued_at, instance.started_at, instance.ended_at = now, None, None
        if isinstance(self.state.spec.by_id[instance.task_id], EmptyTask):
            self._settle(instance, Outcome(started_at=now))
        else:
            self._driver.start_attempt(instance)

    def attempt_of(self, instance: TaskInstance, execution: str) -> TaskAttempt:
        """The present try of *instance* as a worker gets it, from the execution *execution* of the run's workflow.

        Raises ValueError or LookupError where values do not fit what they are mapped to.
        """
        scope, values = self.state.spec.map_scopes.get(instance.task_id), None
        if scope is not None:
            if scope not in self._values:
                self._values[scope] = self.state.values_of(instance.task_id)
            values = self._values[scope][instance.map_index]
        return self.state.attempt(instance, execution, values, inline_limit(self._results_size + self._pushed_size))

    # The end of a try

    def end_attempt(self, instance: TaskInstance, outcome: Outcome | Failure) -> None:
        """Takes note of what an attempt came to."""
        if instance.key in self._stopping:
            self._stopped(instance, outcome)
        else:
            self._settle(instance, outcome)

    def _settle(self, instance: TaskInstance, outcome: Outcome | Failure) -> None:
        """Takes note of the end of a try, and plans another if there is to be one."""
        instance.move(TaskState.RUNNING)
        outcome = self._judged(instance, outcome) if isinstance(outcome, Outcome) else self._softened(instance, outcome)
        if isinstance(outcome, Outcome) and outcome.state in WAITS:
            self._wait(instance, outcome)
        else:
            self._end_try(instance, outcome)

    def _end_try(self, instance: TaskInstance, outcome: Outcome | Failure) -> None:
        """Does all that follows from the end of a try, in its order."""
        if isinstance(outcome, Failure):
            self._fail(instance, outcome)
            return
        self._count_try(instance, outcome, outcome.state)
        instance.xcom = {**instance.xcom, **self._kept(instance, outcome)}
        instance.mapped_length, instance.map_label = outcome.mapped_length, outcome.map_label
        if instance.skips:
            self.plan.skip(instance.key, instance.skips)
        if outcome.state is TaskState.SUCCESS:
            self._driver.tell_of_assets(instance, outcome.asset_events)
        self._move(instance, outcome.state, outcome.note)

    def _kept(self, instance: TaskInstance, outcome: Outcome) -> dict[str, Any]:
        """What others may pull: with do_xcom_push=False, only what the task has pushed itself."""
        if self.state.spec.by_id[instance.task_id].do_xcom_push:
            return outcome.xcom
        return {key: value for key, value in outcome.xcom.items() if key != RETURN_VALUE}

    def _skipped_by(self, instance: TaskInstance, task: Task, outcome: Outcome) -> tuple[str, ...]:
        """What a branch or a short circuit of that index skips. Raises InvalidInputError for a name of no task."""
        decided = outcome.xcom.get(SKIPMIXIN)
        if isinstance(decided, Mapping) and instance.map_index != UNMAPPED:
            return skipped_as_pushed(self.state.spec, task, decided)
        return skipped_tasks(self.state.spec, task, outcome.xcom.get(RETURN_VALUE))

    def _judged(self, instance: TaskInstance, outcome: Outcome) -> Outcome | Failure:
        """*outcome*, or what is wrong with it: too large, a branch to nowhere, a wait that took too long."""
        task = self.state.spec.by_id[instance.task_id]
        if outcome.state is TaskState.FAILED:
            if isinstance(task, WaitingTask) and task.soft_fail:
                return outcome.model_copy(update={"state": TaskState.SKIPPED})
            return Failure(error_type="SensorTimeout", message=outcome.note or "", retryable=False)
        if outcome.state is TaskState.SUCCESS:
            try:
                skipped = tuple(task_id for task_id in outcome.skips if task_id in self.state.spec.by_id)
                instance.skips = skipped or self._skipped_by(instance, task, outcome)
            except InvalidInputError as error:
                return Failure(error_type="InvalidInput", message=str(error))
            owns = self.state.spec.owns
            refused = owns and owns.first_problem(("asset", event.asset.name) for event in outcome.asset_events)
            if refused:
                return Failure(error_type="NotOwned", message=refused, retryable=False)
        return self._within_budget(outcome)

    def _softened(self, instance: TaskInstance, failure: Failure) -> Outcome | Failure:
        """*failure*, or a skip: of a sensor with soft_fail that gives up, whatever of (as in Airflow)."""
        task = self.state.spec.by_id[instance.task_id]
        gives_up = isinstance(task, WaitingTask) and task.soft_fail and failure.error_type in GIVES_UP
        if not gives_up or not self._driver.softens_failures():
            return failure
        note = f"soft_fail: {failure.error_type}: {failure.message}"
        return self._within_budget(Outcome(state=TaskState.SKIPPED, note=note, xcom=failure.xcom))

    def _within_budget(self, outcome: Outcome) -> Outcome | Failure:
        """*outcome*, or a failure if the run's results together would outgrow what Temporal carries."""
        size = size_of(outcome.xcom)
        if size and self._results_size + size > RESULTS_LIMIT:
            message = (
                f"the result has {size:,} bytes, and with it the results of this run's tasks have more than "
                f"{RESULTS_LIMIT:,}. Return paths instead"
            )
            return Failure(error_type="ResultsTooLarge", message=message, retryable=False)
        self._results_size += size
        return outcome

    def _count_try(self, instance: TaskInstance, outcome: Outcome | Failure, state: TaskState) -> None:
        """Keeps the try that has ended among those of the instance."""
        now = self._driver.current_time()
        failure = outcome if isinstance(outcome, Failure) else None
        instance.ended_at = now
        started = outcome.started_at if isinstance(outcome, Outcome) else None
        instance.started_at = instance.waiting_since or started or instance.queued_at
        instance.waiting_since, instance.wake_at, instance.pokes, instance.deferral = None, None, 0, None
        instance.gives_up = False
        instance.attempts.append(
            Attempt(
                try_number=instance.try_number,
                state=state,
                started_at=instance.started_at,
                ended_at=now,
                failure=failure,
            )
        )
        reason = f"{outcome.error_type}: {outcome.message}" if isinstance(outcome, Failure) else outcome.note
        self._driver.tell_of_end_of_try(instance, state, outcome, reason)

    def _fail(self, instance: TaskInstance, failure: Failure) -> None:
        task, run = self.state.spec.by_id[instance.task_id], self.state.run
        is_free = failure.is_disruption and isinstance(task, SparkWork) and instance.disruptions < MAX_DISRUPTIONS
        if is_free:
            instance.disruptions += 1
        tries = instance.tries_spent
        again = is_free or may_retry(task, tries, failure)
        state = TaskState.UP_FOR_RETRY if again else TaskState.FAILED
        failure = self._within_pushed(instance, failure)
        self._count_try(instance, failure.model_copy(update={"xcom": {}}) if failure.xcom else failure, state)
        instance.xcom = {**instance.xcom, **failure.xcom}
        instance.map_label = failure.map_label
        if again:
            delay = DISRUPTION_DELAY if is_free else failure.retry_delay
            if delay is None:
                delay = retry_delay(task, tries, f"{run.dag_id}#{instance.key}#{run.key}")
            instance.retry_at = self._driver.current_time() + delay
        self._move(instance, state, failure.error_type)
        if again:
            self._set_timer(instance)

    def _within_pushed(self, instance: TaskInstance, failure: Failure) -> Failure:
        """*failure*, without what the task had pushed where a run has too much of that: then it says so."""
        size = size_of(failure.xcom)
        if size and self._pushed_size + size > PUSHED_LIMIT:
            message = (
                f"{failure.message} (what it had pushed is not kept: failed tasks of the run have pushed too much)"
            )
            return failure.model_copy(update={"xcom": {}, "message": message})
        if size:
            self._pushed[instance.key] = size
            self._pushed_size += size
        return failure

    def _move(self, instance: TaskInstance, state: TaskState, reason: str | None) -> None:
        """Gives *instance* a state that the plan has not decided, and tells the plan."""
        instance.move(state, reason)
        self.plan.record(instance.key, state)
        if not state.holds_a_worker and state not in WAITS:
            self._driver.return_slots([instance.key])
        if state.finished:
            self._end_of(instance)
        self._driver.changed()

    def _end_of(self, instance: TaskInstance) -> None:
        """What else follows from the end of a task."""
        instance.ended_at = instance.ended_at or self._driver.current_time()
        self._driver.tell_of_end(instance)

    # Waiting without a worker

    def _wait(self, instance: TaskInstance, outcome: Outcome) -> None:
        task = self.state.spec.by_id[instance.task_id]
        instance.started_at = outcome.started_at
        instance.waiting_since = instance.waiting_since or outcome.started_at or self._driver.current_time()
        instance.wake_at, instance.gives_up = outcome.wake_at, outcome.gives_up
        if isinstance(task, ApprovalTask):
            instance.subject = outcome.note
        elif isinstance(task, PokedTask):
            instance.pokes += 1
            instance.wake_at = self._driver.current_time() + poke_delay(task, instance.pokes)
        elif isinstance(task, AirflowTask):
            instance.pokes += 1
            instance.xcom = {**instance.xcom, **outcome.xcom}
            instance.deferral = outcome.deferral
            instance.wake_at = outcome.wake_at if outcome.deferral is None else outcome.deferral.alarm
        if outcome.state is TaskState.UP_FOR_RESCHEDULE:  # as in Airflow it counts nowhere between two pokes
            self._driver.return_slots([instance.key])
        else:
            self._driver.park_slots(instance.key)
        self._move(instance, outcome.state, outcome.note)
        self._set_timer(instance)
        self._driver.begin_trigger(instance)

    def wait_again(self) -> None:
        """Waits anew for what an earlier execution of the run has waited for: retries, pokes, triggers."""
        for instance in self.state.instances.values():
            if instance.state in WAITS or instance.state is TaskState.UP_FOR_RETRY:
                self._set_timer(instance)
                self._driver.begin_trigger(instance)

    def _set_timer(self, instance: TaskInstance) -> None:
        until = instance.retry_at if instance.state is TaskState.UP_FOR_RETRY else instance.wake_at
        if until is not None:
            self._driver.set_timer(instance, until)

    def wake(self, instance: TaskInstance) -> None:
        """The time has come that *instance* waits for."""
        instance.retry_at = None
        self._driver.changed()
        if instance.deferral is not None and instance.state in WAITS:
            self._end_wait(instance, instance.deferral)
            return
        match instance.state:
            case TaskState.UP_FOR_RETRY:
                self._move(instance, TaskState.SCHEDULED, "the retry delay is over")
            case TaskState.UP_FOR_RESCHEDULE:
                self._move(instance, TaskState.SCHEDULED, "the next poke is due")
            case TaskState.DEFERRED:
                self.finish_wait(instance, self._waited(instance))
            case TaskState.AWAITING_INPUT:
                self.finish_wait(instance, self._unanswered(instance))
            case _:
                pass

    def _end_wait(self, instance: TaskInstance, deferral: Deferral) -> None:
        """The moment has come that a try waits for, or that ends its wait."""
        now = self._driver.current_time()
        if instance.state is TaskState.AWAITING_INPUT:
            instance.response = response_of_defaults(deferral.form, now)
            instance.form = kept_form(deferral.form) if deferral.form is not None else None
            self.resume(instance, deferral.woken(unanswered(deferral.form, now)))
        elif deferral.moment is None or now < deferral.moment:
            self._driver.stop_trigger(instance.key)
            self.resume(instance, deferral.failed("Trigger timeout"))
        elif deferral.ends_task:
            self._end_by_trigger(instance, deferral, TaskState.SUCCESS)
        else:
            self.resume(instance, deferral.woken(deferral.event))

    def end_trigger(self, instance: TaskInstance, deferral: Deferral, end: TriggerEnd) -> None:
        """The trigger that *instance* waits for has said what has happened."""
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
        self._driver.forget_timer(instance.key)
        if state is not TaskState.FAILED:
            self._end_try(instance, Outcome(state=state, started_at=instance.waiting_since))
        elif isinstance(task, AirflowTask) and task.calls_back:
            self.resume(instance, deferral.failed_by_trigger())
        else:
            self._end_try(instance, Failure(error_type="TriggerFailed", message="its trigger has ended the task"))

    def resume(self, instance: TaskInstance, deferral: Deferral) -> None:
        """A try that has waited outside of a worker goes on."""
        self._driver.forget_timer(instance.key)
        instance.deferral, instance.wake_at = deferral, None
        self._move(instance, TaskState.SCHEDULED, "what it waited for has come")

    def _waited(self, instance: TaskInstance) -> Outcome | Failure:
        """What a wait for a moment comes to."""
        task = self.state.spec.by_id[instance.task_id]
        if instance.gives_up and isinstance(task, TimeTask):
            return self._judged(instance, timed_out(task, instance.waiting_since))
        return Outcome(started_at=instance.waiting_since)

    def _unanswered(self, instance: TaskInstance) -> Outcome | Failure:
        task = self.state.spec.by_id[instance.task_id]
        assert isinstance(task, ApprovalTask)  # noqa: S101
        form = form_of(task, instance.subject)
        instance.response = response_of_defaults(form, self._driver.current_time())
        if task.defaults is not None:
            return answer_of(task, Answer(task=instance.key, chosen=task.defaults), is_default=True)
        if task.soft_fail:
            return Outcome(state=TaskState.SKIPPED, note="nobody answered in time")
        return Failure(error_type="ApprovalTimeout", message=f"nobody answered within {task.timeout}", retryable=False)

    def finish_wait(self, instance: TaskInstance, outcome: Outcome | Failure) -> None:
        """A wait without a worker is over, one way or the other."""
        self._driver.forget_timer(instance.key)
        self._end_try(instance, outcome)

    # Changes by people

    def apply(self, change: Change) -> None:
        """Brings about what a person asked for. What runs is stopped first, and takes its state when it is gone."""
        for key in change.collapse:
            self._values.pop(self.state.spec.map_scopes[key], None)
        for key, state in change.states.items():
            instance = self.state.instances[key]
            self.plan.forget_skips(key)
            self._driver.forget_timer(key)
            self._driver.stop_trigger(key)
            if self._driver.is_under_way(key):
                self._stop(instance, state, change.reason)
                continue
            self._driver.return_slots([key])
            self._take(instance, state, change.reason)
        if change.collapse:
            for task_id in change.collapse:
                self.state.collapse(task_id)
            self.plan = self._made_plan()
            self._driver.replan()
        self._driver.changed()

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
        self._driver.stop_attempt(instance.key)

    def _stopped(self, instance: TaskInstance, outcome: Outcome | Failure) -> None:
        then = self._stopping.pop(instance.key)
        self._count_try(instance, outcome, instance.state if then is TaskState.NONE else then)
        reason = instance.reason or "stopped"
        if then is TaskState.NONE:
            instance.clear()
        self._move(instance, then, reason)

    def mark_run(self, mark: RunMark) -> None:
        """Ends the run as a person has marked it; see `run_marked`."""
        self._decide_on_teardowns()
        change = run_marked(self.state, mark, keeps_teardowns=self._tears_down)
        self.apply(change)
        self.end_with(RunEnd(RunState(mark.state), f"marked {mark.state}"))

    def end_with(self, end: RunEnd, *, tears_down: bool = True) -> None:
        """Ends the run whatever its tasks do: those that run are stopped, the others skipped.

        Teardowns go on, as in Airflow, and the run ends with them; not so if it does not *tears_down*.
        """
        self.ended = end
        self._decide_on_teardowns(tears_down=tears_down)
        self.stop_all(end.reason)
        self._driver.changed()

    def _decide_on_teardowns(self, *, tears_down: bool = True) -> None:
        self._tears_down = tears_down and any(self._unfinished_teardowns()) and self._driver.tears_down()
        self.plan.begin_end(tears_down=self._tears_down)

    def is_ended_by_its_tasks(self, state: RunState) -> bool:
        """Whether *state*, in which the run has ended, is what its tasks have come to: else a person has given it."""
        return self.end is None or self.end.state is state

    def stay_ended(self, end: RunEnd) -> None:
        """Keeps the end that the run has, whatever is said of some of its tasks."""
        self.ended = end

    def time_out(self) -> None:
        """Ends the run: its `dagrun_timeout` is over. One that ends already ends as was said."""
        if self.is_tearing_down:
            return
        self.end_with(RunEnd(RunState.FAILED, f"dagrun_timeout of {self.state.spec.dagrun_timeout} was exceeded"))

    def stop_all(self, reason: str) -> None:
        """Stops what runs, and skips what has not ended; but for teardowns, where they go on."""
        for instance in self.state.instances.values():
            if instance.key in self._stopping:
                continue
            if self._tears_down and self.state.spec.by_id[instance.task_id].is_teardown:
                continue
            if self._driver.is_under_way(instance.key):
                self._stop(instance, TaskState.SKIPPED, reason)
            elif not instance.state.finished:
                self._driver.forget_timer(instance.key)
                self._driver.stop_trigger(instance.key)
                self._move(instance, TaskState.SKIPPED, reason)


def size_of(values: Mapping[str, Any]) -> int:
    """The bytes that *values*, by key, have in history."""
    return len(json.dumps(values, default=str)) if values else 0


def _drained(keys: list[str]) -> list[str]:
    taken = [*keys]
    keys.clear()
    return taken
