"""Which task next, and why not: decided from a DAG and its tasks' states alone.

`RunPlan` is told each change of state and answers with decisions; it looks only at tasks whose
upstreams changed, so that a step costs the same in a run of ten tasks and of five thousand.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from ..spec.dag import DagSpec
from ..spec.graph import topological
from ..spec.tasks import BaseTask
from ..spec.trigger_rule import TriggerRule
from ..states import FAILURES, RunState, TaskState
from .instance_keys import UNMAPPED, instance_key, split_key
from .past import Past, held_by_past
from .ready_tasks import AHEAD, ReadyTasks
from .setups import leaves, setup_rules
from .trigger_rules import Upstreams, Verdict, judge


@dataclass(frozen=True, slots=True)
class Decision:
    """An instance of a task takes a state: QUEUED means that its work is to be started."""

    key: str
    state: TaskState
    reason: str


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended, and why."""

    state: RunState
    reason: str


class RunPlan:
    """What to do next in one run. Holds no more than can be made again from what it is given.

    *states* are by instance: `load`, or `load[0]`, `load[1]` once a mapped task is expanded. *parallelism* is how many
    tasks of all DAGs may run at once; None: any number.
    """

    def __init__(
        self,
        spec: DagSpec,
        states: Mapping[str, TaskState],
        past: Past | None = None,
        parallelism: int | None = None,
    ) -> None:
        self.spec = spec
        self._to_expand: dict[str, None] = {}
        """Mapped tasks that could run, and have no instances yet."""
        self.states = dict(states)
        self.past = past
        self.paused = False
        self.ending = False
        """The run ends early, and only its teardowns go on: neither a pause nor the past holds them."""
        self._order = {task_id: n for n, task_id in enumerate(topological(spec.upstreams))}
        self._setups = setup_rules(spec.by_id)
        self._concerned = self._setups.concerned()
        self._expanded = _expanded(self.states)
        self._unexpandable: dict[str, str] = {}
        self._outer: dict[str, Upstreams] = {}
        self._inner: dict[str, Upstreams] = {}
        for task_id in spec.by_id:
            self._count_upstreams(task_id)
        self._skippers: dict[str, dict[str, str]] = {}
        self._held: dict[str, str] = {}
        self._stopped_by: str | None = None
        self._unfinished = sum(not state.finished for state in self.states.values())
        self._in_state = dict.fromkeys(TaskState, 0)
        self._changed = [key for key, state in self.states.items() if state is TaskState.NONE]
        self.weights = spec.weights
        self._ready = ReadyTasks(spec, self._order, self.weights, parallelism)
        for key, state in self.states.items():
            self._in_state[state] += 1
            self._ready.count(key, TaskState.NONE, state)
            if state is TaskState.SCHEDULED:
                self._ready.push(key)

    @property
    def counts(self) -> Mapping[TaskState, int]:
        """How many instances are in each state."""
        return self._in_state

    # What the plan is told

    def record(self, key: str, state: TaskState) -> None:
        """Takes note that *key* is now in *state*, whoever brought that about."""
        old = self.states[key]
        self.states[key] = state
        self._unfinished += (not state.finished) - (not old.finished)
        self._in_state[old] -= 1
        self._in_state[state] += 1
        self._ready.count(key, old, state)
        self._held.pop(key, None)
        if state is TaskState.NONE:
            self._unexpandable.pop(key, None)
            self._to_expand.pop(key, None)
            self._changed.append(key)
        if state is TaskState.SCHEDULED:
            self._ready.push(key)
        task_id, map_index = split_key(key)
        if state is TaskState.FAILED and self.spec.fail_fast and not self.spec.by_id[task_id].is_teardown:
            self._stopped_by = self._stopped_by or key
        for other in self.spec.downstreams[task_id]:
            self._tell(other, task_id, map_index, old, state)
        if state.finished:
            for other in self._concerned.get(task_id, ()):
                paired = self._paired(task_id, other)
                self._look_at([instance_key(other, map_index)] if paired else self.keys(other))

    def _tell(self, other: str, task_id: str, map_index: int, old: TaskState, new: TaskState) -> None:
        """Counts a change of state where *other*, directly downstream, counts its upstreams."""
        if self._paired(task_id, other):
            keys = [instance_key(other, map_index)]
            counts = self._inner[keys[0]]
        else:
            keys, counts = self.keys(other), self._outer[other]
        _add(counts, self.spec.by_id[task_id], old, -1)
        _add(counts, self.spec.by_id[task_id], new, 1)
        if new.finished:
            self._look_at(keys)

    def _look_at(self, keys: Iterable[str]) -> None:
        self._changed.extend(key for key in keys if self.states.get(key) is TaskState.NONE)

    def skip(self, key: str, task_ids: Iterable[str]) -> None:
        """*key*, a branch or a short circuit, has decided that *task_ids* do not run."""
        for task_id in task_ids:
            self._skippers.setdefault(task_id, {})[key] = f"skipped by {key}"
            self._look_at(self.keys(task_id))

    def forget_skips(self, key: str) -> None:
        """*key* is run again, and decides anew."""
        for skippers in self._skippers.values():
            skippers.pop(key, None)

    def begin_end(self, *, tears_down: bool) -> None:
        """The run is to end: where it *tears_down*, neither a pause nor the past holds what is left."""
        self.ending = tears_down
        if tears_down:
            self._look_at([*self._held])

    def look_back(self, past: Past | None, changed: Collection[str] | None = None) -> None:
        """Takes note of how the run before stands; *changed* names the tasks that stand otherwise now, if known."""
        self.past = past
        if changed is None:
            self._look_at([*self._held])
            return
        concerned = {*changed}
        for task_id in changed:  # wait_for_downstream looks at those below
            concerned.update(self.spec.upstreams.get(task_id, ()))
        self._look_at([key for task_id in sorted(concerned) for key in self.keys(task_id) if key in self._held])

    def grant(self, key: str) -> bool:
        """*key* has been let in by its pool. False if it does not want to any more."""
        return self.states.get(key) is TaskState.SCHEDULED and self._ready.grant(key)

    def mark_requested(self, keys: Iterable[str]) -> None:
        """Leases that an earlier execution of the run has asked for: no others are asked for in their place."""
        for key in keys:
            if self.states.get(key) is TaskState.SCHEDULED:
                self._ready.mark_requested(key)

    def ask_ahead(self, limit: int = AHEAD) -> None:
        """Asks a pool for some leases at a time, not for all that may be needed."""
        self._ready.ask_ahead(limit)

    def hold(self) -> None:
        """Nothing is started for now: what pools have let in is given back."""
        self._ready.give_back(self.states)

    @property
    def wanted_leases(self) -> list[str]:
        """Instances that have to be let in by a pool; the reader empties the list."""
        return self._ready.wanted

    @property
    def returned_leases(self) -> list[str]:
        """Instances that were let in and do not start now; the reader empties the list."""
        return self._ready.returned

    # Mapped tasks

    def keys(self, task_id: str) -> list[str]:
        """The instances of a task: itself, or one for each value that it is mapped over."""
        n = self._expanded.get(task_id)
        return [task_id] if n is None else [instance_key(task_id, i) for i in range(n)]

    def mappable(self) -> list[str]:
        """The mapped tasks that can be expanded now: all that they are mapped over has ended.

        As in Airflow, one whose values are not known before the run is judged as a whole before it is expanded.
        """
        return [
            task_id
            for task_id in self.spec.mapped
            if self.states.get(task_id) is TaskState.NONE
            and (task_id in self._to_expand or not self.spec.mapped_over(task_id))
            and task_id not in self._unexpandable
            and all(self.states[key].finished for above in self.spec.mapped_over(task_id) for key in self.keys(above))
        ]

    def expand(self, task_ids: Iterable[str], n: int) -> None:
        """Puts *n* instances in the place of each of *task_ids*, which are mapped together (n > 0)."""
        together = [*task_ids]
        for task_id in together:
            del self.states[task_id]
            self._held.pop(task_id, None)
            self._to_expand.pop(task_id, None)
            self._expanded[task_id] = n
            self._unfinished += n - 1
            self._in_state[TaskState.NONE] += n - 1
            self.states.update(dict.fromkeys(self.keys(task_id), TaskState.NONE))
            self._changed.extend(self.keys(task_id))
        below = [other for task_id in together for other in self.spec.downstreams[task_id]]
        for concerned in dict.fromkeys([*together, *below]):
            self._count_upstreams(concerned)
        # What they depend on is less now.
        further = [other for task_id in together for other in self._concerned.get(task_id, ())]
        for concerned in dict.fromkeys([*below, *further]):
            self._look_at(self.keys(concerned))

    def cannot_expand(self, task_id: str, reason: str) -> None:
        """*task_id* cannot be mapped. When it could run it fails, or is skipped where its source did not succeed."""
        self._unexpandable[task_id] = reason
        self._changed.append(task_id)

    def _paired(self, task_id: str, other: str) -> bool:
        """Whether instances of *other* look only at the instance of *task_id* of the same map_index."""
        scope = self.spec.map_scopes.get(task_id)
        if scope is None or scope != self.spec.map_scopes.get(other):
            return False
        n, m = self._expanded.get(task_id), self._expanded.get(other)
        if n != m:  # what they are mapped over was run again by itself, and has come to more or less
            return False
        return n is not None and m is not None

    def _count_upstreams(self, task_id: str) -> None:
        """Counts anew how the upstreams of *task_id* stand."""
        above = self.spec.by_id[task_id].upstream
        paired = [other for other in above if self._paired(other, task_id)]
        self._outer[task_id] = self._counted(
            (other, self.states[key]) for other in above if other not in paired for key in self.keys(other)
        )
        if paired:
            for i, key in enumerate(self.keys(task_id)):
                self._inner[key] = self._counted((other, self.states[instance_key(other, i)]) for other in paired)

    def _counted(self, upstreams: Iterable[tuple[str, TaskState]]) -> Upstreams:
        counts = Upstreams()
        for task_id, state in upstreams:
            task = self.spec.by_id[task_id]
            counts.total += 1
            counts.setups += task.is_setup
            _add(counts, task, state, 1)
        return counts

    # What follows

    def decide(self) -> list[Decision]:
        """What follows from all that was recorded, to the point where only outcomes can tell more."""
        decisions = self._stop_rest() if self._stopped_by is not None else []
        decisions.extend(self._judge_changed())
        if self.paused and not self.ending:
            self.hold()
        else:
            for key in self._ready.take(self.states):
                self.record(key, TaskState.QUEUED)
                decisions.append(Decision(key, TaskState.QUEUED, "a slot is free"))
        return decisions

    def carry_out(self, expand: Callable[[], bool], follow: Callable[[Decision], None]) -> None:
        """Has each decision followed, and mapped tasks expanded (True: there were any), until nothing follows."""
        while True:
            expanded = expand()
            decisions = self.decide()
            for decision in decisions:
                follow(decision)
            if not decisions and not expanded and not self.mappable():
                return

    def _stop_rest(self) -> list[Decision]:
        """fail_fast: the first failure ends everything but teardowns."""
        reason, self._stopped_by = f"fail_fast: {self._stopped_by} failed", None
        decisions = []
        for key, state in self.states.items():
            if not state.finished and not self.spec.by_id[split_key(key)[0]].is_teardown:
                under_way = state.holds_a_worker or state is TaskState.RESTARTING
                end = TaskState.SHUTDOWN if under_way else TaskState.SKIPPED
                if state is not TaskState.SHUTDOWN:
                    decisions.append(Decision(key, end, reason))
        for decision in decisions:
            self.record(decision.key, decision.state)
        self._stopped_by = None
        return decisions

    def _judge_changed(self) -> list[Decision]:
        decisions = []
        while self._changed:
            changed, self._changed = self._changed, []
            for key in dict.fromkeys(changed):
                if self.states.get(key) is TaskState.NONE and (decision := self._judge(key)) is not None:
                    self.record(key, decision.state)
                    decisions.append(decision)
        return decisions

    def _judge(self, key: str) -> Decision | None:
        task = self.spec.by_id[split_key(key)[0]]
        if (skipped := self._skipped_by(key)) is not None:
            return Decision(key, TaskState.SKIPPED, skipped)
        verdict = self._verdict(key, task)
        if verdict in (Verdict.RUN, Verdict.WAIT) and (end := self._end_by_sources(task.task_id)) is not None:
            return Decision(key, end, self._blame(key))
        match verdict:
            case Verdict.RUN:
                return self._schedule(key, task)
            case Verdict.SKIPPED:
                return Decision(key, TaskState.SKIPPED, self._blame(key))
            case Verdict.UPSTREAM_FAILED:
                return Decision(key, TaskState.UPSTREAM_FAILED, self._blame(key))
            case _:
                return None

    def _verdict(self, key: str, task: BaseTask) -> Verdict:
        """What the setups further up, and then the trigger rule, say of *key*."""
        above = self._setups.setups_above.get(task.task_id, ())
        setups = judge(TriggerRule.ALL_SUCCESS, self._states_of(key, above))
        if setups is not Verdict.RUN:
            return setups
        verdict = judge(task.trigger_rule, self._upstreams(key))
        work = self._states_of(key, self._setups.work_before.get(task.task_id, ()))
        return verdict if work.done else Verdict.WAIT

    def _schedule(self, key: str, task: BaseTask) -> Decision | None:
        held = held_by_past(task, self.past, self.spec.downstreams[task.task_id])
        if held is not None and not self.ending:
            self._held[key] = held
            return None
        if task.task_id in self.spec.mapped and task.task_id not in self._expanded:
            self._to_expand[task.task_id] = None
            reason = self._unexpandable.get(task.task_id)
            return None if reason is None else Decision(key, self._end_of_unexpandable(task.task_id), reason)
        return Decision(key, TaskState.SCHEDULED, f"{task.trigger_rule} is met")

    def _end_of_unexpandable(self, task_id: str) -> TaskState:
        sources = [self.states[key] for above in self.spec.mapped_over(task_id) for key in self.keys(above)]
        return TaskState.FAILED if all(state is TaskState.SUCCESS for state in sources) else TaskState.SKIPPED

    def _end_by_sources(self, task_id: str) -> TaskState | None:
        """How a mapped task ends whose values never come, whatever its rule (Airflow: MappedTaskUpstreamDep)."""
        if task_id in self._expanded or task_id not in self.spec.mapped:
            return None
        sources = {self.states[above] for above in self.spec.mapped_over(task_id) if above in self.states}
        if FAILURES & sources:
            return TaskState.UPSTREAM_FAILED
        return TaskState.SKIPPED if TaskState.SKIPPED in sources else None

    def _upstreams(self, key: str) -> Upstreams:
        task_id, _ = split_key(key)
        above = self.spec.by_id[task_id].upstream
        if any(not self._counts(key, other) for other in above):
            return self._counted((other, self.states[one]) for other in above for one in self._relevant(key, other))
        counts = self._outer[task_id]
        inner = self._inner.get(key)
        return counts if inner is None else counts.plus(inner)

    def _states_of(self, key: str, task_ids: Iterable[str]) -> Upstreams:
        return Upstreams.of(self.states[one] for task_id in task_ids for one in self._relevant(key, task_id))

    def _relevant(self, key: str, other: str) -> list[str]:
        """The instances of *other* that *key* depends on: of its own group, those of its own index alone (Airflow).

        A task that has no instances yet depends on none of its group that have.
        """
        task_id, map_index = split_key(key)
        if not self._counts(key, other):
            return []
        return [instance_key(other, map_index)] if self._paired(other, task_id) else self.keys(other)

    def _counts(self, key: str, other: str) -> bool:
        """Whether *key*, which may have no instances yet, depends on instances of *other*."""
        task_id, _ = split_key(key)
        if task_id not in self.spec.mapped or task_id in self._expanded:
            return True
        return other not in self._expanded or self.spec.map_scopes[other] != self.spec.map_scopes[task_id]

    def _skipped_by(self, key: str) -> str | None:
        task_id, map_index = split_key(key)
        for skipper, reason in self._skippers.get(task_id, {}).items():
            other, other_index = split_key(skipper)
            if other_index != UNMAPPED and not self._counts(key, other):
                continue  # it decides for one index, and *key* has none yet
            if UNMAPPED in (map_index, other_index) or not self._paired(other, task_id) or map_index == other_index:
                return reason
        return None

    # The end

    def end(self) -> RunEnd | None:
        """How the run ended; None while it goes on.

        As in Airflow the leaves decide: a failed task whose downstreams succeeded all the same
        does not fail the run. A run in which nothing can ever move again has failed.
        """
        if self._unfinished:
            if self._held or self._changed or self._stopped_by or any(self._in_state[state] for state in _MOVING):
                return None
            stuck = sorted(key for key, state in self.states.items() if not state.finished)
            return RunEnd(RunState.FAILED, f"deadlock: nothing can start {listing(stuck)}")
        judged = [key for task_id in leaves(self.spec.by_id) for key in self.keys(task_id)]
        failed = [key for key in judged if self.states[key] in FAILURES]
        if failed:
            causes = self._causes(failed)
            reason = f"{causes[0]} failed" if len(causes) == 1 else f"failed: {listing(causes)}"
            return RunEnd(RunState.FAILED, reason)
        return RunEnd(RunState.SUCCESS, "every leaf task succeeded or was skipped")

    def _causes(self, leaves: Collection[str]) -> list[str]:
        """The instances that have failed themselves and for which *leaves* have: those, or what is upstream of them."""
        above = {split_key(key)[0] for key in leaves if self.states[key] is TaskState.UPSTREAM_FAILED}
        ahead = [*above]
        while ahead:
            new = {*self.spec.upstreams[ahead.pop()]} - above
            above |= new
            ahead.extend(new)
        failed = [key for key, state in self.states.items() if state is TaskState.FAILED]
        return [key for key in failed if key in leaves or split_key(key)[0] in above] or [*leaves]

    # Why not

    def why(self, key: str) -> str:
        """Why *key* is not running, in plain words."""
        state, task = self.states[key], self.spec.by_id[split_key(key)[0]]
        if state is TaskState.NONE:
            return self._held.get(key) or self._blame(key)
        if state is TaskState.SCHEDULED:
            return "the DAG is paused: no task is started" if self.paused else self._ready.why(key)
        if state is TaskState.QUEUED:
            queue = f"task queue {task.queue!r}" if task.queue else "the DAG's task queue"
            return f"waits for a worker on {queue}"
        return f"is {state}"

    def _blame(self, key: str) -> str:
        task_id, map_index = split_key(key)
        task = self.spec.by_id[task_id]
        setups = self._states_in_words(self._setups.setups_above.get(task_id, ()), map_index, bad_only=True)
        if setups:
            return f"setup: {setups}"
        work = self._setups.work_before.get(task_id, ())
        if self._upstreams(key).done and not self._states_of(key, work).done:
            states = self._states_in_words(sorted(work), map_index, bad_only=True)
            return f"a teardown waits for all work of its setups: {states}"
        causes = self._states_in_words(task.upstream, map_index, bad_only=task.trigger_rule is TriggerRule.ALL_SUCCESS)
        return f"trigger_rule {task.trigger_rule}: {causes}" if causes else f"trigger_rule {task.trigger_rule}"

    def _states_in_words(self, task_ids: Iterable[str], map_index: int, *, bad_only: bool) -> str:
        """Which of *task_ids* are in which state."""
        groups: dict[TaskState, list[str]] = {}
        for task_id in task_ids:
            keys = self.keys(task_id)
            if map_index != UNMAPPED and len(keys) > map_index and keys[0] != task_id:
                keys = [keys[map_index]]
            for key in keys:
                if not bad_only or self.states[key] is not TaskState.SUCCESS:
                    groups.setdefault(self.states[key], []).append(key)
        return "; ".join(
            f"{listing(keys)} {'is' if len(keys) == 1 else 'are'} {state}" for state, keys in groups.items()
        )


_MOVING = (
    TaskState.SCHEDULED,
    TaskState.QUEUED,
    TaskState.RUNNING,
    TaskState.SHUTDOWN,
    TaskState.RESTARTING,
    TaskState.UP_FOR_RETRY,
    TaskState.UP_FOR_RESCHEDULE,
    TaskState.DEFERRED,
    TaskState.AWAITING_INPUT,
)
"""States that something will end: work, a clock, a person or a free slot."""


def _add(counts: Upstreams, task: BaseTask, state: TaskState, n: int) -> None:
    if task.is_setup:
        counts.add_setup(state, n)
    else:
        counts.add(state, n)


def _expanded(states: Iterable[str]) -> dict[str, int]:
    """How many instances there are of each mapped task that is expanded."""
    counts: dict[str, int] = {}
    for key in states:
        task_id, map_index = split_key(key)
        if map_index != UNMAPPED:
            counts[task_id] = counts.get(task_id, 0) + 1
    return counts


def listing(keys: Iterable[str], limit: int = 5) -> str:
    names = list(keys)
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
