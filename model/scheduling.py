"""Which task next, and why not: decided from a DAG and its tasks' states alone.

`RunPlan` is told each change of state and answers with decisions; it looks only at tasks whose
upstreams changed, so that a step costs the same in a run of ten tasks and of five thousand.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

from .dag import DagSpec
from .graph import downstreams, topological
from .states import FAILURES, RunState, TaskState
from .trigger_rules import TriggerRule, Upstreams, Verdict, judge


@dataclass(frozen=True, slots=True)
class Decision:
    """A task takes a state: QUEUED means that its work is to be started."""

    task_id: str
    state: TaskState
    reason: str


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended, and why."""

    state: RunState
    reason: str


class RunPlan:
    """What to do next in one run. Holds no more than can be made again from the tasks' states."""

    def __init__(self, spec: DagSpec, states: Mapping[str, TaskState]) -> None:
        self.spec = spec
        self.states = dict(states)
        self._below = downstreams(spec.upstreams)
        self._order = {task_id: n for n, task_id in enumerate(topological(spec.upstreams))}
        self._upstreams = {
            task.task_id: Upstreams.of(self.states[above] for above in task.upstream) for task in spec.tasks
        }
        self._unfinished = sum(not state.finished for state in self.states.values())
        self._busy = sum(state.holds_a_worker for state in self.states.values())
        self._waiting_for_time = sum(state in _WAIT_FOR_TIME for state in self.states.values())
        self._ready: list[tuple[int, str]] = []
        self._changed = [task_id for task_id, state in self.states.items() if state is TaskState.NONE]
        for task_id, state in self.states.items():
            if state is TaskState.SCHEDULED:
                heappush(self._ready, (self._order[task_id], task_id))

    def record(self, task_id: str, state: TaskState) -> None:
        """Takes note that *task_id* is now in *state*, whoever brought that about."""
        old = self.states[task_id]
        self.states[task_id] = state
        self._unfinished += (not state.finished) - (not old.finished)
        self._busy += state.holds_a_worker - old.holds_a_worker
        self._waiting_for_time += (state in _WAIT_FOR_TIME) - (old in _WAIT_FOR_TIME)
        if state is TaskState.NONE:
            self._changed.append(task_id)
        if state is TaskState.SCHEDULED:
            heappush(self._ready, (self._order[task_id], task_id))
        for other in self._below[task_id]:
            counts = self._upstreams[other]
            counts.add(old, -1)
            counts.add(state, 1)
            if state.finished and self.states[other] is TaskState.NONE:
                self._changed.append(other)

    def decide(self) -> list[Decision]:
        """What follows from all that was recorded, to the point where only outcomes can tell more."""
        decisions = self._judge_changed()
        decisions.extend(self._fill_slots())
        return decisions

    def _judge_changed(self) -> list[Decision]:
        decisions = []
        while self._changed:
            changed, self._changed = self._changed, []
            for task_id in dict.fromkeys(changed):
                if self.states[task_id] is TaskState.NONE and (decision := self._judge(task_id)) is not None:
                    self.record(task_id, decision.state)
                    decisions.append(decision)
        return decisions

    def _judge(self, task_id: str) -> Decision | None:
        task = self.spec.by_id[task_id]
        match judge(task.trigger_rule, self._upstreams[task_id]):
            case Verdict.RUN:
                return Decision(task_id, TaskState.SCHEDULED, f"{task.trigger_rule} is met")
            case Verdict.SKIPPED:
                return Decision(task_id, TaskState.SKIPPED, self._blame(task_id))
            case Verdict.UPSTREAM_FAILED:
                return Decision(task_id, TaskState.UPSTREAM_FAILED, self._blame(task_id))
            case _:
                return None

    def _fill_slots(self) -> list[Decision]:
        decisions = []
        while self._ready and self._busy < self.spec.max_active_tasks:
            _, task_id = heappop(self._ready)
            if self.states[task_id] is TaskState.SCHEDULED:
                self.record(task_id, TaskState.QUEUED)
                decisions.append(Decision(task_id, TaskState.QUEUED, "a slot is free"))
        return decisions

    def end(self) -> RunEnd | None:
        """How the run ended; None while it goes on.

        As in Airflow the leaves decide: a failed task whose downstreams succeeded all the same
        does not fail the run. A run in which nothing can ever move again has failed.
        """
        if self._unfinished:
            if self._busy or self._ready or self._changed or self._waiting_for_time:
                return None
            stuck = sorted(task_id for task_id, state in self.states.items() if not state.finished)
            return RunEnd(RunState.FAILED, f"deadlock: nothing can start {_listing(stuck)}")
        leaves = [task_id for task_id, below in self._below.items() if not below]
        failed = [task_id for task_id in leaves if self.states[task_id] in FAILURES]
        if failed:
            return RunEnd(
                RunState.FAILED, f"{_listing(failed)} failed" if len(failed) == 1 else f"failed: {_listing(failed)}"
            )
        return RunEnd(RunState.SUCCESS, "every leaf task succeeded or was skipped")

    def why(self, task_id: str) -> str:
        """Why *task_id* is not running, in plain words."""
        state = self.states[task_id]
        task = self.spec.by_id[task_id]
        if state is TaskState.NONE:
            return self._blame(task_id)
        if state is TaskState.SCHEDULED:
            return (
                f"max_active_tasks = {self.spec.max_active_tasks} is reached: "
                f"{self._busy} tasks of this run are queued or running"
            )
        if state is TaskState.QUEUED:
            return f"waits for a worker on task queue {task.queue or 'of the DAG'!r}"
        return f"is {state}"

    def _blame(self, task_id: str) -> str:
        task = self.spec.by_id[task_id]
        groups: dict[TaskState, list[str]] = {}
        for above in task.upstream:
            state = self.states[above]
            if task.trigger_rule is not TriggerRule.ALL_SUCCESS or state is not TaskState.SUCCESS:
                groups.setdefault(state, []).append(above)
        told = "; ".join(
            f"{_listing(names)} {'is' if len(names) == 1 else 'are'} {state}" for state, names in groups.items()
        )
        return f"trigger_rule {task.trigger_rule}: {told}" if told else f"trigger_rule {task.trigger_rule}"


_WAIT_FOR_TIME = frozenset(
    {TaskState.UP_FOR_RETRY, TaskState.UP_FOR_RESCHEDULE, TaskState.DEFERRED, TaskState.AWAITING_INPUT}
)


def _listing(task_ids: Iterable[str], most: int = 5) -> str:
    names = list(task_ids)
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
