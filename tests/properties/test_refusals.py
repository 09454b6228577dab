"""Each property refuses something: what simulated workflows have shown is altered by hand, and the property that is
meant to see it says so."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from dst.drawing import draw
from dst.simulation import simulate
from tidemill.model.pool.state import UNLIMITED, Lease
from tidemill.model.run.identity import RunType
from tidemill.model.run.planner import RunEnd
from tidemill.model.states import RunState, TaskState

from . import checking
from .catalogue import Look, Property, of_level
from .rules import RUN, Owing

S = TaskState
DAY = timedelta(days=1)
MOST_SEEDS = 260
Alter = Callable[[Look], bool]
"""Alters what was seen; False: this cannot be altered so."""
ALTERATIONS: dict[str, Alter] = {}


class Undoing:
    """Sets attributes, and puts back what was there."""

    def __init__(self) -> None:
        self._before: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        was = getattr(owner, name)
        object.__setattr__(owner, name, value)
        self._before.append(lambda: object.__setattr__(owner, name, was))

    def put(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        missing = object()
        was = mapping.get(key, missing)
        mapping[key] = value
        self._before.append(lambda: mapping.pop(key) if was is missing else mapping.__setitem__(key, was))

    def undo(self) -> None:
        for put_back in reversed(self._before):
            put_back()


UNDOING = Undoing()


def alters(name: str) -> Callable[[Alter], Alter]:
    def add(alter: Alter) -> Alter:
        ALTERATIONS[name] = alter
        return alter

    return add


def _set(owner: Any, name: str, value: Any) -> bool:
    UNDOING.set(owner, name, value)
    return True


def _before(look: Look, key: str, state: TaskState, *, tries: int | None = None, at: Any = None) -> bool:
    instance = look.state.instances[key]
    number = instance.try_number if tries is None else tries
    UNDOING.put(look.before["instances"], key, (state, number, len(instance.attempts), instance.tries_cleared, at))
    return True


@alters("a-final-failure-is-not-tried-again")
def _(look: Look) -> bool:
    found = [one for one in _instances(look, S.UP_FOR_RETRY) if one.failure is not None]
    if not found:
        return False
    last = found[0].attempts[-1]
    return _set(last, "failure", last.failure.model_copy(update={"retryable": False}))


def _instances(look: Look, *states: TaskState) -> list[Any]:
    found = look.state.instances.values() if look.before else ()
    return [instance for instance in found if not states or instance.state in states]


def _quiet(look: Look) -> bool:
    return look.idle and not look.holding and look.object.tasks.ended is None and look.closed is None


# Runs


@alters("what-may-run-is-not-left-waiting")
def _(look: Look) -> bool:
    first = next((i for i in _instances(look, S.SUCCESS) if not look.state.spec.by_id[i.task_id].upstream), None)
    return first is not None and _quiet(look) and _set(first, "state", S.NONE)


@alters("a-task-ends-unrun-for-a-reason")
def _(look: Look) -> bool:
    for instance in _instances(look):
        fresh = not instance.attempts and instance.map_index < 0 and instance.task_id not in look.state.spec.mapped
        if fresh and Owing(look.state).owed(instance.key) == RUN:
            _set(instance, "reason", "so")
            return _set(instance, "state", S.SKIPPED) and _before(look, instance.key, S.NONE)
    return False


@alters("a-task-starts-because-it-is-owed")
def _(look: Look) -> bool:
    for instance in _instances(look, S.NONE):
        if Owing(look.state).owed(instance.key) is None:
            return _set(instance, "state", S.SCHEDULED) and _before(look, instance.key, S.NONE)
    return False


@alters("what-is-scheduled-has-asked-for-its-slots")
def _(look: Look) -> bool:
    found = next(iter(_instances(look, S.SUCCESS)), None)
    return found is not None and _quiet(look) and _set(found, "state", S.SCHEDULED)


@alters("the-heaviest-task-starts-first")
def _(look: Look) -> bool:
    weights, found = look.state.spec.weights, _instances(look)
    for light in found:
        for heavy in found:
            if weights[light.task_id] < weights[heavy.task_id] and look.idle:
                _set(light, "state", S.QUEUED)
                _set(heavy, "state", S.SCHEDULED)
                _before(look, light.key, S.SCHEDULED, tries=light.try_number - 1)
                return _before(look, heavy.key, S.SCHEDULED)
    return False


@alters("fail-fast-ends-all-others")
def _(look: Look) -> bool:
    found = [i for i in _instances(look) if not look.state.spec.by_id[i.task_id].is_teardown]
    if not look.state.spec.fail_fast or len(found) < 2 or not look.idle:
        return False
    _set(found[0], "state", S.FAILED)
    _before(look, found[0].key, S.QUEUED)
    return _set(found[1], "state", S.NONE)


@alters("fail-fast-waits-for-a-failure")
def _(look: Look) -> bool:
    found = next(iter(_instances(look, S.SKIPPED)), None)
    if found is None or look.state.spec.fail_fast:
        return False
    return _set(found, "reason", "fail_fast: a failed") and _before(look, found.key, S.NONE)


@alters("a-run-that-is-ended-stops-its-work")
def _(look: Look) -> bool:
    found = _instances(look, S.QUEUED, S.NONE)
    busy = [i for i in found if i.key not in look.object.tasks.engine._stopping]
    return bool(busy) and _quiet(look) and _set(look.object.tasks.engine, "ended", RunEnd(RunState.FAILED, "so"))


@alters("a-retry-comes-after-its-delay")
def _(look: Look) -> bool:
    found = next(iter(_instances(look, S.UP_FOR_RETRY)), None)
    return found is not None and found.retry_at is not None and _set(found, "retry_at", found.retry_at + DAY)


@alters("nobody-sleeps-too-long")
def _(look: Look) -> bool:
    found = next(iter(_instances(look, S.UP_FOR_RETRY, S.DEFERRED)), None)
    if found is None or look.began > look.now - timedelta(minutes=1):
        return False
    _set(look, "timers", [])
    name = "retry_at" if found.state is S.UP_FOR_RETRY else "wake_at"
    return _set(found, name, look.now - timedelta(seconds=30))


@alters("whoever-waits-for-a-time-has-a-timer")
def _(look: Look) -> bool:
    found = [i for i in _instances(look, S.UP_FOR_RETRY) if i.retry_at is not None]
    return bool(found) and look.timers is not None and _set(look, "timers", [])


@alters("nobody-is-woken-early")
def _(look: Look) -> bool:
    found = next(iter(_instances(look, S.SCHEDULED, S.QUEUED)), None)
    return found is not None and _before(look, found.key, S.UP_FOR_RETRY, at=look.now + DAY)


@alters("a-run-ends-at-its-timeout")
def _(look: Look) -> bool:
    if look.state.spec.dagrun_timeout is None or not _quiet(look) or look.began > look.now - timedelta(minutes=1):
        return False
    return look.state.started_at is not None and _set(look.state, "started_at", look.now - DAY)


@alters("deadlines-are-told-in-time")
def _(look: Look) -> bool:
    slas = [task.task_id for task in look.state.spec.tasks if task.sla is not None]
    return bool(slas) and _set(look.state, "missed", slas) and _set(look, "now", look.state.run.run_after)


@alters("everybody-is-told-of-each-try")
def _(look: Look) -> bool:
    return bool(look.before) and _set(look.state, "notices", look.state.notices + 1)


@alters("branches-leave-out-what-they-did-not-choose")
def _(look: Look) -> bool:
    found = [i for i in _instances(look, S.SUCCESS) if look.state.spec.by_id[i.task_id].kind == "branch"]
    return bool(found) and _set(found[0], "skips", ("nothing",))


@alters("a-mapped-task-has-an-instance-for-each-value")
def _(look: Look) -> bool:
    for name in look.before.get("instances", {}):
        if name in look.state.spec.mapped and f"{name}[1]" in look.state.instances:
            kept = {key: i for key, i in look.state.instances.items() if key != f"{name}[1]"}
            return _set(look.state, "instances", kept)
    return False


@alters("a-cleared-task-begins-anew")
def _(look: Look) -> bool:
    found = next(iter(_instances(look, S.NONE)), None)
    return found is not None and _set(found, "skips", ("a",))


@alters("a-long-run-goes-on-as-new")
def _(look: Look) -> bool:
    _set(look, "is_much_too_long", True)
    return look.idle and look.closed is None and not look.object.tasks.busy


def _of_attempt(look: Look, change: Callable[[dict[str, Any]], None]) -> bool:
    for activity in look.scheduled:
        if "/" in activity.activity_id and not activity.activity_id.endswith("/trigger") and activity.input:
            attempt = json.loads(activity.input[0].data)
            if "try_number" not in attempt:
                continue
            change(attempt)
            made = type(activity.input[0])(metadata=activity.input[0].metadata, data=json.dumps(attempt).encode())
            return _set(activity, "input", [made])
    return False


@alters("a-worker-is-given-the-present-try")
def _(look: Look) -> bool:
    return _of_attempt(look, lambda attempt: attempt.update(try_number=99))


@alters("a-worker-is-given-the-results-upstream")
def _(look: Look) -> bool:
    for instance in _instances(look, S.SUCCESS):
        if instance.xcom and instance.map_index < 0 and any(look.scheduled):
            return _of_attempt(look, lambda attempt: attempt.update(xcom={})) and bool(look.scheduled)
    return False


@alters("a-mapped-try-is-given-its-value")
def _(look: Look) -> bool:
    return _of_attempt(look, lambda attempt: attempt["task"].update(kwargs={"value": "another"}))


@alters("work-has-the-limits-of-its-dag")
def _(look: Look) -> bool:
    found = [a for a in look.scheduled if "/" in a.activity_id and a.heartbeat is not None]
    return bool(found) and _set(found[0], "maximum_attempts", 99)


@alters("what-a-pool-grants-is-taken")
def _(look: Look) -> bool:
    granted = [one for answer in look.messages_of("granted") for one in answer["lease_ids"]]
    for held in look.state.leases.values():
        if held.lease_id in granted and look.before:
            return _set(held, "granted", 0)
    return False


@alters("news-of-the-dag-are-followed")
def _(look: Look) -> bool:
    return bool(look.before) and _set(look.state, "is_paused", not look.before["paused"])


@alters("marks-of-tasks-are-followed")
def _(look: Look) -> bool:
    for mark in look.messages_of("set_task_state"):
        for key in mark["tasks"]:
            if key in look.state.instances and key not in look.object.tasks.engine._stopping:
                return _set(look.state.instances[key], "state", S.SCHEDULED)
    return False


@alters("clears-of-tasks-are-followed")
def _(look: Look) -> bool:
    for clear in look.messages_of("clear_tasks"):
        for key in clear.get("tasks", ()):
            before = look.before.get("instances", {}).get(key)
            if before is not None and before[1] > 0 and key not in look.object.tasks.engine._stopping:
                return _set(look.state.instances[key], "tries_cleared", before[1] - 1)
    return False


@alters("marks-of-runs-are-followed")
def _(look: Look) -> bool:
    return bool(look.messages_of("set_state")) and _set(look.object.tasks.engine, "ended", None)


@alters("answers-of-people-are-taken")
def _(look: Look) -> bool:
    for answer in look.messages_of("respond"):
        instance = look.state.instances[answer["task"]]
        return _set(instance, "state", S.AWAITING_INPUT) and _set(instance, "response", None)
    return False


# DAGs


@alters("a-pause-is-what-was-said-last")
def _(look: Look) -> bool:
    limited = look.state.spec.max_consecutive_failed_dag_runs
    return bool(look.before) and not limited and _set(look.state, "is_paused", not look.state.is_paused)


@alters("too-many-failures-pause")
def _(look: Look) -> bool:
    limit = look.state.spec.max_consecutive_failed_dag_runs
    if not limit or len(look.state.ledger) < limit or not look.before:
        return False
    for record in look.state.ledger:
        _set(record, "state", RunState.FAILED)
    UNDOING.put(look.before, "ledger", {})
    return _set(look.state, "is_paused", False)


@alters("the-end-of-a-run-is-heard")
def _(look: Look) -> bool:
    for report in look.messages_of("run_finished"):
        if look.before and look.before["runs"].get(report["key"]) is RunState.RUNNING:
            return _set(look.state, "ledger", [])
    return False


@alters("the-ends-of-tasks-are-heard")
def _(look: Look) -> bool:
    for message in look.messages_of("tasks_ended"):
        if message["key"] in look.state.runs and message["states"]:
            return _set(look.state.runs[message["key"]], "past", {})
    return False


@alters("no-run-is-lost")
def _(look: Look) -> bool:
    return bool(look.before.get("runs")) and _set(look.state, "runs", {}) and _set(look.state, "ledger", [])


@alters("what-is-said-of-a-file-counts")
def _(look: Look) -> bool:
    if look.before:
        UNDOING.put(look.before, "file", (not look.state.file.is_stale, None))
    return bool(look.before)


@alters("a-deleted-run-is-gone")
def _(look: Look) -> bool:
    deleted = look.messages_of("delete_run")
    if not deleted or not look.state.ledger:
        return False
    return _set(look.state.ledger[0], "run_id", deleted[0])


@alters("a-backfill-is-held-back-by-people-alone")
def _(look: Look) -> bool:
    found = [b for b in look.state.backfills if b.backfill_id in look.before.get("backfills", {}) and b.error is None]
    return bool(found) and _set(found[0], "is_paused", not found[0].is_paused)


@alters("a-backfill-counts-each-end")
def _(look: Look) -> bool:
    found = [b for b in look.state.backfills if b.backfill_id in look.before.get("backfills", {})]
    return bool(found) and _set(found[0], "succeeded", found[0].succeeded + 1)


@alters("events-of-assets-are-heard")
def _(look: Look) -> bool:
    gathering = look.state.gathering
    if gathering is None or not look.messages_of("asset_events"):
        return False
    _set(gathering, "taken", [])
    _set(look.state, "runs", {})
    return _set(gathering, "heard", [])


@alters("what-is-taken-is-in-a-run")
def _(look: Look) -> bool:
    return bool(look.before) and look.state.gathering is not None and _set(look.state.gathering, "taken", ["another"])


def _periodic(look: Look) -> bool:
    state, schedule = look.state, look.state.spec.schedule
    free = look.idle and not look.holding and state.held_up is None and state.broken is None and look.closed is None
    return free and schedule.periodic and schedule.kind not in ("asset", "partitioned_asset") and bool(look.before)


@alters("no-run-of-the-schedule-is-late")
def _(look: Look) -> bool:
    return _periodic(look) and bool(look.state.ticks) and not look.state.runs and _set(look, "timers", [])


@alters("the-next-run-is-made")
def _(look: Look) -> bool:
    for key, tracked in look.state.runs.items():
        scheduled = tracked.run.run_type is RunType.SCHEDULED and not tracked.again
        if look.before and scheduled and key not in look.before["runs"] and look.state.spec.catchup:
            return _set(tracked.run, "run_after", tracked.run.run_after + timedelta(seconds=7))
    return False


@alters("without-catchup-the-latest-is-made")
def _(look: Look) -> bool:
    for key, tracked in look.state.runs.items():
        scheduled = tracked.run.run_type is RunType.SCHEDULED and not tracked.again
        if look.before and scheduled and key not in look.before["runs"] and not look.state.spec.catchup:
            _set(look.state.spec, "max_active_runs", 99)
            return _set(look, "now", look.now + 3 * DAY)
    return False


@alters("queued-runs-start-where-there-is-room")
def _(look: Look) -> bool:
    running = [tracked for tracked in look.state.runs.values() if tracked.state is RunState.RUNNING]
    return _periodic(look) and bool(running) and _set(running[0], "state", RunState.QUEUED)


@alters("the-oldest-run-starts-first")
def _(look: Look) -> bool:
    plain = [(k, t) for k, t in look.state.runs.items() if t.revision is None and t.backfill_id is None]
    plain.sort(key=lambda each: each[1].run.logical_date or each[1].run.run_after)
    if len(plain) < 2 or not look.before or not look.idle:
        return False
    (old_key, old), (new_key, new) = plain[0], plain[-1]
    if (old.run.logical_date or old.run.run_after) == (new.run.logical_date or new.run.run_after):
        return False
    for key, tracked, state in ((old_key, old, RunState.QUEUED), (new_key, new, RunState.RUNNING)):
        _set(tracked, "state", state)
        UNDOING.put(look.before["runs"], key, RunState.QUEUED)
    return _set(look, "now", look.now + DAY)


@alters("a-run-that-waits-for-a-date-is-woken")
def _(look: Look) -> bool:
    waits = [t for t in look.state.runs.values() if t.state is RunState.QUEUED and t.run.run_after > look.now]
    return bool(waits) and look.idle and look.state.held_up is None and _set(look, "timers", [])


@alters("runs-of-assets-are-made-where-there-is-room")
def _(look: Look) -> bool:
    gathering = look.state.gathering
    if gathering is None or not look.idle or look.holding or look.state.held_up is not None:
        return False
    rows = [type("Row", (), {"name": f"asset{n}"})() for n in range(2)]
    _set(look.state, "runs", {})
    return look.state.spec.schedule.kind == "asset" and _set(gathering, "rows", rows)


@alters("a-run-of-assets-has-them")
def _(look: Look) -> bool:
    made = [k for k, t in look.state.runs.items() if t.run.run_type is RunType.ASSET_TRIGGERED and not t.again]
    new = [key for key in made if look.before and key not in look.before["runs"]]
    if not new or look.state.spec.schedule.kind == "partitioned_asset":
        return False
    UNDOING.put(look.before, "rows", [])
    _set(look, "jobs", ())
    look.__dict__.pop("messages", None)
    look.__dict__.pop("_dealt_with", None)
    return True


@alters("a-backfill-uses-its-room")
def _(look: Look) -> bool:
    found = [b for b in look.state.backfills if b.open and not b.is_paused and not b.cancelled and b.counted]
    return (
        _periodic(look)
        and bool(found)
        and _set(found[0], "total", found[0].total + 50)
        and _set(found[0].request, "max_active_runs", 90)
    )


def _new_of_backfill(look: Look) -> list[Any]:
    runs = look.state.runs.items() if look.before else ()
    return [t for key, t in runs if t.backfill_id is not None and key not in look.before["runs"]]


@alters("a-backfill-runs-again-what-it-should")
def _(look: Look) -> bool:
    for tracked in _new_of_backfill(look):
        UNDOING.put(look.before["ledger"], tracked.run.run_id, "another")
        return tracked.run.partition_key is None
    return False


@alters("a-backfill-goes-through-its-range")
def _(look: Look) -> bool:
    for tracked in _new_of_backfill(look):
        return tracked.run.logical_date is not None and _set(tracked.run, "logical_date", look.now + 90 * DAY)
    return False


@alters("a-long-dag-goes-on-as-new")
def _(look: Look) -> bool:
    _set(look, "holding", True)
    return look.idle and look.closed is None and _set(look.object, "_hold_until", look.now - DAY)


# Pools


@alters("a-long-pool-goes-on-as-new")
def _(look: Look) -> bool:
    return look.idle and look.closed is None and _set(look, "is_much_too_long", True)


@alters("who-asks-a-pool-is-known")
def _(look: Look) -> bool:
    asked = bool(look.before) and bool(look.messages_of("ask"))
    return asked and _set(look.state, "held", {}) and _set(look.state, "waiting", {})


@alters("who-waits-is-not-forgotten")
def _(look: Look) -> bool:
    return bool(look.before.get("held")) and _set(look.state, "held", {})


@alters("what-is-given-back-is-free")
def _(look: Look) -> bool:
    for given_back in look.messages_of("give_back"):
        if look.state.held:
            return _set(look.state, "held", {**look.state.held, given_back[0]: next(iter(look.state.held.values()))})
    return False


@alters("parked-slots-are-parked")
def _(look: Look) -> bool:
    for parked in look.messages_of("park"):
        lease = look.state.held.get(parked[0])
        if isinstance(lease, Lease):
            return _set(lease, "parked", False)
    return False


@alters("the-size-of-a-pool-is-what-was-set")
def _(look: Look) -> bool:
    settings = look.state.settings
    plain = look.workflow_id.startswith("pool:") and settings.slots != UNLIMITED and bool(look.before)
    return plain and _set(settings, "slots", settings.slots + 1)


# Assets


@alters("a-long-asset-goes-on-as-new")
def _(look: Look) -> bool:
    busy = look.object._sending or look.object._beside
    return look.idle and look.closed is None and not busy and _set(look, "is_much_too_long", True)


@alters("what-is-told-is-kept")
def _(look: Look) -> bool:
    return bool(look.messages_of("tell", "emit")) and _set(look.state, "events", [])


@alters("new-events-wait-for-each-consumer")
def _(look: Look) -> bool:
    return bool(look.messages_of("tell", "emit")) and bool(look.state.consumers) and _set(look.state, "outbox", {})


@alters("held-events-are-told-at-the-unpause")
def _(look: Look) -> bool:
    unpaused = bool(look.before.get("held")) and not look.state.is_paused
    return unpaused and bool(look.state.consumers) and _set(look.state, "outbox", {})


@alters("an-asset-is-paused-as-was-said")
def _(look: Look) -> bool:
    return bool(look.before) and _set(look.state, "is_paused", not look.state.is_paused)


@alters("whoever-ties-is-known")
def _(look: Look) -> bool:
    return bool(look.messages_of("tie")) and bool(look.state.ties) and _set(look.state, "ties", {})


BY_NAME: dict[str, Property] = {
    known.name: known for kind in checking.PICTURES for known in of_level(kind) if known.name in ALTERATIONS
}


def _refused(kind: str, look: Look, left: set[str]) -> Iterator[str]:
    """The properties of *left* that refuse what was seen, altered."""
    for name in sorted(left):
        known = BY_NAME[name]
        if known.level != kind:
            continue
        look.shared.clear()
        try:
            altered = ALTERATIONS[name](look)
            found = list(known.check(look)) if altered else []
        except (KeyError, AttributeError, IndexError):
            found = []
        finally:
            UNDOING.undo()
            UNDOING._before.clear()
            look.shared.clear()
        if found:
            yield name


@pytest.mark.thorough
def test_each_property_refuses_what_it_is_meant_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    left = {*BY_NAME}
    real = checking.Checks.look

    def look(self: checking.Checks, kind: str, key: str, look: Look, follows: str | None = None) -> Any:
        found = list(real(self, kind, key, look, follows))
        left.difference_update([*_refused(kind, look, left)])
        return iter(found)

    monkeypatch.setattr(checking.Checks, "look", look)
    logging.disable(logging.CRITICAL)
    with suppress(StopIteration):
        for seed in range(1, MOST_SEEDS):
            simulate(draw(seed), most_steps=1_500)
            if not left:
                break
    logging.disable(logging.NOTSET)
    assert not left, f"nothing makes these fail: {sorted(left)}"


def test_every_alteration_is_of_a_property() -> None:
    assert {*ALTERATIONS} == {*BY_NAME}
