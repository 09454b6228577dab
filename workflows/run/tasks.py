"""The tasks of one run, carried out as its engine decides: attempts, timers, triggers, slots, messages.

The run's workflow owns one of these, and says when the run is over.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial

from temporalio import workflow
from temporalio.exceptions import FailureError

from ...activities.names import MAX_STARTS
from ...model.asset.outlets import OutletEvent
from ...model.run.attempts import TaskAttempt
from ...model.run.engine import CANCELLED, RunEngine
from ...model.run.notices import EVENTS, end_of_run
from ...model.run.planner import RunEnd, RunPlan
from ...model.run.state import DagRunState
from ...model.run.task_instances import Failure, Outcome, TaskInstance
from ...model.run.views import why
from ...model.spec.notifiers import Event
from ...model.spec.tasks import AirflowTask
from ...model.states import TaskState
from .. import lineage, metrics
from ..command_budget import CommandBudget
from .asset_events import AssetEvents
from .clocks import Clocks
from .deadlines import Deadlines
from .leases import Leases
from .notices import Notices
from .task_work import failure_of, work_of
from .triggers import Triggers


def size_of_start(attempt: TaskAttempt) -> int:
    """Return how large the input of an attempt is as JSON.

    As release 0.2 has counted it: how many go together is in histories.
    """
    knew_clears = isinstance(attempt.task, AirflowTask) or getattr(attempt.task, "table", None) is not None
    return len(attempt.model_dump_json(exclude=None if knew_clears else {"tries_cleared"}))


class RunTasks:
    """The driver of a run's engine, and all that is under way for its tasks; see model.run.engine.RunDriver.

    *task_ended* is called at each end of a task.
    """

    def __init__(self, state: DagRunState, task_ended: Callable[[TaskInstance], None]) -> None:
        if state.spec.mapped:
            workflow.deprecate_patch("maps-by-index")
        self.engine = RunEngine(state, self)
        self.state = state
        self._task_ended = task_ended
        self._has_changes = False
        self._defect: Exception | None = None
        self._attempts: dict[str, asyncio.Task[None]] = {}
        self.notices = Notices(state)
        self.assets = AssetEvents(state)
        self._clocks = Clocks(self._fail_run)
        self._triggers = Triggers(state, self.engine.end_trigger, self._fail_run)
        self._deadlines = Deadlines(state, self._clocks, self.notices)
        self._budget = CommandBudget()
        self.leases = Leases(self.state, self.plan, self.changed)

    @property
    def plan(self) -> RunPlan:
        """What the engine goes by."""
        return self.engine.plan

    @property
    def ended(self) -> RunEnd | None:
        """How the run ends whatever its tasks do; None: as they do."""
        return self.engine.ended

    def start(self) -> None:
        """Takes up what an earlier execution of the run left: leases asked for, and waits for time."""
        self._go_on_asking()
        self.leases.ask_again()
        self.set_clocks()

    def _go_on_asking(self) -> None:
        """Tells a new plan what has been asked for."""
        self.plan.ask_ahead()
        self.plan.mark_requested(self.leases.unanswered)

    def set_clocks(self) -> None:
        """Starts what waits for time alone: the run's own timeout, retries and waits that were carried over."""
        timeout, started = self.state.spec.dagrun_timeout, self.state.started_at
        if timeout is not None and started is not None:
            self._clocks.set("", started + timeout, self.engine.time_out)
        self._deadlines.set()
        self.engine.wait_again()

    @property
    def busy(self) -> bool:
        """Whether an attempt is under way."""
        return bool(self._attempts)

    def under_way_since(self, time: datetime) -> bool:
        """Whether an attempt has been under way since *time* or before."""
        queued = (self.state.instances[key].queued_at for key in self._attempts)
        return any(at is not None and at <= time for at in queued)

    async def something_happens(self, max_wait: timedelta | None = None) -> None:
        """Waits for the next thing that may change what the plan says, no longer than *max_wait*."""
        self.leases.settle()
        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(lambda: self._has_changes, timeout=max_wait)
        self._has_changes = False
        if self._defect is not None:
            raise self._defect

    def _fail_run(self, error: Exception) -> None:
        """What is not the task's fault: the run has to fail, or it would wait for ever."""
        self._defect = error
        self._has_changes = True

    # What the engine decides: see RunDriver

    def current_time(self) -> datetime:
        return workflow.now()

    def changed(self) -> None:
        self._has_changes = True

    def is_under_way(self, key: str) -> bool:
        return key in self._attempts

    def start_attempt(self, instance: TaskInstance) -> None:
        attempt = asyncio.create_task(self._attempt(instance))
        self._attempts[instance.key] = attempt
        attempt.add_done_callback(partial(self._never_began, instance))

    def stop_attempt(self, key: str) -> None:
        self._attempts[key].cancel()

    def set_timer(self, instance: TaskInstance, until: datetime) -> None:
        self._clocks.set(instance.key, until, lambda: self.engine.wake(instance))

    def forget_timer(self, key: str) -> None:
        self._clocks.forget(key)

    def begin_trigger(self, instance: TaskInstance) -> None:
        self._triggers.begin(instance)

    def stop_trigger(self, key: str) -> None:
        self._triggers.stop(key)

    def exchange_slots(self, wanted: Sequence[str], returned: Sequence[str]) -> bool:
        # Returned and wanted again in one step: asking returns what was held, and what is asked for is to stay.
        again = {*wanted} & {*returned}
        if again:
            workflow.deprecate_patch("keeps-what-is-asked-again")
            returned = [key for key in returned if key not in again]
        lets_in = self.leases.ask(wanted)
        self.leases.give_back(returned)
        return lets_in

    def return_slots(self, keys: Sequence[str]) -> None:
        if self.ended is None:
            self.leases.let_go(keys)
        else:  # no other task wants them, and the run may wait for its slowest one
            self.leases.give_back(keys)

    def park_slots(self, key: str) -> None:
        self.leases.park(key)

    def replan(self) -> None:
        self.leases.follow(self.plan)
        self._go_on_asking()
        self.leases.ask_again()

    def softens_failures(self) -> bool:
        return workflow.patched("soft-fail-of-failures")

    def tears_down(self) -> bool:
        return workflow.patched("ends-tear-down")

    def tell_of_try(self, instance: TaskInstance) -> None:
        lineage.task_started(self.state, instance)
        self.notices.tell(Event.ON_EXECUTE, instance)

    def tell_of_end_of_try(
        self, instance: TaskInstance, state: TaskState, outcome: Outcome | Failure, reason: str | None
    ) -> None:
        failure = outcome if isinstance(outcome, Failure) else None
        events = outcome.asset_events if isinstance(outcome, Outcome) else ()
        lineage.task_ended(self.state, instance, state, failure, events)
        if state in EVENTS:
            self.notices.tell(EVENTS[state], instance, state, reason)

    def tell_of_assets(self, instance: TaskInstance, events: tuple[OutletEvent, ...]) -> None:
        self.assets.tell(instance, events)

    def tell_of_end(self, instance: TaskInstance) -> None:
        metrics.task_ended(self.state, instance)
        self._task_ended(instance)

    # Attempts

    def _never_began(self, instance: TaskInstance, attempt: asyncio.Task[None]) -> None:
        """Ends an attempt that was stopped in the workflow task that made it: none of its own code has run."""
        if self._attempts.get(instance.key) is not attempt:
            return
        workflow.deprecate_patch("ends-unbegun-attempts")
        del self._attempts[instance.key]
        self._has_changes = True
        self._finish(instance, CANCELLED)

    async def _attempt(self, instance: TaskInstance) -> None:
        """Has one try made, and tells the engine what came of it."""
        outcome: Outcome | Failure
        try:
            attempt = self.engine.attempt_of(instance, workflow.info().run_id)
            await self._budget.take(size_of_start(attempt))
            outcome = await work_of(self.state.spec, attempt)
        except FailureError as error:
            outcome = failure_of(error, self.state.spec.by_id[instance.task_id].max_starts or MAX_STARTS)
            if outcome.is_disruption:
                workflow.deprecate_patch("disruptions-are-free")
        except asyncio.CancelledError:  # stopped before there was anything to stop
            outcome = CANCELLED
        except (ValueError, LookupError) as error:  # values that do not fit what they are mapped to
            outcome = Failure(error_type=type(error).__name__, message=str(error), retryable=False)
        except Exception as error:
            self._fail_run(error)
            return
        finally:
            self._attempts.pop(instance.key, None)
            self._has_changes = True
        self._finish(instance, outcome)

    def _finish(self, instance: TaskInstance, outcome: Outcome | Failure) -> None:
        """Tells the engine what an attempt came to. A defect of ours fails the run."""
        try:
            self.engine.end_attempt(instance, outcome)
        except Exception as error:
            self._fail_run(error)

    # The end

    async def wind_up(self, end: RunEnd) -> None:
        """The run is over: nothing is waited for, and nothing is held, any more."""
        self._clocks.forget_all()
        self._triggers.stop_all()
        if self.ended is not None:
            self.engine.stop_all(end.reason)
        self.leases.give_back([*self.state.leases])
        self.notices.tell(
            end_of_run(end.state),
            None,
            end.state,
            end.reason,
        )
        await self.all_sent()

    async def all_sent(self) -> None:
        """Waits for messages on their way: a workflow that closes takes them with it."""
        await self.leases.all_sent()
        await self.notices.all_sent()
        await self._triggers.all_stopped()
        await workflow.wait_condition(lambda: self.assets.all_sent)

    def leave_triggers(self) -> None:
        """The run's next execution watches them."""
        self._triggers.leave()

    async def all_stopped(self) -> None:
        """Waits until no attempt is under way."""
        await workflow.wait_condition(lambda: not self._attempts)

    def why(self, instance: TaskInstance) -> str:
        """Why *instance* has its state."""
        return self.leases.why(instance.key) or why(self.plan, instance)
