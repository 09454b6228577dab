"""Situations in which a promise is hard to keep: each has a name, derived from the tables of states and of messages,
and is counted where a seed has been in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from properties.catalogue import Look
from tidemill.model.interfaces.asset import AssetInterface
from tidemill.model.interfaces.bundle import BundleInterface
from tidemill.model.interfaces.calls import Interface, Query
from tidemill.model.interfaces.dag import DagInterface
from tidemill.model.interfaces.pool import PoolInterface
from tidemill.model.interfaces.run import RunInterface
from tidemill.model.pool.state import UNLIMITED
from tidemill.model.run.instance_keys import UNMAPPED, split_key
from tidemill.model.run.past import held_by_past
from tidemill.model.states import FINISHED, RunState, TaskState

from .history import Execution

S = TaskState
Condition = Callable[[Look], bool]


# What a workflow may be in when something comes


def _is_draining(look: Look) -> bool:
    return look.holding and look.closed is None


def _before(look: Look, name: str, default: Any = None) -> Any:
    return look.before.get(name, default)


CONDITIONS: dict[str, dict[str, Condition]] = {
    "Dag": {
        "paused": lambda look: bool(_before(look, "paused")),
        "stale or broken by its file": lambda look: any(_before(look, "file", (False, None))),
        "broken by its timetable": lambda look: look.state.is_broken_by_timetable,
        "with queued runs": lambda look: RunState.QUEUED in _before(look, "runs", {}).values(),
        "at its limit": lambda look: _running(look) >= look.state.spec.max_active_runs,
        "with a backfill": lambda look: any(backfill.open for backfill in look.state.backfills),
        "with a long history": _is_draining,
        "that asks its timetable": lambda look: not look.idle,
        "that has just begun": lambda look: not look.before,
        "with another message at once": lambda look: len(look.messages) > 1,
    },
    "DagRun": {
        "paused": lambda look: bool(_before(look, "paused")),
        "with work under way": lambda look: _any_before(look, S.QUEUED, S.RUNNING),
        "with waits": lambda look: _any_before(look, S.DEFERRED, S.AWAITING_INPUT, S.UP_FOR_RESCHEDULE, S.UP_FOR_RETRY),
        "with a branch that has chosen": lambda look: any(i.skips for i in look.state.instances.values()),
        "that stops work": lambda look: bool(look.object.tasks.engine._stopping),
        "that takes up an earlier execution": lambda look: not look.object._ready or bool(_before(look, "resumes")),
        "with a long history": _is_draining,
        "whose end is told": lambda look: look.object._is_closing,
        "with another message at once": lambda look: len(look.messages) > 1,
    },
    "Pool": {
        "full": lambda look: _is_full(look),
        "with some who wait": lambda look: bool(look.state.waiting),
        "that asks who holds it": lambda look: look.object._given_back is not None,
        "that looks for the dead": lambda look: bool(look.object._is_looking),
        "with a long history": _is_draining,
        "with another message at once": lambda look: len(look.messages) > 1,
    },
    "Asset": {
        "paused": lambda look: bool(_before(look, "paused")),
        "that tells others": lambda look: bool(look.object._sending),
        "that nobody waits for": lambda look: not look.state.consumers,
        "with a long history": _is_draining,
        "with another message at once": lambda look: len(look.messages) > 1,
    },
    "DagBundle": {
        "that lists or parses": lambda look: bool(look.object._under_way),
        "with a broken file": lambda look: any(record.error for record in look.state.files.values()),
        "with a long history": _is_draining,
    },
}
INTERFACES: dict[str, type[Interface]] = {
    "Dag": DagInterface, "DagRun": RunInterface, "Pool": PoolInterface, "Asset": AssetInterface,
    "DagBundle": BundleInterface,
}  # fmt: skip


def _messages(interface: type[Interface]) -> list[str]:
    """The names by which signals and updates travel."""
    found = [getattr(interface, name) for name in vars(interface) if not name.startswith("_")]
    return [each.name for each in found if hasattr(each, "name") and not isinstance(each, Query)]


def _running(look: Look) -> int:
    return sum(state is RunState.RUNNING for state in _before(look, "runs", {}).values())


def _any_before(look: Look, *states: TaskState) -> bool:
    return any(before[0] in states for before in _before(look, "instances", {}).values())


def _is_full(look: Look) -> bool:
    slots = look.state.settings.slots
    return slots != UNLIMITED and look.state.occupied >= slots


# What a task may wait for


def _waits_in_pool(look: Look, key: str, instance: Any) -> bool:
    return instance.state is S.SCHEDULED and key in look.state.leases


WAITS: dict[str, Callable[[Look, str, Any], bool]] = {
    "the tasks upstream": lambda look, key, i: i.state is S.NONE and not _is_held(look, i),
    "the run before": lambda look, key, i: i.state is S.NONE and _is_held(look, i),
    "a slot of a pool or limit": _waits_in_pool,
    "room in its run": lambda look, key, i: i.state is S.SCHEDULED and key not in look.state.leases,
    "its next try": lambda look, key, i: i.state is S.UP_FOR_RETRY,
    "its next poke": lambda look, key, i: i.state is S.UP_FOR_RESCHEDULE,
    "a moment": lambda look, key, i: i.state is S.DEFERRED and (i.deferral is None or i.deferral.moment is not None),
    "a trigger": lambda look, key, i: i.state is S.DEFERRED and i.deferral is not None and i.deferral.moment is None,
    "a person": lambda look, key, i: i.state is S.AWAITING_INPUT,
    "its worker": lambda look, key, i: i.state is S.QUEUED,
    "the end of what is stopped": lambda look, key, i: i.state in (S.SHUTDOWN, S.RESTARTING),
    "values that it is mapped over": lambda look, key, i: (
        i.state is S.NONE and i.map_index == UNMAPPED and i.task_id in look.state.spec.mapped
    ),
}
"""What a task may wait for; the first that is true of it counts, but for the last."""


def _is_held(look: Look, instance: Any) -> bool:
    task = look.state.spec.by_id[instance.task_id]
    return held_by_past(task, look.state.past, look.state.spec.downstreams[task.task_id]) is not None


BEFALLS = (
    "a continue-as-new", "a pause", "the end of its run by a person", "the end of its run by its timeout",
    "the end of its run by a cancellation", "a reset", "a worker of another release",
)  # fmt: skip
CHANGES = {
    "clear_tasks": ("a clear",),
    "set_task_state": ("a mark as success", "a mark as failed", "a mark as skipped"),
    "set_state": ("a mark of the run as success", "a mark of the run as failed"),
}
"""By message, what a person changes a task by."""
LIMITS = ("max_active_runs", "max_active_tasks", "max_active_tis_per_dagrun", "pool slots", "backfill max_active_runs")
EDGES = ("is reached", "is one away", "is reached while somebody waits", "is freed for who waits")
KEPT: dict[str, dict[str, Condition]] = {
    "Dag": {
        "runs under way": lambda look: any(t.state is RunState.RUNNING for t in look.state.runs.values()),
        "queued runs": lambda look: any(t.state is RunState.QUEUED for t in look.state.runs.values()),
        "an open backfill": lambda look: any(backfill.open for backfill in look.state.backfills),
        "gathered assets": lambda look: look.state.gathering is not None and bool(look.state.gathering.rows),
        "a pause": lambda look: look.state.is_paused,
    },
    "Pool": {"slots that are held": lambda look: bool(look.state.held),
             "some who wait": lambda look: bool(look.state.waiting)},
    "Asset": {"events to be told": lambda look: bool(look.state.outbox),
              "events that are held": lambda look: bool(look.state.held)},
    "DagBundle": {"DAGs": lambda look: bool(look.state.dags)},
    "Watcher": {"a position": lambda look: look.state.found > 0},
}  # fmt: skip
"""By kind of workflow, what it may have with it as it goes on as new."""


def every_situation() -> list[str]:
    """The names of all situations."""
    found = [
        f"{message} comes to a {kind} {condition}"
        for kind, interface in INTERFACES.items()
        for message in _messages(interface)
        for condition in CONDITIONS[kind]
    ]
    found += [f"{what} finds a task that waits for {wait}" for what in BEFALLS for wait in WAITS]
    found += [
        f"{change} finds a task that is {state}" for each in CHANGES.values() for change in each for state in TaskState
    ]
    found += [f"{limit} {edge}" for limit in LIMITS for edge in EDGES]
    found += [f"a {kind} goes on as new with {what}" for kind, kept in KEPT.items() for what in kept]
    return [name for name in found if why_never(name) is None]


NEVER = {
    "take_over comes": "nobody moves in from Airflow while the simulation runs",
    "assign comes": "which bundle may register a DAG is asked in tests/bundles",
    "confirm_removals comes": "what only a bundle is told is asked in tests/bundles",
    "configure comes": "what only a bundle is told is asked in tests/bundles",
    "look_now comes": "what only a bundle is told is asked in tests/bundles",
    "refresh comes": "what only a bundle is told is asked in tests/bundles",
    "passed_on comes to a Pool full": "slots are passed on only where plenty are free",
    "passed_on comes to a Pool with some who wait": "slots are passed on only where nobody waits for some",
    "passed_on comes to a Pool that looks for the dead": "it looks only while somebody waits",
    "finds a task that is running": "a task is seen as queued until its try has ended",
}
"""Parts of names of situations that cannot be, with the reason."""


def why_never(name: str) -> str | None:
    """Why a situation cannot be; None: it can."""
    return next((reason for part, reason in NEVER.items() if part in name), None)


# Counting


def situations(look: Look, execution: Execution) -> Iterator[str]:
    """The situations that a workflow has been in, in one of its workflow tasks."""
    kind = execution.kind
    for message, _ in look.messages:
        for condition, holds in CONDITIONS.get(kind, {}).items():
            if holds(look):
                yield f"{message} comes to a {kind} {condition}"
    if look.closed == "ContinuedAsNew":
        for what, is_kept in KEPT.get(kind, {}).items():
            if is_kept(look):
                yield f"a {kind} goes on as new with {what}"
    match kind:
        case "DagRun":
            yield from _of_run(look, execution)
        case "Dag":
            yield from _of_dag(look)
        case "Pool":
            slots = look.state.settings.slots
            if slots != UNLIMITED:
                freed = len(look.state.held) and bool(_before(look, "waiting")) and any(look.messages_of("give_back"))
                yield from _edges("pool slots", look.state.occupied, slots, bool(look.state.waiting), bool(freed))


def _of_run(look: Look, execution: Execution) -> Iterator[str]:
    waits = {
        wait
        for key, instance in look.state.instances.items()
        for wait, holds in WAITS.items()
        if instance.state not in FINISHED and holds(look, key, instance)
    }
    for what in _befallen(look, execution):
        for wait in _waits_before(look) if what.startswith("the end") else waits:
            yield f"{what} finds a task that waits for {wait}"
    for message, argument in look.messages:
        for change in _change(message, argument):
            for state in _found_states(look, message, argument):
                yield f"{change} finds a task that is {state}"
    spec, states = look.state.spec, [i.state for i in look.state.instances.values()]
    busy = sum(state in (S.QUEUED, S.RUNNING, S.SHUTDOWN) for state in states)
    was = sum(b[0] in (S.QUEUED, S.RUNNING, S.SHUTDOWN) for b in _before(look, "instances", {}).values())
    freed = was >= spec.max_active_tasks and _any_before(look, S.SCHEDULED)
    yield from _edges("max_active_tasks", busy, spec.max_active_tasks, S.SCHEDULED in states, freed)
    for task in spec.tasks:
        if (limit := task.max_active_tis_per_dagrun) is not None:
            mine = look.state.of_task(task.task_id)
            active = sum(instance.state.is_active for instance in mine)
            waiting = any(instance.state is S.SCHEDULED for instance in mine)
            befores = [b for key, b in _before(look, "instances", {}).items() if split_key(key)[0] == task.task_id]
            freed = sum(b[0].is_active for b in befores) >= limit and any(b[0] is S.SCHEDULED for b in befores)
            yield from _edges("max_active_tis_per_dagrun", active, limit, waiting, freed)


def _waits_before(look: Look) -> list[str]:
    """What tasks have waited for before this workflow task; as far as their states tell it."""
    by_state = {
        S.SCHEDULED: ("a slot of a pool or limit", "room in its run"), S.UP_FOR_RETRY: ("its next try",),
        S.UP_FOR_RESCHEDULE: ("its next poke",), S.DEFERRED: ("a moment", "a trigger"),
        S.AWAITING_INPUT: ("a person",), S.QUEUED: ("its worker",), S.NONE: ("the tasks upstream", "the run before"),
        S.SHUTDOWN: ("the end of what is stopped",), S.RESTARTING: ("the end of what is stopped",),
    }  # fmt: skip
    found = []
    for key, before in _before(look, "instances", {}).items():
        found += by_state.get(before[0], ())
        if before[0] is S.NONE and key in look.state.spec.mapped:
            found.append("values that it is mapped over")
    return [*dict.fromkeys(found)]


def _befallen(look: Look, execution: Execution) -> Iterator[str]:
    if look.closed == "ContinuedAsNew":
        yield "a continue-as-new"
    if any(update["is_paused"] for update in look.messages_of("news")) and not _before(look, "paused"):
        yield "a pause"
    if execution.reset_from is not None and not look.before:
        yield "a reset"
    if len(execution.steps) > 1 and execution.steps[-2].by_last_release:
        yield "a worker of another release"
    end = look.object.tasks.ended
    if end is not None and not _before(look, "ending"):
        by = {"dagrun_timeout": "its timeout", "the run was cancelled": "a cancellation", "marked": "a person"}
        for beginning, whose in by.items():
            if end.reason.startswith(beginning):
                yield f"the end of its run by {whose}"


def _change(message: str, argument: Any) -> Iterator[str]:
    state = (argument or {}).get("state") if isinstance(argument, dict) else None
    for change in CHANGES.get(message, ()):
        if state is None or change.endswith(f"as {state}"):
            yield change


def _found_states(look: Look, message: str, argument: Any) -> set[TaskState]:
    wanted = {*(argument or {}).get("tasks", ())} if message != "set_state" else set()
    before = _before(look, "instances", {})
    return {was[0] for key, was in before.items() if not wanted or {key, split_key(key)[0]} & wanted}


def _of_dag(look: Look) -> Iterator[str]:
    limit, runs = look.state.spec.max_active_runs, look.state.runs.values()
    running = sum(tracked.state is RunState.RUNNING for tracked in runs)
    queued = any(tracked.state is RunState.QUEUED for tracked in runs)
    freed = _running(look) >= limit and RunState.QUEUED in _before(look, "runs", {}).values()
    yield from _edges("max_active_runs", running, limit, queued, freed)
    for backfill in look.state.backfills:
        if backfill.open:
            left = backfill.created + backfill.skipped < backfill.total
            before = _before(look, "backfills", {}).get(backfill.backfill_id)
            freed = before is not None and before[2] + before[3] < backfill.succeeded + backfill.failed and left
            most = backfill.request.max_active_runs
            yield from _edges("backfill max_active_runs", backfill.running, most, left, freed)


def _edges(limit: str, level: int, most: int, waits: bool, freed: bool) -> Iterator[str]:
    if level == most:
        yield f"{limit} is reached"
        if waits:
            yield f"{limit} is reached while somebody waits"
    if level == most - 1:
        yield f"{limit} is one away"
    if freed:
        yield f"{limit} is freed for who waits"
