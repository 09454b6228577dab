"""What a run owes its tasks, written down once more from the contract, and from nothing that the product decides by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from tidemill.model.run.instance_keys import UNMAPPED, instance_key, split_key
from tidemill.model.spec.dag import DagSpec
from tidemill.model.spec.references import RETURN_VALUE, XCOM_REFERENCE
from tidemill.model.spec.trigger_rule import TriggerRule
from tidemill.model.states import TaskState

RUN = "run"
S = TaskState
BAD = (S.FAILED, S.UPSTREAM_FAILED)
A_DAY = timedelta(days=1)
BUSY = (S.QUEUED, S.RUNNING, S.SHUTDOWN)
"""States that count against max_active_tasks and pools."""
ACTIVE = (*BUSY, S.DEFERRED, S.AWAITING_INPUT)
"""States that count against limits on the instances of one task."""
OVER = (S.SUCCESS, S.FAILED, S.SKIPPED, S.UPSTREAM_FAILED, S.REMOVED)
"""States of a task that goes on only when a person says so."""


# Trigger rules


def owed_by_rule(rule: TriggerRule, states: list[TaskState]) -> str | TaskState | None:
    """RUN, the state in which a task ends unrun, or None where it waits: by a rule and the states upstream."""
    if not states or rule is TriggerRule.ALWAYS:
        return RUN
    n = Counter(states)
    good, skipped, bad = n[S.SUCCESS], n[S.SKIPPED], n[S.FAILED] + n[S.UPSTREAM_FAILED]
    over = good + skipped + bad + n[S.REMOVED] == len(states)
    when_over = RUN if over else None
    match rule:
        case TriggerRule.ALL_SUCCESS:
            return S.UPSTREAM_FAILED if bad else S.SKIPPED if skipped else when_over
        case TriggerRule.ALL_FAILED:
            return S.SKIPPED if good or skipped else when_over
        case TriggerRule.ALL_DONE:
            return when_over
        case TriggerRule.ALL_DONE_MIN_ONE_SUCCESS:
            return S.SKIPPED if skipped else None if not over else RUN if good else S.UPSTREAM_FAILED
        case TriggerRule.ALL_SKIPPED:
            return S.SKIPPED if good or bad else RUN if skipped == len(states) else None
        case TriggerRule.ONE_SUCCESS:
            return RUN if good else None if not over else S.SKIPPED if skipped == len(states) else S.UPSTREAM_FAILED
        case TriggerRule.ONE_FAILED:
            return RUN if bad else S.SKIPPED if over else None
        case TriggerRule.ONE_DONE:
            return RUN if good or n[S.FAILED] else S.SKIPPED if over else None
        case TriggerRule.NONE_FAILED:
            return S.UPSTREAM_FAILED if bad else when_over
        case TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS:
            if bad or not over:
                return S.UPSTREAM_FAILED if bad else None
            return RUN if good else S.SKIPPED if skipped == len(states) else S.UPSTREAM_FAILED
        case TriggerRule.NONE_SKIPPED:
            return S.SKIPPED if skipped else when_over
    raise ValueError(f"what does {rule} owe?")


# The graph


class Graph:
    """A version of a DAG: who is above and below whom, and which setups whose work needs."""

    def __init__(self, spec: DagSpec) -> None:
        self.tasks = spec.by_id
        self.below: dict[str, set[str]] = {task_id: set() for task_id in self.tasks}
        for task_id, task in self.tasks.items():
            for other in task.upstream:
                self.below[other].add(task_id)

    def all_above(self, task_id: str) -> set[str]:
        return self._closure(task_id, lambda one: self.tasks[one].upstream)

    def all_below(self, task_id: str) -> set[str]:
        return self._closure(task_id, lambda one: self.below[one])

    @staticmethod
    def _closure(start: str, following: Any) -> set[str]:
        found: set[str] = set()
        todo = [*following(start)]
        while todo:
            if (one := todo.pop()) not in found:
                found.add(one)
                todo += following(one)
        return found

    def setups_needed(self, task_id: str) -> list[str]:
        """Setups further up, not directly above, that are torn down only after the task, or never."""
        if self.tasks[task_id].is_teardown:
            return []
        return [
            other
            for other in sorted(self.all_above(task_id) - {*self.tasks[task_id].upstream})
            if self.tasks[other].is_setup and self._still_stands(other, task_id)
        ]

    def _still_stands(self, setup: str, task_id: str) -> bool:
        ends = {other for other in self.below[setup] if self.tasks[other].is_teardown}
        return not ends or bool(ends & self.all_below(task_id))

    def work_torn_down(self, teardown: str) -> list[str]:
        """What lies between a teardown and its setups, and not directly above it."""
        task = self.tasks[teardown]
        if not task.is_teardown:
            return []
        setups = [other for other in task.upstream if self.tasks[other].is_setup]
        covered = {other for setup in setups for other in self.all_below(setup)}
        return sorted((covered & self.all_above(teardown)) - {*task.upstream})


_GRAPHS: dict[tuple[str, str], Graph] = {}
"""By DAG and version."""


def graph_of(spec: DagSpec) -> Graph:
    """The graph of a version of a DAG."""
    key = (spec.dag_id, spec.version)
    if key not in _GRAPHS:
        if len(_GRAPHS) > 100:
            _GRAPHS.clear()
        _GRAPHS[key] = Graph(spec)
    return _GRAPHS[key]


# A run


class Owing:
    """How the instances of a run stand, and what is owed to those that have not begun."""

    def __init__(self, state: Any) -> None:
        self.state, self.spec = state, state.spec
        self.graph = graph_of(state.spec)
        self._keys: dict[str, list[str]] = {}
        for key in state.instances:
            self._keys.setdefault(split_key(key)[0], []).append(key)

    def depended_on(self, key: str, other: str) -> list[str]:
        """The instances of *other* that *key* looks at: in one mapped group, those of its own index."""
        task_id, index = split_key(key)
        scope = self.spec.map_scopes.get(task_id)
        keys = self._keys[other]
        if scope is None or self.spec.map_scopes.get(other) != scope:
            return keys
        is_expanded = split_key(keys[0])[1] != UNMAPPED
        if index == UNMAPPED:
            return [] if is_expanded else keys
        return [instance_key(other, index)] if is_expanded and len(keys) == len(self._keys[task_id]) else keys

    def states(self, key: str, others: Iterable[str]) -> list[TaskState]:
        return [self.state.instances[one].state for other in others for one in self.depended_on(key, other)]

    def owed(self, key: str) -> str | TaskState | None:
        """RUN, the state in which the instance ends unrun, or None where it waits for others upstream."""
        task_id, _ = split_key(key)
        task = self.spec.by_id[task_id]
        if self.is_skipped_by_another(key):
            return S.SKIPPED
        setups = self.states(key, self.graph.setups_needed(task_id))
        verdict = owed_by_rule(TriggerRule.ALL_SUCCESS, setups)
        if verdict == RUN:
            verdict = self._by_own_rule(key, task)
            if any(state not in OVER for state in self.states(key, self.graph.work_torn_down(task_id))):
                verdict = None
        if verdict in (RUN, None) and (end := self._end_by_values(task_id)) is not None:
            return end
        return verdict

    def _by_own_rule(self, key: str, task: Any) -> str | TaskState | None:
        if task.trigger_rule is not TriggerRule.ALL_DONE_SETUP_SUCCESS or not task.upstream:
            return owed_by_rule(task.trigger_rule, self.states(key, task.upstream))
        if any(state not in OVER for state in self.states(key, task.upstream)):
            return None
        setups = self.states(key, [other for other in task.upstream if self.spec.by_id[other].is_setup])
        if setups and all(state is S.SKIPPED for state in setups):
            return S.SKIPPED
        return S.UPSTREAM_FAILED if setups and S.SUCCESS not in setups else RUN

    def _end_by_values(self, task_id: str) -> TaskState | None:
        """How a mapped task ends whose values never come."""
        if self.waits_for_values(task_id):
            above = [
                self.state.instances[other].state for other in self._sources(task_id) if len(self._keys[other]) == 1
            ]
            if any(state in BAD for state in above):
                return S.UPSTREAM_FAILED
            if S.SKIPPED in above:
                return S.SKIPPED
        return None

    def _sources(self, task_id: str) -> list[str]:
        return list(self.spec.mapped_over(task_id))

    def waits_for_values(self, task_id: str) -> bool:
        """Whether a mapped task has no instances yet."""
        return task_id in self.spec.mapped and split_key(self._keys[task_id][0])[1] == UNMAPPED

    def values_are_there(self, task_id: str) -> bool:
        """Whether all that a mapped task is mapped over has ended."""
        above = [key for other in self._sources(task_id) for key in self._keys[other]]
        return all(self.state.instances[key].state in OVER for key in above)

    def is_skipped_by_another(self, key: str) -> bool:
        """Whether a branch or a short circuit that has succeeded has left the instance out."""
        task_id, index = split_key(key)
        for other, instance in self.state.instances.items():
            if task_id not in instance.skips or instance.state is not S.SUCCESS:
                continue
            if self._decides_for(other, key, index):
                return True
        return False

    def _decides_for(self, skipper: str, key: str, index: int) -> bool:
        other, other_index = split_key(skipper)
        if other_index == UNMAPPED:
            return True
        depended = self.depended_on(key, other)
        return skipper in depended if index != UNMAPPED else bool(depended)

    def is_held_by_past(self, task: Any) -> bool:
        """Whether the run before keeps a task from starting."""
        past = self.state.past
        if past is None or not (task.depends_on_past or task.wait_for_downstream):
            return False
        if task.task_id not in past.states:
            return not task.ignore_first_depends_on_past
        looked_at = [task.task_id, *(self.graph.below[task.task_id] if task.wait_for_downstream else ())]
        return any(past.states.get(one, S.SUCCESS) not in (S.SUCCESS, S.SKIPPED) for one in looked_at)


def skipped_by_value(spec: DagSpec, task: Any, value: Any) -> set[str] | None:
    """The tasks that a branch, a short circuit or latest_only leaves out; None: that value says nothing."""
    graph = graph_of(spec)
    if task.kind == "branch":
        names = [value] if isinstance(value, str) else list(value or ())
        if any(name not in graph.tasks for name in names):
            return None
        kept = {*names, *(other for name in names for other in graph.all_below(name))}
        return graph.below[task.task_id] - kept
    if task.kind in ("short_circuit", "latest_only") and not value:
        all_of_it = task.kind == "short_circuit" and task.ignore_downstream_trigger_rules
        below = graph.all_below(task.task_id) if all_of_it else graph.below[task.task_id]
        return {other for other in below if not graph.tasks[other].is_teardown}
    return set()


def retry_delays(task: Any, tries: int, given: timedelta | None) -> tuple[timedelta, timedelta]:
    """Between what and what the delay before the next try is, after *tries* of them; *given* by the failure itself."""
    if given is not None:
        return given, given
    least = most = task.retry_delay
    if task.retry_exponential_backoff and least > timedelta():
        times = 2.0 if task.retry_exponential_backoff is True else float(task.retry_exponential_backoff)
        least = min(timedelta(seconds=min(least.total_seconds() * times ** (tries - 1), A_DAY.total_seconds())), A_DAY)
        most = min(2 * least, A_DAY)
    if task.max_retry_delay is not None:
        least, most = min(least, task.max_retry_delay), min(most, task.max_retry_delay)
    return least, most


def value_of(instance: Any) -> Any:
    """What a task has returned."""
    return instance.xcom.get(RETURN_VALUE)


def lengths(spec: DagSpec, instances: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The mapped tasks whose number of instances follows from one list, written or returned, and that number."""
    for task_id, expansion in spec.mapped.items():
        if len(expansion.by) != 1 or expansion.each is not None or spec.map_scopes[task_id] != task_id:
            continue
        [value] = expansion.by.values()
        if isinstance(value, list | tuple):
            yield task_id, len(value)
        elif isinstance(value, dict) and value.keys() == {XCOM_REFERENCE, "key"}:
            if (source := instances.get(value[XCOM_REFERENCE])) is None:
                continue
            found = source.xcom.get(value["key"])
            if source.state is S.SUCCESS and isinstance(found, list):
                yield task_id, len(found)
