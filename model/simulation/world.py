"""A world of DAGs: each decides as its workflow would, and all share one clock, the pools and the workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial

from ..asset.events import AssetEvent, wakes
from ..dag.records import TrackedRun
from ..dag.state import MAX_RUNNING, DagState
from ..run.messages import RunReport, TasksEnded
from ..run.outlet_events import events_of
from ..run.past import remembered
from ..run.planner import RunEnd
from ..run.state import DagRunState
from ..run.task_instances import TaskInstance
from ..spec.dag import DagSpec
from ..spec.timetables import Continuous, DagRunInfo
from ..spec.timetables.assets import waited_for
from ..states import TaskState
from .assumptions import Assumptions
from .busy_periods import BusyPeriod
from .calendars import Calendar, Calendars
from .clock import Clock
from .repetition import Places, Repetition, may_repeat
from .run import SimulatedRun
from .spans import RunSpan
from .surroundings import Surroundings

MAX_NOTED = 10_000
"""Of a DAG's runs that are due at the end and were kept from being made, as many are counted."""


class World(Surroundings):
    """What some DAGs share: they are simulated until *end*."""

    def __init__(
        self,
        specs: Iterable[DagSpec],
        start: datetime,
        end: datetime,
        assumptions: Assumptions,
        calendars: Calendars,
    ) -> None:
        self.specs = {spec.dag_id: spec for spec in specs}
        super().__init__(Clock(start), assumptions)
        self.calendars = calendars
        self.open_runs = 0
        self.runs: list[RunSpan] = []
        """Of the present busy period, as are the tries."""
        self.periods: list[BusyPeriod] = []
        self._end = end
        self._dags = [SimulatedDag(self, spec, turn) for turn, spec in enumerate(self.specs.values())]
        self._repetition = Repetition(assumptions, end) if may_repeat(self.specs.values(), assumptions) else None

    def live(self) -> None:
        """Lets everything happen that happens before the end."""
        for dag in self._dags:
            dag.wake()
        rested = False
        while (at := self.clock.next_at) is not None and at < self._end:
            is_idle = not self.open_runs and self.slots.is_idle and at > self.clock.now
            if is_idle and not rested:
                self._rest()
            else:
                self.clock.step()
            rested = is_idle and not rested
        self.clock.now = self._end
        for dag in self._dags:
            dag.note_what_is_due()
        self._close_period()

    def notes(self) -> list[str]:
        """What there is to say of DAGs that did not go on to the end."""
        found = []
        for dag in self._dags:
            dag_id = dag.state.spec.dag_id
            if dag.state.broken is not None and isinstance(dag.state.spec.schedule, Continuous):
                found.append(f"DAG {dag_id}: its runs take no time, so that there is no end of them")
            elif dag.state.broken is not None:
                found.append(f"DAG {dag_id} makes no more runs: {dag.state.broken}")
            if dag.overdue >= MAX_NOTED:
                found.append(
                    f"DAG {dag_id}: of the runs that are due at the end and not made, {dag.overdue:,} are counted"
                )
        return found

    def _rest(self) -> None:
        """Nothing is under way: what is ahead depends on nothing but the schedules."""
        now, period = self.clock.now, self._close_period()
        skipped = None
        if self._repetition is not None:
            self._repetition.learn(self._places(), period, now)
            skipped = self._repetition.skip(now)
        reached, last_runs = skipped if skipped is not None else (now, {})
        self.clock.go_to(reached)
        for dag in self._dags:
            dag.rest(last_runs.get(dag.state.spec.dag_id))

    def _close_period(self) -> BusyPeriod | None:
        if not self.runs:
            return None
        period = BusyPeriod(self.specs, self.runs, self.tries)
        self.periods.append(period)
        self.runs, self.tries = [], []
        return period

    def _places(self) -> Places | None:
        found: dict[str, tuple[Calendar, int]] = {}
        for dag in self._dags:
            state = dag.state
            if state.ticks:
                found[state.spec.dag_id] = self.calendars.place(state.ticks, state.ask(self.clock.now))
            elif not state.ticks_ended:
                return None
        return Places.of(found)

    def tell_of_asset(self, event: AssetEvent) -> None:
        """A task has written an asset."""
        for dag in self._dags:
            condition = waited_for(dag.state.spec.schedule)
            if condition is not None and wakes(condition, event):
                dag.state.hear_of_asset(event, self.clock.now)
                dag.wake()


class SimulatedDag:
    """A DAG in its world."""

    def __init__(self, world: World, spec: DagSpec, turn: int) -> None:
        self._world = world
        self._turn = turn
        self.state = DagState(
            spec=spec,
            is_paused=False,
            registered_at=world.clock.now,
            last_automated_interval=world.assumptions.last_intervals.get(spec.dag_id),
            resume_at=world.assumptions.resume_at.get(spec.dag_id),
        )
        self.state.expect_assets(world.clock.now)
        self._alarm: datetime | None = None
        self.runs: dict[str, SimulatedRun] = {}
        self.spans: dict[str, RunSpan] = {}
        """Of the runs that have not ended."""
        self._remembered = remembered(spec)
        self.overdue = 0
        """How many runs were due and not made at the end."""

    def wake(self) -> None:
        """Looks what is to be done now, or when a downtime is over."""
        self._wake_at(self._world.clock.now)

    def _at(self, time: datetime, event: Callable[[], None]) -> None:
        self._world.clock.at(time, event, self._turn)

    def rest(self, last_run: DagRunInfo | None) -> None:
        """Nothing is under way, and all alarms are off; *last_run* was its last of those that were gone past."""
        alarm, self._alarm = self._alarm, None
        if last_run is not None:
            self.state.last_automated_interval = last_run.data_interval
            self.state.replan()
            self.wake()
        elif alarm is not None:
            self._wake_at(alarm)

    def _wake_at(self, time: datetime) -> None:
        at = self._world.assumptions.resumes(max(time, self._world.clock.now))
        if self._alarm is None or at < self._alarm:
            self._alarm = at
            self._at(at, lambda: self._fire_alarm(at))

    def _fire_alarm(self, at: datetime) -> None:
        if self._alarm == at:  # else an earlier one has taken its place
            self._alarm = None
            self._step()

    def _step(self) -> None:
        now, state = self._world.clock.now, self.state
        while True:
            if (question := state.question(now)) is not None:
                state.take(self._world.calendars.answer(question), question.now)
            ahead = state.ticks
            created = [*state.create_by_assets(now), *state.create_due(now)]
            for tracked in created:
                self._note(tracked)
            for tracked in state.startable(now)[: max(0, MAX_RUNNING - state.running)]:
                self._start(tracked)
            if state.ticks == ahead and not state.can_still_create(now):
                break
        if (then := state.next_wake(now)) is not None:
            self._wake_at(then)

    def note_what_is_due(self) -> None:
        """At the end: notes the runs that would have been made, had a limit not kept them from it."""
        state, now = self.state, self._world.clock.now - timedelta(microseconds=1)
        if self._world.assumptions.resumes(now) > now or state.spec.schedule.answers_by_moment:
            return
        state.spec = state.spec.model_copy(update={"max_active_runs": len(state.runs) + MAX_NOTED})
        while self.overdue < MAX_NOTED:
            if (question := state.question(now)) is not None:
                state.take(self._world.calendars.answer(question), question.now)
            made = state.create_due(now)
            for tracked in made:
                self._note(tracked)
            self.overdue += len(made)
            if not made:
                return

    def _note(self, tracked: TrackedRun) -> None:
        run = tracked.run
        span = RunSpan(
            dag_id=run.dag_id,
            run_id=run.run_id,
            run_type=run.run_type,
            logical_date=run.logical_date,
            run_after=run.run_after,
            created_at=self._world.clock.now,
            deadline=run.run_after + self.state.spec.deadline if self.state.spec.deadline is not None else None,
        )
        self.spans[run.run_id] = span
        self._world.runs.append(span)
        self._world.open_runs += 1

    def _start(self, tracked: TrackedRun) -> None:
        now = self._world.clock.now
        self.state.start(tracked, now)
        started = DagRunState(
            run=tracked.run, spec=self.state.spec, started_at=now, past=self.state.past_of(tracked), is_paused=False
        )
        run = SimulatedRun(self._world, self._turn, tracked, started, self._ended, self._task_ended)
        self.runs[tracked.run.key] = run
        span = self.spans[tracked.run.run_id]
        span.started_at, span.state = now, tracked.state
        self._at(now, run.go_on)

    def _ended(self, run: SimulatedRun, end: RunEnd) -> None:
        now, tracked = self._world.clock.now, run.tracked
        del self.runs[tracked.run.key]
        self._world.open_runs -= 1
        span = self.spans.pop(tracked.run.run_id)
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
        if instance.task_id in self._remembered:
            states = run.state.past_of_tasks([instance.task_id])
            ended = TasksEnded(key=run.tracked.run.key, states=states, is_delta=True)
            self._tell(self.state.tasks_ended(ended), states)

    def _tell(self, runs: Iterable[TrackedRun], changed: Mapping[str, TaskState] | None = None) -> None:
        """The runs after it hear how the one before stands: all of it, or what has *changed*."""
        for tracked in runs:
            other = self.runs.get(tracked.run.key)
            if other is not None:
                update = self.state.update_for_run(tracked, changed)
                self._at(self._world.clock.now, partial(other.look_back, update.past, is_delta=update.is_delta))

    def _tell_assets(self, run: SimulatedRun, instance: TaskInstance) -> None:
        now = self._world.clock.now
        for emission in events_of(run.state.run, run.state.spec.by_id[instance.task_id], instance, (), ""):
            self._at(now, partial(self._world.tell_of_asset, emission.event.of(emission.asset, now)))
