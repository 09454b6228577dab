"""One installation under a seed: the service, its workers and what goes wrong, in one thread of virtual time."""

from __future__ import annotations

import itertools
import random
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.workflow_commands import WorkflowCommand

from .clock import SECOND, Agenda, instant
from .history import Activity, Event, Execution, Step
from .instance import Instance, NondeterminismError, TaskFailedError
from .releases import Release
from .service import Service

MAX_STEPS = 5_000
"""Workflow tasks of one seed, replayed ones too; those that have more are few, and cost what a hundred others do."""
STILL = 3 * SECOND
"""Nothing happens for so long where nothing is on its way."""
STILL_EVERY = 60 * SECOND
"""So often, at first, all workflows are looked at together; then less and less often."""
SUGGESTS = 0.08
"""The chance of each workflow task that it is suggested there to continue as new."""
VISIBILITY_LAG = 5 * SECOND
"""By how much a list may be behind."""
Answered = Callable[[Payload | None, Failure | None], None]


@dataclass
class Violation:
    """A property that does not hold."""

    name: str
    about: str
    at: int

    def __str__(self) -> str:
        return f"{instant(self.at):%Y-%m-%d %H:%M:%S} {self.name}: {self.about}"


@dataclass
class SimulatedWorker:
    """A worker process: its cache of workflows, and what it is doing."""

    number: int
    release: Release
    life: int = 0
    """How often it has been started: what an earlier life began comes to nothing."""
    down_until: int = 0
    cut_off_until: int = 0
    """Until when it lives on without a way to the service."""
    skew: int = 0
    """How far its clock is ahead."""
    cache: dict[str, Instance] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    """Run ids of workflows whose task is being answered: those are not put out of the cache."""
    running: dict[tuple[str, int, int], Activity] = field(default_factory=dict)
    cancels: dict[tuple[str, int, int], Callable[[], None]] = field(default_factory=dict)


class World:
    """Everything that happens. *releases* are those that workers may be of; the first is the one that is tested."""

    def __init__(
        self,
        seed: int,
        start: int,
        *,
        releases: Sequence[Release],
        perform: Callable[[World, SimulatedWorker, Execution, Activity], None],
        workers: int = 2,
        cached: int = 20,
        suggests_from: int = 4096,
        rates: dict[str, float] | None = None,
        observe: Callable[[World, Execution, Instance], object] | None = None,
        rest: Callable[[World], None] | None = None,
    ) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self._releases = releases
        self.now = start
        self.converter = releases[0].converter
        self.service = Service(self, suggests_from=suggests_from, now=start)
        self.agenda = Agenda()
        self.violations: list[Violation] = []
        self.counts: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()
        """How often each situation was reached, by its name."""
        self.trace: list[str] | None = None
        self.rates = rates or {}
        self.service_down_until = 0
        self.most_steps = MAX_STEPS
        self.suggests_rarely = False
        """Whether a long history is suggested to be left at any moment, and not at once."""
        self.calm = False
        """Whether nothing goes wrong any more."""
        self.workers = [SimulatedWorker(n, release=self._drawn_release()) for n in range(workers)]
        self._perform = perform
        self._observe = observe
        self._rest = rest
        self._rests_after, self._rest_pause = start, STILL_EVERY
        self._observed: dict[str, Instance] = {}
        """Workflows that nobody has in memory, for who only looks at them."""
        self._most_observed = 60
        self._cached = cached
        self._ids = itertools.count(1)
        self._waiting: dict[str, Answered] = {}
        self._snapshot: tuple[Service, int] | None = None

    @property
    def cut_short(self) -> bool:
        """Whether there is so much to do that the rest is left: it is counted, and says nothing of the end."""
        return self.counts["steps"] > self.most_steps

    # Time

    def run_until(self, end: int) -> None:
        """Does all that happens up to *end*."""
        while (at := self._next_at()) is not None and at <= end and not self.violations and not self.cut_short:
            if at >= self.now + STILL and self.now >= self._rests_after:
                self._look_around()
            self.now = max(self.now, at)
            if self._is_service_next():
                self.service.work_until(self.now)
            else:
                _, (action,) = self.agenda.pop()
                action()
        self.now = max(self.now, end)
        self.service.now = self.now

    def _look_around(self) -> None:
        """Has all workflows looked at together, if nothing is on its way between them."""
        self._rests_after = self.now + self._rest_pause
        if self._rest is not None and self.is_still:
            self.counts["moments of rest"] += 1
            self._rest_pause += self._rest_pause // 8
            self._rest(self)

    @property
    def is_still(self) -> bool:
        """Whether no message, no question and no workflow task is under way, and everybody is there to answer."""
        if self.service_down_until > self.now or not all(map(self.is_up, self.workers)) or self.has_two_releases:
            return False
        return all(each.is_at_rest for each in self.service.executions.values() if each.running)

    def _next_at(self) -> int | None:
        times = [self._service_at(), self.agenda.next_at]
        return min((at for at in times if at is not None), default=None)

    def _service_at(self) -> int | None:
        at = self.service.agenda.next_at
        return None if at is None else max(at, self.service_down_until)

    def _is_service_next(self) -> bool:
        at, other = self._service_at(), self.agenda.next_at
        return at is not None and (other is None or at <= other)

    def later(self, delay: int, action: Callable[[], None]) -> None:
        """Has *action* done after *delay* microseconds; while the service is away, after it is back."""
        self.agenda.add(self.now + delay, "call", lambda: self._when_there(action))

    def plainly_later(self, delay: int, action: Callable[[], None]) -> None:
        """The same, whether the service is there or not."""
        self.agenda.add(self.now + delay, "call", action)

    def _when_there(self, action: Callable[[], None]) -> None:
        if self.now < self.service_down_until:
            self.agenda.add(self.service_down_until + self.delay(), "call", lambda: self._when_there(action))
        else:
            self.service.now = self.now
            action()

    def chance(self, name: str) -> bool:
        """Whether the fault *name* happens now."""
        rate = 0 if self.calm else self.rates.get(name, 0)
        hit = bool(rate) and self.random.random() < rate
        if hit:
            self.counts[f"fault {name}"] += 1
        return hit

    # What the service asks of its host

    def delay(self) -> int:
        if self.chance("slow"):
            return self.random.randint(1, 30) * SECOND
        return self.random.randint(1_000, 20_000)

    def new_id(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def recorded(self, execution: Execution, event: Event) -> None:
        self.counts["events"] += 1
        if self.trace is not None:
            self.trace.append(
                f"{instant(event.at).isoformat()} {execution.workflow_id} {execution.run_id[:8]} "
                f"{event.event_id} {event.kind} {_facts(event)}"
            )

    def suggests(self) -> bool:
        """Whether it is suggested now to continue as new: at any moment, where a seed has short histories."""
        return not self.suggests_rarely or self.random.random() < SUGGESTS

    def update_answered(self, update_id: str, result: Payload | None, failure: Failure | None) -> None:
        waiting = self._waiting.pop(update_id, None)
        if waiting is not None:
            self.later(self.delay(), lambda: waiting(result, failure))

    def offer_workflow_task(self, run_id: str, token: int) -> None:
        execution = self.service.executions[run_id]
        worker = self._free_worker(execution.sticky)
        if worker is None:
            self.service.agenda.add(self.now + SECOND, "task_ready", run_id, token)
            return
        self._work(worker, run_id, token)

    def offer_activity(self, run_id: str, scheduled_id: int, attempt: int) -> None:
        worker = self._free_worker(None)
        activity = worker and self.service.start_activity(run_id, scheduled_id, attempt, worker.number)
        if worker is None:
            self.service.agenda.add(self.now + SECOND, "activity_ready", run_id, scheduled_id, attempt)
        elif activity is not None:
            self.counts[f"activity {activity.kind}"] += 1
            worker.running[run_id, scheduled_id, attempt] = activity
            self._perform(self, worker, self.service.executions[run_id], activity)

    def activity_cancel_requested(self, activity: Activity) -> None:
        """The worker hears of it with the answer to its next heartbeat."""
        for worker in self.workers:
            for key, running in worker.running.items():
                if running is activity and key in worker.cancels:
                    cancel, life = worker.cancels[key], worker.life
                    pause = self.random.randint(SECOND // 10, 2 * SECOND)
                    self.later(pause, lambda w=worker, life=life, c=cancel: c() if w.life == life else None)  # type: ignore[misc]

    # Workers

    def is_up(self, worker: SimulatedWorker) -> bool:
        return worker.down_until <= self.now and worker.cut_off_until <= self.now

    def _free_worker(self, preferred: int | None) -> SimulatedWorker | None:
        up = [worker for worker in self.workers if self.is_up(worker)]
        if not up:
            return None
        if preferred is not None and self.workers[preferred] in up and not self.chance("unsticky"):
            return self.workers[preferred]
        return self.random.choice(up)

    def _work(self, worker: SimulatedWorker, run_id: str, token: int) -> None:
        given = self.service.start_task(run_id, token, worker.number)
        if given is None:
            return
        execution, step = given
        self.counts["workflow tasks"] += 1
        self.counts["steps"] += 1
        try:
            instance = self._instance(worker, execution)
            commands = instance.answer(step)
        except NondeterminismError as error:
            self._drop(worker, run_id)
            if self._has_to_wait_for_this_release(worker, execution):
                self.counts["waits for this release"] += 1
                self.service.fail_task(run_id, token, "NonDeterministicError", by_last_release=True)
                return
            self.violate("replay-gives-the-same-commands", str(error))
            self.service.fail_task(run_id, token, "NonDeterministicError")
            return
        except TaskFailedError as error:
            self._drop(worker, run_id)
            self.violate("no-workflow-task-fails", f"{execution.workflow_id}: {error}")
            self.service.fail_task(run_id, token, "WorkflowWorkerUnhandledFailure")
            return
        worker.busy.add(run_id)
        think = self.random.randint(1_000, 30_000)
        if self.chance("thinks_long"):
            think = self.random.randint(SECOND, 9 * SECOND)
        life = worker.life
        self.later(think, lambda: self._answered(worker, life, execution, token, step, commands, instance))
        if self.chance("dies_at_task"):
            self.kill(worker, self.random.randint(SECOND, 30 * SECOND))

    def _has_to_wait_for_this_release(self, worker: SimulatedWorker, execution: Execution) -> bool:
        """Whether the last release cannot know what is in the history: a marker of a path that is new."""
        new = any(step.has_new_patch for step in execution.steps if not step.by_last_release)
        return worker.release.is_last and new

    @property
    def had_two_releases(self) -> bool:
        """Whether workers of the last release have been there at any time."""
        return len(self._releases) > 1

    @property
    def has_two_releases(self) -> bool:
        """Whether workers may be of the last release, too."""
        return len(self._releases) > 1 and not self.calm

    def _drawn_release(self) -> Release:
        return self.random.choice(self._releases) if self.has_two_releases else self._releases[0]

    def end_the_last_release(self) -> None:
        """Has all workers be of the release that is tested, from now on."""
        for worker in self.workers:
            if worker.release.is_last:
                self.kill(worker, SECOND)
                worker.release = self._releases[0]

    def _answered(
        self,
        worker: SimulatedWorker,
        life: int,
        execution: Execution,
        token: int,
        step: Step,
        commands: Sequence[WorkflowCommand],
        instance: Instance,
    ) -> None:
        if worker.life != life:
            return
        if worker.cut_off_until > self.now:
            pause = worker.cut_off_until - self.now + self.delay()
            self.later(pause, lambda: self._answered(worker, life, execution, token, step, commands, instance))
            return
        worker.busy.discard(execution.run_id)
        kept = _kept(step, commands)
        came_to = self.service.complete_task(execution.run_id, token, kept, commands)
        if came_to in ("refused", "gone"):
            self.counts[f"workflow task {came_to}"] += 1
            if worker.cache.get(execution.run_id) is instance:  # and not the one of another try of the workflow task
                self._drop(worker, execution.run_id)
            return
        instance.is_ahead = False
        if came_to == "nothing":
            return
        instance.steps += 1
        if self._observe is not None:
            self._observe(self, execution, instance)
        if not execution.running or self.chance("evict"):
            self._drop(worker, execution.run_id)
        if self.chance("dies_after_task"):
            self.kill(worker, self.random.randint(SECOND, 30 * SECOND))

    def _instance(self, worker: SimulatedWorker, execution: Execution) -> Instance:
        """The workflow in the worker's memory: as it is there, or replayed."""
        cached = worker.cache.pop(execution.run_id, None)
        if cached is not None and (cached.is_ahead or cached.steps != len(execution.steps)):
            cached.evict()
            cached = None
        if cached is None:
            cached = self.replayed(execution, worker.release)
        worker.cache[execution.run_id] = cached
        for run_id in [*worker.cache]:
            if len(worker.cache) > self._cached and run_id != execution.run_id and run_id not in worker.busy:
                self._drop(worker, run_id)
        return cached

    def replayed(self, execution: Execution, release: Release | None = None) -> Instance:
        """The workflow as a worker of *release* makes it of its history; of the one that is tested."""
        made = Instance(execution, release or self._releases[0])
        if execution.steps:
            self.counts["replays"] += 1
            self.counts["steps"] += len(execution.steps)
            made.replay(execution.steps)
        return made

    def in_memory(self, execution: Execution) -> Instance:
        """The workflow as some worker has it, or as its history says: who only looks keeps it for the next look."""
        for worker in self.workers:
            cached = worker.cache.get(execution.run_id)
            known = cached is not None and cached.steps == len(execution.steps)
            if cached is not None and known and not cached.is_ahead and not cached.release.is_last:
                return cached
        known = self._observed.pop(execution.run_id, None)
        if known is None or known.steps > len(execution.steps):
            known = Instance(execution, self._releases[0])
        self.counts["steps"] += len(execution.steps) - known.steps
        known.replay(execution.steps[known.steps :])
        self._observed[execution.run_id] = known
        if len(self._observed) > self._most_observed:
            self._observed.pop(next(iter(self._observed))).evict()
        return known

    def _drop(self, worker: SimulatedWorker, run_id: str) -> None:
        cached = worker.cache.pop(run_id, None)
        if cached is not None:
            cached.evict()

    def query(self, execution: Execution, name: str, *arguments: Any, result_type: Any = None) -> Any:
        """What the workflow answers; of one that has ended, too. None where it refuses."""
        if not execution.steps:
            return None
        result, _ = self.in_memory(execution).query(name, self.to_payloads(*arguments))
        return None if result is None else self.value(result, result_type)

    # What goes wrong

    def kill(self, worker: SimulatedWorker, pause: int) -> None:
        """Ends a worker process, and all that runs below it; another is there after *pause*."""
        self.counts["fault kill"] += 1
        self._silence(worker)
        worker.life += 1
        worker.down_until = self.now + pause
        worker.release = self._drawn_release()
        worker.running.clear()
        worker.cancels.clear()
        worker.busy.clear()
        for run_id in [*worker.cache]:
            self._drop(worker, run_id)

    def cut_off(self, worker: SimulatedWorker, pause: int) -> None:
        """The worker goes on without hearing of the service, and is given up by it: a zombie."""
        self.counts["fault cut off"] += 1
        worker.cut_off_until = self.now + pause
        self._silence(worker, pause)

    def _silence(self, worker: SimulatedWorker, lasts: int | None = None) -> None:
        for (run_id, scheduled_id, attempt), activity in worker.running.items():
            if activity.heartbeat is None:
                continue
            pause = self.random.randint(0, activity.heartbeat)
            if lasts is None or pause < lasts:
                self.service.agenda.add(
                    self.now + pause, "activity_timeout", run_id, scheduled_id, attempt, "Heartbeat"
                )

    def evict_all(self) -> None:
        for worker in self.workers:
            for run_id in [*worker.cache]:
                if run_id not in worker.busy:
                    self._drop(worker, run_id)

    def take_service_away(self, pause: int) -> None:
        """Nobody reaches the service for a while; its timers fire when it is back."""
        self.counts["fault service away"] += 1
        self.service_down_until = max(self.service_down_until, self.now + pause)
        for worker in self.workers:
            for (run_id, scheduled_id, attempt), activity in worker.running.items():
                late = activity.heartbeat is not None and activity.heartbeat < pause
                if late and self.random.random() < 0.5:
                    self.service.agenda.add(
                        self.service_down_until, "activity_timeout", run_id, scheduled_id, attempt, "Heartbeat"
                    )

    def keep_copy(self) -> None:
        """Copies the service's store."""
        self._snapshot = (self.service.copied(), self.now)

    def restore_copy(self) -> None:
        """Puts the copy in the place of the store. All workers are started anew, as the manual says."""
        if self._snapshot is None:
            return
        self.counts["fault restored"] += 1
        for worker in self.workers:
            self.kill(worker, self.random.randint(SECOND, 10 * SECOND))
        self._waiting.clear()
        self._observed.clear()
        self.service, _ = self._snapshot
        self._snapshot = None
        self.service.now = self.now
        self.counts["restores"] += 1
        for execution in self.service.executions.values():
            for activity in execution.activities.values() if execution.running else ():
                if activity.started_at is not None and activity.heartbeat is not None:
                    pause = self.random.randint(0, activity.heartbeat)
                    self.service.agenda.add(
                        self.now + pause,
                        "activity_timeout",
                        execution.run_id,
                        activity.scheduled_id,
                        activity.attempt,
                        "Heartbeat",
                    )

    def listed(self, kind: str) -> list[Execution]:
        """The executions that a list shows as running: as things were a moment ago, since visibility lags."""
        at = self.now - (0 if self.calm else self.random.randint(0, VISIBILITY_LAG))
        return [
            execution
            for execution in self.service.executions.values()
            if execution.kind == kind
            and execution.started_at <= at
            and (execution.closed_at is None or execution.closed_at > at)
        ]

    # What people and activities do

    def update(self, workflow_id: str, name: str, *arguments: Any, answered: Answered) -> bool:
        """Sends an update; False where no workflow runs."""
        update_id = f"u{next(self._ids)}"
        self._waiting[update_id] = answered
        found = self.service.update(workflow_id, name, self.to_payloads(*arguments), update_id)
        if not found:
            del self._waiting[update_id]
        return found

    def to_payloads(self, *values: Any) -> list[Payload]:
        return list(self.converter.payload_converter.to_payloads(values)) if values else []

    def value(self, payload: Payload, kind: Any = None) -> Any:
        return self.converter.payload_converter.from_payload(payload, kind)

    def violate(self, name: str, about: str) -> None:
        """A property does not hold."""
        self.violations.append(Violation(name, about, self.now))


def _kept(step: Step, commands: Sequence[WorkflowCommand]) -> Step:
    """*step* as history tells of it: without updates that were refused, and without asking their validators again."""
    refused = {
        command.update_response.protocol_instance_id
        for command in commands
        if command.HasField("update_response") and command.update_response.HasField("rejected")
    }
    accepted = {
        command.update_response.protocol_instance_id
        for command in commands
        if command.HasField("update_response") and command.update_response.HasField("accepted")
    }
    asked = {job.do_update.protocol_instance_id for job in step.jobs if job.HasField("do_update")}
    refused = (refused & asked) - accepted
    jobs = []
    for job in step.jobs:
        if job.HasField("do_update"):
            if job.do_update.protocol_instance_id in refused:
                continue
            job.do_update.run_validator = False
        jobs.append(job)
    pairs = [
        (content, outline)
        for command, content, outline in zip(commands, step.commands, step.outline, strict=True)
        if not (command.HasField("update_response") and command.update_response.protocol_instance_id in refused)
    ]
    step.jobs = jobs
    step.commands, step.outline = tuple(c for c, _ in pairs), tuple(o for _, o in pairs)
    return step


def _facts(event: Event) -> str:
    data = event.data
    names = ("name", "workflow_id", "update_id", "patch", "cause", "seq")
    parts = [f"{name}={data[name]}" for name in names if name in data]
    if "activity" in data:
        parts.append(data["activity"].activity_id or data["activity"].kind)
    if "child" in data:
        parts.append(data["child"].workflow_id)
    return " ".join(parts)
