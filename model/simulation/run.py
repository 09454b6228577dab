"""One simulated run: its tasks are decided by the engine's own plan, and take as long as is assumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from ..dag.records import TrackedRun
from ..pool.state import LeaseRequest, pools_of
from ..run.past import Past
from ..run.planner import Decision, RunEnd, RunPlan
from ..run.ready_tasks import needs_lease
from ..run.state import DagRunState
from ..run.task_instances import Failure, TaskInstance, may_retry, retry_delay
from ..spec.dag import with_default_pools
from ..spec.tasks import EmptyTask, TimeTask
from ..states import RunState, TaskState
from .spans import TrySpan
from .surroundings import Surroundings

ASSUMED = Failure(error_type="Assumed", message="the simulation has it fail")


@dataclass
class SimulatedRun:
    """A run in its world. *ended* is called once."""

    world: Surroundings
    turn: int
    """Of the DAG, among what happens at one moment."""
    tracked: TrackedRun
    state: DagRunState
    ended: Callable[[SimulatedRun, RunEnd], None]
    task_ended: Callable[[SimulatedRun, TaskInstance], None]

    def __post_init__(self) -> None:
        self.state = self.state.model_copy(update={"spec": with_default_pools(self.state.spec)})
        self.state.fill()
        self.plan = RunPlan(self.state.spec, self.state.states, self.state.past)
        self._under_way: dict[str, TrySpan] = {}
        self._at_work: dict[str, TrySpan] = {}
        """The tries that have a worker's slot."""
        self._leases: dict[str, str] = {}
        self._is_over = False
        if (timeout := self.state.spec.dagrun_timeout) is not None:
            end = RunEnd(RunState.FAILED, f"dagrun_timeout of {timeout} was exceeded")
            self._decide_at(self.world.clock.now + timeout, lambda: self._end(end))

    @property
    def dag_id(self) -> str:
        return self.state.spec.dag_id

    def _at(self, time: datetime, event: Callable[[], None]) -> None:
        self.world.clock.at(time, event, self.turn)

    def _decide_at(self, time: datetime, event: Callable[[], None]) -> None:
        """Has *event* happen at *time*, or at the end of the downtime that it falls into."""
        self._at(self.world.assumptions.resumes(time), event)

    def go_on(self) -> None:
        """Everything that follows now, as the run's workflow does it."""
        if self._is_over:
            return
        self.plan.carry_out(self._expand, self._follow)
        for key in [*self.plan.wanted_leases]:
            self._ask_lease(key)
        for key in [*self.plan.returned_leases]:
            self._give_back(key)
        self.plan.wanted_leases.clear()
        self.plan.returned_leases.clear()
        if (end := self.plan.end()) is not None:
            self._end(end)

    def look_back(self, past: Past | None, *, is_delta: bool) -> None:
        """The run before has changed; of a delta, *past* has only the tasks that have."""
        known, changed = self.plan.past, None
        if is_delta and past is not None:
            if known is None or known.run_id != past.run_id:
                return
            changed = {*past.states}
            past = Past(run_id=past.run_id, states={**known.states, **past.states})
        self.plan.look_back(past, changed)
        self.go_on()

    def _end(self, end: RunEnd) -> None:
        if self._is_over:
            return
        self._is_over = True
        for instance in self.state.instances.values():
            if (span := self._under_way.pop(instance.key, None)) is not None:
                self._close(span, TaskState.SKIPPED)
                self._leave_worker(instance.key, span)
            self._give_back(instance.key)
        self.ended(self, end)

    # Tasks

    def _expand(self) -> bool:
        tasks = self.plan.mappable()
        scopes: dict[str, list[str]] = {}
        for task_id in tasks:
            scopes.setdefault(self.state.spec.map_scopes[task_id], []).append(task_id)
        for together in scopes.values():
            lengths = self.world.assumptions.map_lengths
            n = next((lengths[name] for t in together if (name := f"{self.dag_id}.{t}") in lengths), 1)
            if n == 0:
                self._skip(together, "there is nothing to map it over")
                continue
            self.state.expand(together, n)
            self.plan.expand(together, n)
        return bool(tasks)

    def _skip(self, task_ids: Iterable[str], reason: str) -> None:
        for task_id in task_ids:
            instance = self.state.instances[task_id]
            instance.move(TaskState.SKIPPED, reason)
            self.plan.record(task_id, TaskState.SKIPPED)
            self.task_ended(self, instance)

    def _follow(self, decision: Decision) -> None:
        instance = self.state.instances[decision.key]
        if decision.state is TaskState.SHUTDOWN:
            self._stop(instance)
            return
        instance.move(decision.state, decision.reason)
        if decision.state is TaskState.QUEUED:
            self._begin(instance)
        elif decision.state.finished:
            self._give_back(instance.key)
            self.task_ended(self, instance)

    def _begin(self, instance: TaskInstance) -> None:
        instance.try_number += 1
        task, now = self.state.spec.by_id[instance.task_id], self.world.clock.now
        span = TrySpan(
            dag_id=self.dag_id,
            run_id=self.state.run.run_id,
            key=instance.key,
            try_number=instance.try_number,
            pool=task.pool,
            queued_at=now,
        )
        if isinstance(task, EmptyTask):
            self._settle(instance, span)
            return
        self.world.tries.append(span)
        self._under_way[instance.key] = span
        if isinstance(task, TimeTask) and task.target_time is None:
            run = self.state.run
            since = run.data_interval.end if run.data_interval is not None else run.run_after
            self._wait(instance, span, since + (task.delta or timedelta()))
        else:
            self.world.slots.take(partial(self._work, instance, span))

    def _wait(self, instance: TaskInstance, span: TrySpan, until: datetime) -> None:
        """It waits for a moment, and takes up no worker."""
        span.started_at = self.world.clock.now
        instance.move(TaskState.RUNNING)
        instance.move(TaskState.DEFERRED)
        self.plan.record(instance.key, TaskState.DEFERRED)
        if (lease_id := self._leases.get(instance.key)) is not None:
            self.world.pools.park(lease_id)
        self._decide_at(until, lambda: self._done(instance, span))
        self._at(self.world.clock.now, self.go_on)

    def _work(self, instance: TaskInstance, span: TrySpan) -> bool:
        """A worker has taken the try up. False if it was ended while it waited for one."""
        if self._under_way.get(instance.key) is not span:
            return False
        self._at_work[instance.key] = span
        task, now = self.state.spec.by_id[instance.task_id], self.world.clock.now
        span.started_at = now
        instance.move(TaskState.RUNNING)
        end = now + self.world.assumptions.of_try(self.dag_id, task)
        self._at(end, lambda: self._finish(instance, span))
        return True

    def _finish(self, instance: TaskInstance, span: TrySpan) -> None:
        """The work is over, which somebody takes note of when no downtime is in the way."""
        if self._under_way.get(instance.key) is not span:
            return
        span.ended_at = now = self.world.clock.now
        if self.world.assumptions.resumes(now) > now:
            self._decide_at(now, lambda: self._done(instance, span))
        else:
            self._done(instance, span)

    def _done(self, instance: TaskInstance, span: TrySpan) -> None:
        if self._under_way.get(instance.key) is not span:
            return
        del self._under_way[instance.key]
        self._leave_worker(instance.key, span)
        self._settle(instance, span)
        self.go_on()

    def _leave_worker(self, key: str, span: TrySpan) -> None:
        if self._at_work.get(key) is span:
            del self._at_work[key]
            self.world.slots.give_back()

    def _settle(self, instance: TaskInstance, span: TrySpan) -> None:
        task = self.state.spec.by_id[instance.task_id]
        if instance.state is TaskState.QUEUED:
            instance.move(TaskState.RUNNING)
        if not self.world.assumptions.fails(self.dag_id, instance.task_id, instance.try_number):
            self._move(instance, span, TaskState.SUCCESS)
        elif may_retry(task, instance.try_number, ASSUMED):
            self._move(instance, span, TaskState.UP_FOR_RETRY)
            seed = f"{self.dag_id}#{instance.key}#{self.state.run.key}"
            delay = retry_delay(task, instance.try_number, seed)
            self._decide_at(self.world.clock.now + delay, lambda: self._again(instance))
        else:
            self._move(instance, span, TaskState.FAILED)

    def _again(self, instance: TaskInstance) -> None:
        if not self._is_over and instance.state is TaskState.UP_FOR_RETRY:
            instance.move(TaskState.SCHEDULED, "the retry delay is over")
            self.plan.record(instance.key, TaskState.SCHEDULED)
            self.go_on()

    def _stop(self, instance: TaskInstance) -> None:
        """fail_fast: what runs is ended at once."""
        span = self._under_way.pop(instance.key, None)
        instance.move(TaskState.SHUTDOWN)
        if span is not None:
            self._leave_worker(instance.key, span)
            self._move(instance, span, TaskState.FAILED)

    def _move(self, instance: TaskInstance, span: TrySpan, state: TaskState) -> None:
        self._close(span, state)
        instance.move(state)
        self.plan.record(instance.key, state)
        self._give_back(instance.key)
        if state.finished:
            self.task_ended(self, instance)

    def _close(self, span: TrySpan, state: TaskState) -> None:
        span.ended_at, span.state = span.ended_at or self.world.clock.now, state

    # Pools

    def _ask_lease(self, key: str) -> None:
        self._give_back(key)
        self.world.leases_made += 1
        lease_id = f"{self.tracked.run.workflow_id}#{self.world.leases_made:012d}"  # who asks first is first
        self._leases[key] = lease_id
        task = self.state.spec.by_id[self.state.instances[key].task_id]
        assert needs_lease(task)  # noqa: S101
        pools = tuple(pools_of(self.dag_id, task))
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
            priority_weight=self.plan.weights[instance.task_id],
            date=run.logical_date or run.run_after,
            map_index=instance.map_index,
            limit=None if is_shared else task.max_active_tis_per_dag,
        )

    def _let_in(self, key: str) -> bool:
        if self._is_over or not self.plan.grant(key):
            return False
        self.go_on()
        return True

    def _give_back(self, key: str) -> None:
        if (lease_id := self._leases.pop(key, None)) is not None:
            self.world.pools.give_back(lease_id)
