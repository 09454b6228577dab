"""A world of DAGs: each decides as its workflow would, and all share one clock, the pools and the workers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ..asset.events import AssetEvent, wakes
from ..base import to_utc
from ..dag.records import TrackedRun
from ..dag.state import MOST_RUNNING, DagState
from ..dag.ticks import coming_runs
from ..errors import InvalidInputError
from ..run.messages import RunReport, TasksEnded
from ..run.planner import RunEnd
from ..run.state import DagRunState
from ..run.task_instances import TaskInstance
from ..spec.assets.identity import Asset
from ..spec.dag import DagSpec
from ..spec.timetables import Custom
from ..spec.timetables.assets import waited_for
from ..states import TaskState
from .assumptions import Assumptions
from .clock import Clock
from .run import SimulatedRun
from .slots import Pools, WorkerSlots
from .spans import RunSpan, Simulation, TrySpan


class World:
    """What the DAGs of a simulation share."""

    def __init__(self, start: datetime, assumptions: Assumptions) -> None:
        self.clock = Clock(start)
        self.assumptions = assumptions
        self.pools = Pools(self.clock, assumptions.pools)
        self.slots = WorkerSlots(assumptions.worker_slots)
        self.leases_made = 0
        self.dags: dict[str, SimulatedDag] = {}

    def add(self, spec: DagSpec) -> None:
        """Registers a DAG, unpaused. Raises InvalidInputError where it cannot be simulated."""
        if isinstance(spec.schedule, Custom):
            raise InvalidInputError(
                f"DAG {spec.dag_id!r}: its timetable is a class of its own, which is not simulated. Leave the DAG out"
            )
        self.dags[spec.dag_id] = SimulatedDag(self, spec)

    def run_until(self, end: datetime) -> None:
        """Lets everything happen that happens before *end*."""
        for dag in self.dags.values():
            dag.wake()
        self.clock.run_until(end)

    def tell_of_asset(self, event: AssetEvent) -> None:
        """A task has written an asset."""
        for dag in self.dags.values():
            condition = waited_for(dag.state.spec.schedule)
            if condition is not None and wakes(condition, event):
                dag.state.hear_of_asset(event, self.clock.now)
                dag.wake()


class SimulatedDag:
    """A DAG in its world."""

    def __init__(self, world: World, spec: DagSpec) -> None:
        self._world = world
        self.state = DagState(
            spec=spec,
            is_paused=False,
            registered_at=world.clock.now,
            last_automated_interval=world.assumptions.last_intervals.get(spec.dag_id),
        )
        self.state.expect_assets(world.clock.now)
        self._alarm: datetime | None = None
        self.runs: dict[str, SimulatedRun] = {}
        self.spans: dict[str, RunSpan] = {}
        self.tries: list[TrySpan] = []

    def wake(self) -> None:
        """Looks what is to be done now, or when a downtime is over."""
        self._wake_at(self._world.clock.now)

    def _wake_at(self, time: datetime) -> None:
        at = self._world.assumptions.resumes(max(time, self._world.clock.now))
        if self._alarm is None or at < self._alarm:
            self._alarm = at
            self._world.clock.at(at, lambda: self._ring(at))

    def _ring(self, at: datetime) -> None:
        if self._alarm == at:  # else an earlier one has taken its place
            self._alarm = None
            self._step()

    def _step(self) -> None:
        now, state = self._world.clock.now, self.state
        while True:
            if (question := state.question(now)) is not None:
                state.take(coming_runs(question), question.now)
            ahead = state.ticks
            created = [*state.create_by_assets(now), *state.create_due(now)]
            for tracked in created:
                self._note(tracked)
            for tracked in state.startable(now)[: max(0, MOST_RUNNING - state.running)]:
                self._start(tracked)
            if state.ticks == ahead and not state.can_still_create(now):
                break
        if (then := state.next_wake(now)) is not None:
            self._wake_at(then)

    def _note(self, tracked: TrackedRun) -> None:
        run = tracked.run
        self.spans[run.run_id] = RunSpan(
            dag_id=run.dag_id,
            run_id=run.run_id,
            run_type=run.run_type,
            logical_date=run.logical_date,
            run_after=run.run_after,
            created_at=self._world.clock.now,
            deadline=run.run_after + self.state.spec.deadline if self.state.spec.deadline is not None else None,
        )

    def _start(self, tracked: TrackedRun) -> None:
        now = self._world.clock.now
        self.state.start(tracked, now)
        started = DagRunState(
            run=tracked.run, spec=self.state.spec, started_at=now, past=self.state.past_of(tracked), is_paused=False
        )
        run = SimulatedRun(self._world, tracked, started, self._ended, self._task_ended, self.tries)
        self.runs[tracked.run.key] = run
        span = self.spans[tracked.run.run_id]
        span.started_at, span.state = now, tracked.state
        self._world.clock.at(now, run.go_on)

    def _ended(self, run: SimulatedRun, end: RunEnd) -> None:
        now, tracked = self._world.clock.now, run.tracked
        del self.runs[tracked.run.key]
        span = self.spans[tracked.run.run_id]
        span.ended_at, span.state, span.reason = now, end.state, end.reason
        report = RunReport(
            key=tracked.run.key, state=end.state, ended_at=now, reason=end.reason, past=run.state.past_for_next
        )
        if self.state.finish(report):
            self._tell(self.state.after(tracked.run.run_id))
        self.wake()

    def _task_ended(self, run: SimulatedRun, instance: TaskInstance) -> None:
        if instance.state is TaskState.SUCCESS:
            self._tell_assets(run, instance)
        if self.state.unknown_past():
            told = TasksEnded(key=run.tracked.run.key, states=run.state.past_for_next)
            self._tell(self.state.tasks_ended(told))

    def _tell(self, runs: Iterable[TrackedRun]) -> None:
        """The runs after it hear how the one before stands."""
        for tracked in runs:
            other = self.runs.get(tracked.run.key)
            if other is not None:
                past = self.state.news_for(tracked).past
                self._world.clock.at(self._world.clock.now, lambda run=other, past=past: run.look_back(past))  # type: ignore[misc]

    def _tell_assets(self, run: SimulatedRun, instance: TaskInstance) -> None:
        for outlet in run.state.spec.by_id[instance.task_id].outlets:
            if isinstance(outlet, Asset):
                source: dict[str, Any] = {
                    "source_dag_id": run.dag_id,
                    "source_run_id": run.state.run.run_id,
                    "source_task_id": instance.task_id,
                    "source_map_index": instance.map_index,
                }
                cause = f"{run.dag_id}/{run.state.run.run_id}/{instance.key}/{outlet.name}"
                event = AssetEvent(
                    cause=cause, name=outlet.name, uri=outlet.uri, timestamp=self._world.clock.now, **source
                )
                self._world.clock.at(self._world.clock.now, lambda told=event: self._world.tell_of_asset(told))  # type: ignore[misc]


def simulate(specs: Iterable[DagSpec], start: datetime, end: datetime, assumptions: Assumptions) -> Simulation:
    """What the DAGs do from *start* to *end*, if they are registered and unpaused at *start*.

    Runs that fall due before *start* are made as `catchup` says. Raises InvalidInputError where a DAG cannot be
    simulated, or the period is none.
    """
    begin, until = to_utc(start), to_utc(end)
    if begin >= until:
        raise InvalidInputError(f"from {begin.isoformat()} to {until.isoformat()} is no period. Let it end later")
    world = World(begin, assumptions)
    for spec in specs:
        world.add(spec)
    world.run_until(until)
    return Simulation(
        start=begin,
        end=until,
        dag_ids=tuple(sorted(world.dags)),
        runs=tuple(span for dag in world.dags.values() for span in dag.spans.values()),
        tries=tuple(span for dag in world.dags.values() for span in dag.tries),
        notes=tuple(f"pool {name!r} is taken to be unlimited" for name in sorted(world.pools.unknown)),
    )
