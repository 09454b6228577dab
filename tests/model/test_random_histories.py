"""Whole histories of a run, drawn by chance: tries that end in every way, clears and marks in the middle of them.

Every change of a state goes through the table of which may follow which, as in the workflow, and every run ends.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support import at, bash, dag
from tidemill.model.run.changes import Change, cleared, marked
from tidemill.model.run.identity import TriggerRequest, manual_run
from tidemill.model.run.planner import RunPlan
from tidemill.model.run.revisions import ClearRequest, MarkRequest
from tidemill.model.run.state import DagRunState
from tidemill.model.states import TaskState

NAMES = ("a", "b", "c", "d", "e")
ENDS = (
    TaskState.SUCCESS,
    TaskState.FAILED,
    TaskState.SKIPPED,
    TaskState.UP_FOR_RETRY,
    TaskState.UP_FOR_RESCHEDULE,
    TaskState.DEFERRED,
)
WAITING = (TaskState.UP_FOR_RETRY, TaskState.UP_FOR_RESCHEDULE, TaskState.DEFERRED)
STOPPING = (TaskState.SHUTDOWN, TaskState.RESTARTING)
RULES = ("all_success", "all_done", "one_success", "none_failed", "one_failed", "none_failed_min_one_success")
Step = tuple[str, str, Any]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("end"), st.sampled_from(NAMES), st.sampled_from(ENDS)),
        st.tuples(st.just("wake"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("clear"), st.sampled_from(NAMES), st.booleans()),
        st.tuples(
            st.just("mark"),
            st.sampled_from(NAMES),
            st.sampled_from([TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED]),
        ),
    ),
    max_size=40,
)


class History:
    """A run as its workflow keeps it, without the work."""

    def __init__(self, edges: set[tuple[int, int]], rule: str) -> None:
        upstream = {j: [NAMES[i] for i, k in edges if k == j] for j in range(len(NAMES))}
        tasks = [bash(name, "x", *upstream[j], retries=99, trigger_rule=rule) for j, name in enumerate(NAMES)]
        spec = dag("d", tasks, max_active_tasks=3)
        run = manual_run("d", spec.schedule, TriggerRequest(), at("2026-01-01"))
        self.state = DagRunState(run=run, spec=spec)
        self.state.fill()
        self.plan = RunPlan(spec, self.state.states)
        self.then: dict[str, TaskState] = {}
        """What those become that are being stopped."""

    def follow(self, step: Step) -> None:
        self.decide()
        what, name, how = step
        state = self.state.instances[name].state
        if what == "end" and state in (TaskState.QUEUED, *STOPPING):
            self.end(name, how)
        elif what == "wake" and state in WAITING:
            self.move(name, TaskState.SCHEDULED)
        elif what == "clear":
            self.apply(cleared(self.state, ClearRequest(tasks=(name,), downstream=how)))
        elif what == "mark":
            self.apply(marked(self.state, MarkRequest.model_validate({"tasks": (name,), "state": how})))

    def decide(self) -> None:
        for decision in self.plan.decide():
            self.state.instances[decision.key].move(decision.state)
        busy = sum(i.state in (TaskState.QUEUED, TaskState.RUNNING) for i in self.state.instances.values())
        assert busy <= 3 + len(self.then), "max_active_tasks"

    def end(self, name: str, how: TaskState) -> None:
        if name in self.then:
            self.move(name, self.then.pop(name))
        else:
            self.state.instances[name].move(TaskState.RUNNING)
            self.move(name, how)

    def apply(self, change: Change) -> None:
        for key, state in change.states.items():
            instance = self.state.instances[key]
            self.plan.forget_skips(key)
            if instance.state in (TaskState.QUEUED, *STOPPING):
                self.then[key] = state
                stopping = TaskState.RESTARTING if state is TaskState.NONE else TaskState.SHUTDOWN
                if instance.state is not stopping:
                    self.move(key, stopping)
            elif instance.state is not state:
                if state is TaskState.NONE:
                    instance.clear()
                self.move(key, state)

    def move(self, name: str, state: TaskState) -> None:
        self.state.instances[name].move(state)
        self.plan.record(name, state)

    def to_the_end(self) -> None:
        for _ in range(100):
            self.decide()
            if self.plan.end() is not None:
                return
            for name in NAMES:
                state = self.state.instances[name].state
                if state in (TaskState.QUEUED, *STOPPING):
                    self.end(name, TaskState.SUCCESS)
                elif state in WAITING:
                    self.move(name, TaskState.SCHEDULED)
        raise AssertionError(f"it does not end: {self.state.states}")


@given(
    st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda edge: edge[0] < edge[1])),
    st.sampled_from(
        ["all_success", "all_done", "one_success", "none_failed", "one_failed", "none_failed_min_one_success"]
    ),
    steps,
)
def test_no_history_takes_a_state_that_cannot_follow_and_all_come_to_an_end(
    edges: set[tuple[int, int]], rule: str, drawn: list[Step]
) -> None:
    history = History(edges, rule)
    for step in drawn:
        history.follow(step)
    history.to_the_end()
    assert all(instance.state.finished for instance in history.state.instances.values())
