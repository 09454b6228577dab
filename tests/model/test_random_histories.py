"""Whole histories of a run, drawn by chance and carried out by the engine itself: tries that end in every way, clears
and marks in the middle of them.

Every change of a state goes through the table of which may follow which; what each task is owed is said by rules that
were written down once more (`tests/properties/rules.py`); and every run ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from properties.rules import RUN, Owing, skipped_by_value
from support import at, bash, dag
from tidemill.model.asset.outlets import OutletEvent
from tidemill.model.run.changes import cleared, marked
from tidemill.model.run.engine import CANCELLED, RunEngine
from tidemill.model.run.identity import TriggerRequest, manual_run
from tidemill.model.run.revisions import ClearRequest, MarkRequest
from tidemill.model.run.state import DagRunState
from tidemill.model.run.task_instances import Failure, Outcome, TaskInstance
from tidemill.model.spec.references import RETURN_VALUE
from tidemill.model.states import TaskState

NAMES = ("a", "b", "c", "d", "e")
START = at("2026-01-01")
ENDS = ("success", "failed", "skipped", "poke")
RULES = ("all_success", "all_done", "one_success", "none_failed", "one_failed", "none_failed_min_one_success")
Step = tuple[str, str, Any]

steps = st.lists(
    st.one_of(
        st.tuples(st.just("end"), st.sampled_from(NAMES), st.sampled_from(ENDS)),
        st.tuples(st.just("choose"), st.just("a"), st.sets(st.sampled_from(NAMES[1:]))),
        st.tuples(st.just("wake"), st.sampled_from(NAMES), st.none()),
        st.tuples(st.just("clear"), st.sampled_from(NAMES), st.booleans()),
        st.tuples(st.just("mark"), st.sampled_from(NAMES), st.sampled_from(["success", "failed", "skipped"])),
    ),
    max_size=40,
)


class History:
    """A run and the driver of its engine: attempts end when the history says so, no time passes by itself."""

    def __init__(self, edges: set[tuple[int, int]], rule: str, *, branches: bool) -> None:
        upstream = {j: [NAMES[i] for i, k in edges if k == j] for j in range(len(NAMES))}
        tasks = [bash(name, "x", *upstream[j], retries=99, trigger_rule=rule) for j, name in enumerate(NAMES)]
        if branches:
            tasks[0] = {"kind": "branch", "task_id": "a", "retries": 99}
        tasks[-1] = {"kind": "sensor", "task_id": "e", "upstream": upstream[4], "trigger_rule": rule, "timeout": 1e6}
        spec = dag("d", tasks, max_active_tasks=3)
        self.state = DagRunState(run=manual_run("d", spec.schedule, TriggerRequest(), START), spec=spec)
        self.now = START
        self.under_way: set[str] = set()
        self.stopped: set[str] = set()
        self.timers: dict[str, datetime] = {}
        self.engine = RunEngine(self.state, self)

    # The driver: see RunDriver

    def current_time(self) -> datetime:
        return self.now

    def changed(self) -> None: ...

    def softens_failures(self) -> bool:
        return True

    def tears_down(self) -> bool:
        return True

    def is_under_way(self, key: str) -> bool:
        return key in self.under_way

    def start_attempt(self, instance: TaskInstance) -> None:
        assert instance.key not in self.under_way, "two attempts at a time"
        self.under_way.add(instance.key)

    def stop_attempt(self, key: str) -> None:
        self.stopped.add(key)

    def set_timer(self, instance: TaskInstance, until: datetime) -> None:
        self.timers[instance.key] = until

    def forget_timer(self, key: str) -> None:
        self.timers.pop(key, None)

    def begin_trigger(self, instance: TaskInstance) -> None: ...

    def stop_trigger(self, key: str) -> None: ...

    def exchange_slots(self, wanted: Sequence[str], returned: Sequence[str]) -> bool:
        return False

    def return_slots(self, keys: Sequence[str]) -> None: ...

    def park_slots(self, key: str) -> None: ...

    def replan(self) -> None: ...

    def tell_of_try(self, instance: TaskInstance) -> None: ...

    def tell_of_end_of_try(
        self, instance: TaskInstance, state: TaskState, outcome: Outcome | Failure, reason: str | None
    ) -> None: ...

    def tell_of_assets(self, instance: TaskInstance, events: tuple[OutletEvent, ...]) -> None: ...

    def tell_of_end(self, instance: TaskInstance) -> None:
        assert instance.key not in self.timers, "it has ended, and is to be woken"

    # What happens

    def follow(self, step: Step) -> None:
        """Has *step* happen, if it can, and all that follows."""
        what, name, how = step
        instance = self.state.instances[name]
        if what == "end" and name in self.under_way:
            self.end(instance, how)
        elif what == "choose" and name in self.under_way and self.state.spec.by_id[name].kind == "branch":
            self.report(instance, Outcome(xcom={RETURN_VALUE: sorted(how)}))
        elif what == "wake" and name in self.timers:
            self.wake(instance)
        elif what == "clear":
            self.engine.apply(cleared(self.state, ClearRequest(tasks=(name,), downstream=how)))
        elif what == "mark":
            self.engine.apply(marked(self.state, MarkRequest.model_validate({"tasks": (name,), "state": how})))
        self.go_on()

    def end(self, instance: TaskInstance, how: str) -> None:
        if how == "failed":
            self.report(instance, Failure(error_type="ValueError", message="no"))
        elif how == "poke" and self.state.spec.by_id[instance.task_id].kind == "sensor":
            self.report(instance, Outcome(state=TaskState.UP_FOR_RESCHEDULE, started_at=self.now))
        else:
            self.report(instance, Outcome(state=TaskState.SKIPPED if how == "skipped" else TaskState.SUCCESS))

    def report(self, instance: TaskInstance, outcome: Outcome | Failure) -> None:
        self.under_way.discard(instance.key)
        was_stopped = instance.key in self.stopped
        self.stopped.discard(instance.key)
        self.engine.end_attempt(instance, CANCELLED if was_stopped else outcome)

    def wake(self, instance: TaskInstance) -> None:
        self.now = max(self.now, self.timers.pop(instance.key))
        self.engine.wake(instance)

    def go_on(self) -> None:
        """All that follows now; then nothing is left that could follow, and nothing has followed without a cause."""
        before = {key: (i.state, i.try_number) for key, i in self.state.instances.items()}
        self.engine.go_on()
        owing = Owing(self.state)
        for key, instance in self.state.instances.items():
            owed = owing.owed(key)
            if instance.state is TaskState.NONE:
                assert owed is None, f"{key} waits, and is owed {owed}"
            elif before[key][0] is TaskState.NONE:
                assert owed == (instance.state if instance.state.finished else RUN), f"{key} is {instance.state}"
            task = self.state.spec.by_id[key]
            if task.kind == "branch" and instance.state is TaskState.SUCCESS and key not in self.marked_or_cleared():
                assert {*instance.skips} == skipped_by_value(self.state.spec, task, instance.xcom.get(RETURN_VALUE))
        busy = sum(i.state in (TaskState.QUEUED, TaskState.RUNNING) for i in self.state.instances.values())
        assert busy <= 3 + len(self.stopped), "max_active_tasks"
        ready = any(i.state is TaskState.SCHEDULED for i in self.state.instances.values())
        assert not ready or busy + len(self.stopped) >= 3, "a slot is free, and a task waits"

    def marked_or_cleared(self) -> set[str]:
        return {key for key, i in self.state.instances.items() if (i.reason or "").startswith(("marked", "cleared"))}

    def to_the_end(self) -> None:
        """Whatever is left succeeds, and the run ends."""
        for _ in range(100):
            self.go_on()
            if self.engine.end is not None:
                return
            for name in NAMES:
                if name in self.under_way:
                    self.report(self.state.instances[name], Outcome())
                elif name in self.timers:
                    self.wake(self.state.instances[name])
            self.now += timedelta(seconds=1)
        raise AssertionError(f"it does not end: {self.state.states}")


@given(
    st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda edge: edge[0] < edge[1])),
    st.sampled_from(RULES),
    st.booleans(),
    steps,
)
def test_no_history_takes_a_state_that_cannot_follow_and_all_come_to_an_end(
    edges: set[tuple[int, int]], rule: str, branches: bool, drawn: list[Step]
) -> None:
    history = History(edges, rule, branches=branches)
    history.go_on()
    for step in drawn:
        history.follow(step)
    history.to_the_end()
    assert all(instance.state.finished for instance in history.state.instances.values())


def test_a_branch_that_is_cleared_decides_anew() -> None:
    """What it has left out the first time runs, if it chooses that the second time."""
    history = History({(0, 1), (0, 2)}, "all_success", branches=True)
    history.go_on()
    for step in (("choose", "a", {"b"}), ("clear", "a", True), ("end", "b", "success"), ("choose", "a", {"c"})):
        history.follow(step)
    assert history.state.states["b"] is TaskState.SKIPPED
    assert "c" in history.under_way
