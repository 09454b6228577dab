"""Looks at workflows as they go, and at all that they have left in the end, for properties that do not hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from dst.clock import SECOND, instant
from dst.history import Execution, Status
from tidemill.model.dag.ticks import TimetableQuery, coming_runs
from tidemill.model.run.identity import run_key, run_workflow_id, scheduled_run
from tidemill.model.states import TaskState

from . import (  # noqa: F401 - each adds its properties to the catalogue
    assets,
    attempts,
    dags,
    messages,
    owed,
    pools,
    runs,
    schedules,
    still,
)
from .catalogue import PROPERTIES, Look, of_level, sleeps
from .ends import Ended
from .histories import Installation

PICTURES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "DagRun": runs.picture,
    "Dag": dags.picture,
    "Pool": pools.picture,
    "Asset": assets.picture,
    "Watcher": assets.picture_of_watcher,
    "DagBundle": assets.picture_of_bundle,
}
BY_KIND = {kind: of_level(kind) for kind in PICTURES}


class Checks:
    """Checks the properties of one installation. Collects nothing: what does not hold is given to who asks."""

    def __init__(self) -> None:
        self._before: dict[str, dict[str, Any]] = {}
        self._memory: dict[str, dict[str, Any]] = {}
        self._restores = 0

    def look(self, kind: str, key: str, look: Look, follows: str | None = None) -> Iterator[tuple[str, str]]:
        """What does not hold of a workflow after one of its workflow tasks, by the name of the property.

        *key*: its execution; *follows*: the execution that has continued as this one.
        """
        if key not in self._before and follows is not None:
            self._before[key] = self._before.pop(follows, {})
        look.before = self._before.get(key, {})
        look.memory = self._memory.setdefault(look.workflow_id, {})
        if look.before.get("resumes") and look.state.revision is None:
            look.before = {}  # it goes on from what the execution before has left
        for known in BY_KIND[kind]:
            for about in known.check(look):
                yield known.name, f"{look.workflow_id}: {about}"
        self._before[key] = PICTURES[kind](look.object)

    def forget(self, execution: Execution) -> None:
        """A worker of the last release has answered: what it has done in its workflow task is not looked at."""
        self._before[execution.run_id] = {}
        self._memory.pop(execution.workflow_id, None)

    def step(self, world: Any, execution: Execution, instance: Any) -> Look | None:
        """Looks at a workflow of the simulation, unless a worker of the last release has answered: then None."""
        if instance.release.is_last:
            self.forget(execution)
            return None
        if self._restores != world.counts["restores"]:  # what was seen has not been
            self._restores = world.counts["restores"]
            self._before.clear()
            self._memory.clear()
        workflow, step = instance.object, execution.steps[-1]
        closed = None if execution.running else str(execution.status)
        if workflow is None or execution.kind not in PICTURES or not hasattr(workflow, "state"):
            return None
        look = Look(
            execution.workflow_id,
            instant(step.at),
            workflow,
            {},
            closed,
            view_of(execution),
            step.suggests_continue_as_new,
            sleeps(instance.implementation),
            step.jobs,
            *_answers(execution),
            kind=execution.kind,
            exact=True,
            began=instant(execution.started_at),
            is_much_too_long=_is_much_too_long(execution, step),
            timers=_timers(execution),
            scheduled=_scheduled(execution),
        )
        for name, about in self.look(execution.kind, execution.run_id, look, execution.continued_from):
            world.violate(name, about)
        return look

    def still(self, world: Any, touched: dict[str, datetime]) -> None:
        """Looks at all workflows together, in a moment in which nothing is on its way."""
        newest = {key: world.service.executions[run_id] for key, run_id in world.service.current.items()}
        newest = {key: each for key, each in newest.items() if each.steps}
        running = {key: each for key, each in newest.items() if each.running}
        kinds = {key: each.kind for key, each in running.items()}
        objects = {key: world.in_memory(each).object for key, each in running.items()}
        if world.had_two_releases:  # under the last one, a run that was ended or reset may leave slots behind
            touched = dict.fromkeys(touched, instant(world.now))
        seen = still.Still(
            instant(world.now), objects, newest, kinds, touched, lambda each: world.in_memory(each).object
        )
        for known in of_level("still"):
            for about in known.check(seen):
                world.violate(known.name, about)

    @staticmethod
    def is_settled(world: Any) -> bool:
        """Whether every run has ended, and nobody waits for its DAG to know it."""
        if any(each.kind == "DagRun" and each.running for each in world.service.executions.values()):
            return False
        return not any(
            world.query(each, "describe")["active_runs"] or world.query(each, "describe")["queued_runs"]
            for each in world.service.executions.values()
            if each.kind == "Dag" and each.running and each.steps
        )

    def end(self, world: Any, people: Any, plan: Any, specs: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """What does not hold of an installation that has come to its end."""
        executions = [*world.service.executions.values()]
        for execution in executions:
            yield from check_history(execution)
        slots = {name: max(slots, 4) for name, slots in plan.pools.items()}
        installation = Installation(executions, world.value, slots, plan.parallelism)
        installation.forgets = plan.retention < 365 * 86400
        installation.restored = world.counts["fault restored"] > 0
        installation.disturbed = {
            each.workflow_id
            for each in executions
            if each.reset_from or each.status in (Status.TERMINATED, Status.CANCELED)
        }
        installation.disturbed_dags = {workflow_id.removeprefix("dag:") for workflow_id in people.lost}
        installation.deleted = people.revised if world.counts["action delete_run"] else set()
        for known in of_level("installation"):
            for about in known.check(installation):
                yield known.name, about
        ended = self._ended(world, people, specs)
        for known in of_level("end"):
            for about in known.check(ended):
                yield known.name, about

    @staticmethod
    def _ended(world: Any, people: Any, specs: dict[str, Any]) -> Ended:
        newest = {key: world.service.executions[run_id] for key, run_id in world.service.current.items()}
        newest = {key: each for key, each in newest.items() if each.steps}
        instances = {key: world.replayed(each) for key, each in newest.items()}
        ended = Ended({key: each.object for key, each in instances.items()}, newest, instant(world.now))
        for each in newest.values():
            each.view = view_of(each)
        ended.restored = world.counts["fault restored"] > 0
        ended.registered = {dag_id: spec.version for dag_id, spec in people.specs.items()}
        ended.notices = _notices(world)
        ended.deleted = _deleted(world, people)
        ended.lost, ended.touched = people.lost, people.touched
        # A run is made before its conf is set, in whichever order the answers have arrived.
        for name, dag_id, answer in sorted(people.answers, key=lambda told: told[0] == "set_conf"):
            made = answer if isinstance(answer, list) else [answer]
            for run in made if name in ("trigger_run", "trigger_runs", "set_conf") else ():
                if isinstance(run, dict) and not ended.deleted:
                    key = run_key(_date(run.get("logical_date")), run["run_id"])
                    ended.confs[run_workflow_id(dag_id, key)] = run.get("conf", {})
        for name, dag_id, answer in people.answers:
            if name == "trigger_run" and isinstance(answer, dict):
                ended.triggered.setdefault(dag_id, []).append(answer["run_id"])
        ended.unanswered = [
            f"{key}: {u.name}" for key, each in newest.items() if each.running for u in each.updates.values()
        ]
        for dag_id, spec in specs.items():
            if dag_id not in people.disturbed and spec.catchup and not ended.restored and f"dag:{dag_id}" in newest:
                keys = _foreseen(spec, ended.now)
                dag = ended.objects[f"dag:{dag_id}"]
                paused = dag.state.held_up is not None
                # Under 0.3 nothing asked a timetable again that had raised twice.
                waits = dag.state.broken is not None and newest[f"dag:{dag_id}"].steps[-1].by_last_release
                if keys is not None and len(keys) < 400 and not paused and not waits:
                    ended.foreseen[dag_id] = keys
        return ended


def _answers(execution: Execution) -> tuple[set[str], set[str]]:
    """The updates that the last workflow task of *execution* has refused, and those that it has carried out."""
    refused, carried_out = set(), set()
    for event in reversed(execution.events):
        if event.kind == "WorkflowTaskCompleted":
            break
        if event.kind == "WorkflowExecutionUpdateCompleted":
            (carried_out if event.data["failure"] is None else refused).add(event.data["update_id"])
    return refused, carried_out


def _scheduled(execution: Execution) -> list[Any]:
    """The activities that the last workflow task of *execution* has asked for."""
    found = []
    for event in reversed(execution.events):
        if event.kind == "WorkflowTaskCompleted":
            break
        if event.kind == "ActivityTaskScheduled":
            found.append(event.data["activity"])
    return found


def _is_much_too_long(execution: Any, step: Any) -> bool:
    """Whether it has become twice as long since a new execution was suggested; not of one that 0.3 has begun.

    A run that only asks pools woke for nothing else there, and does not in the rest of that execution.
    """
    suggested: int | None = execution.suggested_at
    by_last = any(earlier.by_last_release for earlier in execution.steps)
    return suggested is not None and step.length > 2 * suggested + 60 and not by_last


def _timers(execution: Execution) -> list[datetime] | None:
    """When the timers of *execution* fire; None where something has come that it has not been told."""
    if execution.task is not None:
        return None
    started = [execution.events[event_id - 1] for event_id in execution.timers.values()]
    return [instant(event.at + event.data["duration"]) for event in started]


def check_history(execution: Any) -> Iterator[tuple[str, str]]:
    """What does not hold of one history."""
    for known in of_level("history"):
        for about in known.check(execution):
            yield known.name, f"{execution.workflow_id}: {about}"


def view_of(execution: Execution) -> dict[str, Any] | None:
    """The view in the memo of an execution."""
    payload = execution.memo.get("view")
    return None if payload is None else dict(json.loads(payload.data))


def _notices(world: Any) -> dict[str, int]:
    """By run, how many notices were sent in all its executions; of runs that nobody has touched, or had run again."""
    found: dict[str, int] = {}
    begun: Counter[str] = Counter()
    for each in world.service.executions.values():
        if each.kind == "DagRun":
            begun[each.workflow_id] += each.continued_from is None
            if each.reset_from or str(each.status) in ("Terminated", "Canceled"):
                begun[each.workflow_id] += 1
            asked = [e.data["activity"].kind for e in each.events if e.kind == "ActivityTaskScheduled"]
            found[each.workflow_id] = found.get(each.workflow_id, 0) + asked.count("tidemill.notify")
    return {workflow_id: sent for workflow_id, sent in found.items() if begun[workflow_id] == 1}


def _deleted(world: Any, people: Any) -> set[str]:
    """Run ids and keys that people have deleted; as many as may be."""
    if not world.counts["action delete_run"]:
        return set()
    keys = {workflow_id.split(":", 2)[2] for workflow_id in people.revised}
    return keys | {f"manual__{key}" for key in keys} | people.deleted


def _date(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


JUST_NOW = timedelta(seconds=30)
"""What has fallen due since then may be on its way."""


def _foreseen(spec: Any, now: Any) -> dict[str, bool] | None:
    """The keys of the runs that the timetable of *spec* has up to *now*, and whether each has to be there; None where
    they cannot be told."""
    schedule = spec.schedule
    if schedule.answers_by_moment or not schedule.periodic or schedule.kind in ("asset", "partitioned_asset"):
        return None
    last, keys = None, {}
    for _ in range(500):
        question = TimetableQuery(
            timetable=schedule, restriction=spec.restriction, last=last, now=now, folder=None, bundle=None, limit=20
        )
        infos = coming_runs(question).infos
        for info in infos:
            if info.run_after > now:
                return keys
            keys[scheduled_run(spec.dag_id, schedule, info).key] = (
                info.run_after + (spec.jitter or timedelta()) < now - JUST_NOW
            )
            last = info.data_interval
        if not infos:
            return keys
    return None


__all__ = ["PROPERTIES", "SECOND", "Checks", "TaskState", "check_history"]
