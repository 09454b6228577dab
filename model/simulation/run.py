"""One simulated run: the engine decides as in any run, and its tasks take as long as is assumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from ..asset.outlets import OutletEvent
from ..dag.records import TrackedRun
from ..pool.state import LeaseRequest, pools_of
from ..run.engine import CANCELLED, RunEngine
from ..run.moments import is_behind_timeout, moment_after, wait_for, wait_until_timeout
from ..run.past import Past
from ..run.planner import RunEnd
from ..run.state import DagRunState
from ..run.task_instances import Failure, Outcome, TaskInstance
from ..spec.dag import with_default_pools
from ..spec.tasks import BaseTask, TimeTask, WaitingTask
from ..states import TaskState
from .assumptions import Assumptions
from .spans import TrySpan
from .surroundings import Surroundings

DONE = Outcome()
TIMED_OUT = Failure(error_type="TaskTimeout", message="its execution_timeout was exceeded")
GIVEN_UP = Outcome(state=TaskState.FAILED, note="its timeout is over")
ASSUMED = Failure(error_type="Assumed", message="the simulation has it fail")


class AssumingEngine(RunEngine):
    """Decides for a simulated run: what its tasks come to, and what they are mapped over, is assumed."""

    def __init__(self, state: DagRunState, driver: SimulatedRun, assumptions: Assumptions) -> None:
        self._assumptions = assumptions
        super().__init__(state, driver)

    def _values_of(self, task_ids: list[str]) -> list[dict[str, Any]]:
        lengths, spec = self._assumptions.map_lengths, self.state.spec
        assumed = next((lengths[name] for task in task_ids if (name := f"{spec.dag_id}.{task}") in lengths), None)
        if assumed is None and not any(map(spec.mapped_over, task_ids)):
            return super()._values_of(task_ids)  # they are written in the DAG
        return [{}] * (1 if assumed is None else assumed)

    def _judged(self, instance: TaskInstance, outcome: Outcome) -> Outcome | Failure:
        """It has no results: a branch skips nothing."""
        return super()._judged(instance, outcome) if outcome.state is TaskState.FAILED else outcome

    def _end_try(self, instance: TaskInstance, outcome: Outcome | Failure) -> None:
        fails = self._assumptions.fails(self.state.spec.dag_id, instance.task_id, instance.try_number)
        super()._end_try(instance, ASSUMED if fails else outcome)


@dataclass
class SimulatedRun:
    """A run in its world: the driver of its engine, see `RunDriver`. *ended* is called once."""

    world: Surroundings
    turn: int
    """Of the DAG, among what happens at one moment."""
    tracked: TrackedRun
    state: DagRunState
    ended: Callable[[SimulatedRun, RunEnd], None]
    task_ended: Callable[[SimulatedRun, TaskInstance], None]

    def __post_init__(self) -> None:
        self.state = self.state.model_copy(update={"spec": with_default_pools(self.state.spec)})
        self.engine = AssumingEngine(self.state, self, self.world.assumptions)
        self._spans: dict[str, TrySpan] = {}
        """The tries that have begun, also those that wait without a worker."""
        self._attempts: dict[str, TrySpan] = {}
        self._at_work: dict[str, TrySpan] = {}
        """The attempts that have a worker's slot."""
        self._timers: dict[str, datetime] = {}
        self._leases: dict[str, str] = {}
        self._has_changes = False
        self._is_over = False
        if (timeout := self.state.spec.dagrun_timeout) is not None:
            self._decide_at(self.world.clock.now + timeout, self._time_out)

    @property
    def dag_id(self) -> str:
        return self.state.spec.dag_id

    def _decide_at(self, time: datetime, event: Callable[[], None]) -> None:
        """Has *event* happen at *time*, or at the end of the downtime that it falls into."""
        self.world.clock.at(self.world.assumptions.resumes(time), event, self.turn)

    def go_on(self) -> None:
        """Everything that follows now, as the run's workflow does it."""
        if self._is_over:
            return
        self._has_changes = True
        while self._has_changes:
            self._has_changes = False
            self.engine.go_on()
        if (end := self.engine.end) is not None:
            self._is_over = True
            self.return_slots([*self._leases])
            self.ended(self, end)

    def look_back(self, past: Past | None, *, is_delta: bool) -> None:
        """The run before has changed; of a delta, *past* has only the tasks that have."""
        known, changed = self.engine.plan.past, None
        if is_delta and past is not None:
            if known is None or known.run_id != past.run_id:
                return
            changed = {*past.states}
            past = Past(run_id=past.run_id, states={**known.states, **past.states})
        self.engine.plan.look_back(past, changed)
        self.go_on()

    def _time_out(self) -> None:
        if not self._is_over:
            self.engine.time_out()
            self.go_on()

    # Attempts

    def current_time(self) -> datetime:
        return self.world.clock.now

    def changed(self) -> None:
        self._has_changes = True

    def softens_failures(self) -> bool:
        return True

    def tears_down(self) -> bool:
        return True

    def is_under_way(self, key: str) -> bool:
        return key in self._attempts

    def start_attempt(self, instance: TaskInstance) -> None:
        task, now = self.state.spec.by_id[instance.task_id], self.world.clock.now
        span = TrySpan(
            dag_id=self.dag_id,
            run_id=self.state.run.run_id,
            key=instance.key,
            try_number=instance.try_number,
            pool=task.pool,
            queued_at=now,
        )
        self.world.tries.append(span)
        self._spans[instance.key] = self._attempts[instance.key] = span
        if isinstance(task, TimeTask) and task.target_time is None:  # it waits for a moment, and takes up no worker
            at, span.started_at = moment_after(task, self.state.run), now
            late = is_behind_timeout(task, now, at)
            self._come_to(instance, wait_until_timeout(task, now) if late else wait_for(now, at))
        else:
            self.world.slots.take(partial(self._work, instance, span))

    def _work(self, instance: TaskInstance, span: TrySpan) -> bool:
        """A worker has taken the try up. False if it was ended while it waited for one."""
        if self._attempts.get(instance.key) is not span:
            return False
        self._at_work[instance.key] = span
        span.started_at = now = self.world.clock.now
        end = now + self.world.assumptions.of_try(self.dag_id, self.state.spec.by_id[instance.task_id])
        self.world.clock.at(end, lambda: self._finish(instance, span), self.turn)
        return True

    def _finish(self, instance: TaskInstance, span: TrySpan) -> None:
        """The work is over, which somebody takes note of when no downtime is in the way."""
        if self._attempts.get(instance.key) is not span:
            return
        span.ended_at = now = self.world.clock.now
        if self.world.assumptions.resumes(now) > now:
            self._decide_at(now, lambda: self._done(instance, span))
        else:
            self._done(instance, span)

    def _done(self, instance: TaskInstance, span: TrySpan) -> None:
        if self._attempts.get(instance.key) is span:
            self._come_to(instance, self._work_ended(self.state.spec.by_id[instance.task_id]))
            self.go_on()

    def _work_ended(self, task: BaseTask) -> Outcome | Failure:
        if not self.world.assumptions.outlasts(self.dag_id, task):
            return DONE
        return GIVEN_UP if isinstance(task, WaitingTask) else TIMED_OUT

    def stop_attempt(self, key: str) -> None:
        self._come_to(self.state.instances[key], CANCELLED)

    def _come_to(self, instance: TaskInstance, outcome: Outcome | Failure) -> None:
        span = self._attempts.pop(instance.key)
        if self._at_work.pop(instance.key, None) is span:
            self.world.slots.give_back()
        self.engine.end_attempt(instance, outcome)

    # Waits

    def set_timer(self, instance: TaskInstance, until: datetime) -> None:
        self._timers[instance.key] = until
        self._decide_at(until, lambda: self._wake(instance, until))

    def forget_timer(self, key: str) -> None:
        self._timers.pop(key, None)

    def _wake(self, instance: TaskInstance, until: datetime) -> None:
        if not self._is_over and self._timers.get(instance.key) == until:
            del self._timers[instance.key]
            self.engine.wake(instance)
            self.go_on()

    def begin_trigger(self, instance: TaskInstance) -> None: ...

    def stop_trigger(self, key: str) -> None: ...

    # Slots of pools

    def exchange_slots(self, wanted: Sequence[str], returned: Sequence[str]) -> bool:
        for key in wanted:
            self._ask_lease(key)
        self.return_slots(returned)
        return False

    def return_slots(self, keys: Sequence[str]) -> None:
        for key in keys:
            if (lease_id := self._leases.pop(key, None)) is not None:
                self.world.pools.give_back(lease_id)

    def park_slots(self, key: str) -> None:
        if (lease_id := self._leases.get(key)) is not None:
            self.world.pools.park(lease_id)

    def replan(self) -> None: ...

    def _ask_lease(self, key: str) -> None:
        self.return_slots([key])
        self.world.leases_made += 1
        lease_id = f"{self.tracked.run.workflow_id}#{self.world.leases_made:012d}"  # who asks first is first
        self._leases[key] = lease_id
        pools = tuple(pools_of(self.dag_id, self.state.spec.by_id[self.state.instances[key].task_id]))
        self.world.pools.ask(lease_id, pools, partial(self._request, key, lease_id), partial(self._let_in, key))

    def _request(self, key: str, lease_id: str, pool: str) -> LeaseRequest:
        instance, run = self.state.instances[key], self.state.run
        task = self.state.spec.by_id[instance.task_id]
        is_shared = pool.startswith("pool:")
        return LeaseRequest(
            lease_id=lease_id,
            holder=run.workflow_id,
            key=key,
            slots=task.pool_slots if is_shared else 1,
            priority_weight=self.engine.plan.weights[instance.task_id],
            date=run.logical_date or run.run_after,
            map_index=instance.map_index,
            limit=None if is_shared else task.max_active_tis_per_dag,
        )

    def _let_in(self, key: str) -> bool:
        if self._is_over or not self.engine.plan.grant(key):
            return False
        self.go_on()
        return True

    # What others are told

    def tell_of_try(self, instance: TaskInstance) -> None: ...

    def tell_of_end_of_try(
        self,
        instance: TaskInstance,
        state: TaskState,
        outcome: Outcome | Failure,  # noqa: ARG002
        reason: str | None,  # noqa: ARG002
    ) -> None:
        self._close_span(instance.key, state)

    def _close_span(self, key: str, state: TaskState) -> None:
        if (span := self._spans.pop(key, None)) is not None:
            span.ended_at, span.state = span.ended_at or self.world.clock.now, state

    def tell_of_assets(self, instance: TaskInstance, events: tuple[OutletEvent, ...]) -> None: ...

    def tell_of_end(self, instance: TaskInstance) -> None:
        self._close_span(instance.key, instance.state)  # a wait that the run's end has ended is no end of a try
        self.task_ended(self, instance)
