"""What a run owes its tasks: each starts, waits and ends as its rule says, at once and at its time, and nobody is
forgotten. Said by `rules`, which shares nothing with the product's planner."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from tidemill.model.run.instance_keys import UNMAPPED, split_key
from tidemill.model.spec.notifiers import Event
from tidemill.model.spec.tasks import EmptyTask, SparkWork
from tidemill.model.states import TaskState

from .catalogue import Found, Look, prop
from .rules import ACTIVE, BUSY, OVER, RUN, Owing, lengths, retry_delays, skipped_by_value, value_of

LEVEL = "DagRun"
ROUNDING = timedelta(milliseconds=1)
LATE = timedelta(seconds=11)
"""A timer begins when its workflow task is completed, which may take ten seconds: so late may what it wakes be."""
ASK_AHEAD = 200
"""Of tasks that wait for the same slots, as many have asked at a time."""
S = TaskState
UNRUN = (S.SKIPPED, S.UPSTREAM_FAILED)
WAITS = (S.DEFERRED, S.AWAITING_INPUT, S.UP_FOR_RESCHEDULE)
BY_PEOPLE = ("cleared", "marked", "the run was", "fail_fast", "dagrun_timeout", "its run", "its index")
CHANGES = ("clear_tasks", "set_task_state", "set_state")
"""Messages by which people change a run."""


def _by_people(reason: str | None) -> bool:
    return (reason or "").startswith(BY_PEOPLE)


def _goes_on(look: Look) -> bool:
    """Whether the run has done all that it will do now, and nothing holds it back.

    One that was reset to where it held things back, for its history was long, holds them back with a short one, too.
    """
    holds = look.holding or getattr(getattr(look.object, "_suggestion", None), "_is_recorded", False)
    return look.idle and not holds and look.object.tasks.ended is None and look.closed is None


def _owing(look: Look) -> Owing:
    """How the run stands; made once for all properties of a look."""
    if "owing" not in look.shared:
        look.shared["owing"] = Owing(look.state)
    return look.shared["owing"]  # type: ignore[no-any-return]


def _before(look: Look, key: str) -> Any:
    return look.before.get("instances", {}).get(key)


def _new_ends(look: Look) -> Any:
    """The tries that have ended in this workflow task, with the instance that each is of."""
    for key, instance in look.state.instances.items():
        before = _before(look, key)
        if before is not None:
            for attempt in instance.attempts[before[2] :]:
                yield instance, attempt


# Whoever may go on goes on


@prop(LEVEL)
def what_may_run_is_not_left_waiting(look: Look) -> Found:
    """After a workflow task no task has still to begin whose trigger rule lets it run, or ends it."""
    if not _goes_on(look):
        return
    owing = _owing(look)
    for key, instance in look.state.instances.items():
        if instance.state is not S.NONE or (verdict := owing.owed(key)) is None:
            continue
        task = look.state.spec.by_id[instance.task_id]
        if verdict == RUN and owing.is_held_by_past(task):
            continue
        if verdict == RUN and owing.waits_for_values(task.task_id) and not owing.values_are_there(task.task_id):
            continue
        yield f"{key} waits, and is owed {verdict}"


@prop(LEVEL)
def a_task_ends_unrun_for_a_reason(look: Look) -> Found:
    """A task is skipped, or upstream_failed, without having run only where its rule, a branch or a person says so."""
    if not look.before or look.object.tasks.ended is not None or _changed_by_people(look):
        return
    owing = _owing(look)
    for key, instance in look.state.instances.items():
        before = _before(look, key)
        if (
            before is None
            or before[0] is not S.NONE
            or instance.state not in UNRUN
            or len(instance.attempts) > before[2]
        ):
            continue
        nothing = (instance.reason or "").startswith("there is nothing to map it over")
        if _by_people(instance.reason) or nothing or owing.waits_for_values(instance.task_id):
            continue
        if (verdict := owing.owed(key)) is not instance.state:
            yield f"{key} is {instance.state}, and is owed {verdict}"


@prop(LEVEL)
def a_task_starts_because_it_is_owed(look: Look) -> Found:
    """A task, or an instance of a mapped one, begins only when its rule and the setups above let it run."""
    if not look.before or _changed_by_people(look):
        return
    owing = _owing(look)
    for key, instance in look.state.instances.items():
        before = _before(look, key)
        begun = instance.state in (S.SCHEDULED, S.QUEUED) or (before and instance.try_number > before[1])
        if before is None or before[0] is not S.NONE or not begun or _by_people(instance.reason):
            continue
        if (verdict := owing.owed(key)) != RUN:
            yield f"{key} is {instance.state}, and is owed {verdict}"
        if owing.is_held_by_past(look.state.spec.by_id[instance.task_id]) and not look.messages_of("news"):
            yield f"{key} is {instance.state}, and is held by the past"


def _changed_by_people(look: Look) -> bool:
    return bool(look.messages_of(*CHANGES)) or bool(look.before.get("resumes"))


@prop(LEVEL)
def what_is_scheduled_has_asked_for_its_slots(look: Look) -> Found:
    """While a run has room, a task that pools have to let in has asked them, and has not got all that it has asked."""
    if not _goes_on(look) or look.state.is_paused:
        return
    spec, busy = look.state.spec, _busy(look)
    if busy >= spec.max_active_tasks:
        return
    active = Counter(i.task_id for i in look.state.instances.values() if i.state in ACTIVE)
    asking = Counter(
        _alike(look, i.task_id)
        for key, i in look.state.instances.items()
        if i.state is S.SCHEDULED and key in look.state.leases
    )
    for key, instance in look.state.instances.items():
        task = spec.by_id[instance.task_id]
        limit = task.max_active_tis_per_dagrun
        if instance.state is not S.SCHEDULED or (limit is not None and active[task.task_id] >= limit):
            continue
        pooled = task.pool is not None or task.max_active_tis_per_dag is not None
        pooled = pooled or (look.state.parallelism is not None and not isinstance(task, EmptyTask))
        lease = look.state.leases.get(key)
        if not pooled:
            yield f"{key} waits for nobody, {busy} of {spec.max_active_tasks} are busy"
        elif lease is None and asking[_alike(look, task.task_id)] >= ASK_AHEAD:
            continue  # so many ask at a time: a pool knows who is next, and is not flooded
        elif lease is None or lease.granted >= len(lease.pools):
            yield f"{key} has asked nobody: {lease}"


def _alike(look: Look, task_id: str) -> tuple[Any, ...]:
    """What says which instances can stand in for each other where they wait for slots."""
    task = look.state.spec.by_id[task_id]
    limited = task_id if task.max_active_tis_per_dag is not None else None
    return limited, task.pool, task.pool_slots, look.state.spec.weights[task_id]


def _busy(look: Look) -> int:
    return sum(i.state in BUSY for i in look.state.instances.values())


@prop(LEVEL)
def the_heaviest_task_starts_first(look: Look) -> Found:
    """Of tasks that need nobody's leave, none starts while a heavier one that was ready before stays behind."""
    if not look.before or not look.idle:
        return
    spec, heaviest = look.state.spec, None
    free = {
        task.task_id
        for task in spec.tasks
        if task.pool is None and task.max_active_tis_per_dag is None and task.max_active_tis_per_dagrun is None
    }
    if look.state.parallelism is not None:
        return
    for key, instance in look.state.instances.items():
        before = _before(look, key)
        left = before is not None and before[0] is S.SCHEDULED and instance.state is S.SCHEDULED
        if left and instance.task_id in free and instance.try_number == before[1]:
            heaviest = max(heaviest or 0, spec.weights[instance.task_id])
    for key, instance in look.state.instances.items():
        before = _before(look, key)
        begun = before is not None and instance.try_number > before[1] and instance.state is S.QUEUED
        if heaviest is not None and begun and instance.task_id in free and spec.weights[instance.task_id] < heaviest:
            yield f"{key} of {spec.weights[instance.task_id]} before one of {heaviest}"


@prop(LEVEL)
def fail_fast_ends_all_others(look: Look) -> Found:
    """With fail_fast, when a task fails, nothing but teardowns is left that could go on."""
    if not look.before or not look.idle or look.holding or not look.state.spec.fail_fast or _changed_by_people(look):
        return
    tasks = look.state.spec.by_id
    failed = [
        key
        for key, i in look.state.instances.items()
        if i.state is S.FAILED and (b := _before(look, key)) is not None and b[0] is not S.FAILED
    ]
    if not any(not tasks[split_key(key)[0]].is_teardown for key in failed):
        return
    stopping = look.object.tasks.engine._stopping
    for key, instance in look.state.instances.items():
        left = instance.state not in OVER and key not in stopping
        if left and not tasks[instance.task_id].is_teardown:
            yield f"{key} is {instance.state}, {failed[0]} has failed"


@prop(LEVEL)
def fail_fast_waits_for_a_failure(look: Look) -> Found:
    """Tasks are ended by fail_fast only when a task has failed that is no teardown."""
    if not look.before or _changed_by_people(look):
        return
    tasks = look.state.spec.by_id
    failed = any(i.state is S.FAILED and not tasks[i.task_id].is_teardown for i in look.state.instances.values())
    for key, instance in look.state.instances.items():
        before = _before(look, key)
        new = before is not None and before[0] is not instance.state and (instance.reason or "").startswith("fail_fast")
        if new and not (failed and look.state.spec.fail_fast):
            yield f"{key} is {instance.state}: {instance.reason}"


@prop(LEVEL)
def a_run_that_is_ended_stops_its_work(look: Look) -> Found:
    """When a person, or its timeout, has ended a run, all that is under way is being stopped; teardowns alone go on."""
    if look.object.tasks.ended is None or not look.idle or look.closed is not None:
        return
    engine = look.object.tasks.engine
    for key, instance in look.state.instances.items():
        goes_on = engine._tears_down and look.state.spec.by_id[instance.task_id].is_teardown
        if instance.state not in OVER and key not in engine._stopping and not goes_on:
            yield f"{key} is {instance.state}, and the run has ended: {look.object.tasks.ended.reason}"


@prop(LEVEL)
def an_end_tears_down(look: Look) -> Found:
    """However a run ends, a teardown runs whose setups have succeeded: none is skipped because of that end."""
    end = look.object.tasks.ended
    if end is None or not look.exact or not look.before or end.reason.startswith("a defect"):
        return
    tears_down = look.object.tasks.engine._tears_down and look.closed in ("Completed", "Failed")
    for key, instance in look.state.instances.items():
        if not look.state.spec.by_id[instance.task_id].is_teardown:
            continue
        if look.before.get("ended") is None and instance.state is S.SKIPPED and instance.reason == end.reason:
            yield f"{key} is skipped by the end of its run: {end.reason}"
        ran = instance.try_number > instance.tries_cleared  # it may skip itself
        unrun = instance.state in UNRUN and not ran and not _by_people(instance.reason)
        if tears_down and unrun and _owing(look).owed(key) == RUN:
            yield f"{key} is {instance.state}, and what it tears down was set up"


# Times


@prop(LEVEL)
def a_retry_comes_after_its_delay(look: Look) -> Found:
    """The next try is due retry_delay after the last one has ended, grown and bounded as the task says."""
    for instance, attempt in _new_ends(look):
        if attempt.state is not S.UP_FOR_RETRY or instance.retry_at is None or attempt.failure is None:
            continue
        task = look.state.spec.by_id[instance.task_id]
        if attempt.failure.is_disruption and isinstance(task, SparkWork):
            continue
        least, most = retry_delays(task, instance.tries_spent, attempt.failure.retry_delay)
        delay = instance.retry_at - attempt.ended_at
        if not least - ROUNDING <= delay <= most + ROUNDING:
            yield f"{instance.key}: {delay}, and not {least} to {most}"


@prop(LEVEL)
def nobody_sleeps_too_long(look: Look) -> Found:
    """No task waits for a time that is over."""
    if look.timers is None or look.closed is not None or any(timer <= look.now + LATE for timer in look.timers):
        return
    for key, instance in look.state.instances.items():
        at = instance.retry_at if instance.state is S.UP_FOR_RETRY else instance.wake_at
        waits = instance.state in (*WAITS, S.UP_FOR_RETRY)
        if waits and at is not None and max(at, look.began) < look.now - LATE:
            yield f"{key} is {instance.state}, since {at}"


@prop(LEVEL)
def whoever_waits_for_a_time_has_a_timer(look: Look) -> Found:
    """For each task that waits for a time the service keeps a timer that fires by then."""
    if look.timers is None or look.closed is not None or not look.object._ready:
        return
    for key, instance in look.state.instances.items():
        at = instance.retry_at if instance.state is S.UP_FOR_RETRY else instance.wake_at
        waits = instance.state in (*WAITS, S.UP_FOR_RETRY)
        if (
            waits
            and at is not None
            and not any(at - ROUNDING <= timer <= max(at, look.now) + LATE for timer in look.timers)
        ):
            yield f"{key} is {instance.state} until {at}, timers are {look.timers}"


@prop(LEVEL)
def nobody_is_woken_early(look: Look) -> Found:
    """A task that waits for its next try or its next poke goes on when that is due, and not before."""
    for key, instance in look.state.instances.items():
        before = _before(look, key)
        if before is None or before[0] not in (S.UP_FOR_RETRY, S.UP_FOR_RESCHEDULE) or instance.state is before[0]:
            continue
        at = before[4]
        on = instance.state in (S.SCHEDULED, S.QUEUED) and instance.tries_cleared == before[3]
        if on and at is not None and at > look.now + ROUNDING:
            yield f"{key} goes on, and waits until {at}"


@prop(LEVEL)
def a_run_ends_at_its_timeout(look: Look) -> Found:
    """A run with a dagrun_timeout ends when that is over, and for that reason never before."""
    timeout, started = look.state.spec.dagrun_timeout, look.state.started_at
    if timeout is None or started is None or not look.before:
        return
    end = look.object.tasks.ended
    new = end is not None and not look.before.get("ending")
    if new and end.reason.startswith("dagrun_timeout") and started + timeout > look.now + ROUNDING:
        yield f"it has ended, and may take until {started + timeout}"
    late = look.exact and look.idle and look.closed is None and max(started + timeout, look.began) < look.now - LATE
    if late and end is None and look.object.tasks.engine.end is None:
        yield f"it goes on, and may take until {started + timeout}"


@prop(LEVEL)
def deadlines_are_told_in_time(look: Look) -> Found:
    """A deadline or an sla that is over is told, and none before."""
    spec, due = look.state.spec, look.state.run.run_after
    limits = {task.task_id: task.sla for task in spec.tasks if task.sla is not None}
    if spec.deadline is not None:
        limits[""] = spec.deadline
    ended = look.object.tasks.engine.end is not None or look.object.tasks.ended is not None
    for name, after in limits.items():
        if name in look.state.missed and due + after > look.now + ROUNDING:
            yield f"{name or 'the run'} is told of, and has time until {due + after}"
        over = look.exact and look.idle and not ended and look.closed is None and look.object._ready
        coming = any(timer <= look.now + LATE for timer in look.timers or [look.now])
        if (
            over
            and not coming
            and name not in look.state.missed
            and max(due + after, look.state.started_at or look.now) < look.now - LATE
        ):
            yield f"{name or 'the run'} had time until {due + after}"


@prop(LEVEL)
def everybody_is_told_of_each_try(look: Look) -> Found:
    """For each start and end of a try, and each missed sla, there is a notice for each who wants to know."""
    engine = look.object.tasks.engine
    ends = look.closed is not None or engine.end is not None or look.before.get("ending")
    if not look.before or not look.exact or ends:
        return
    spec, wanted = look.state.spec, 0
    names = {S.SUCCESS: Event.ON_SUCCESS, S.FAILED: Event.ON_FAILURE, S.UP_FOR_RETRY: Event.ON_RETRY,
             S.SKIPPED: Event.ON_SKIPPED}  # fmt: skip
    for instance, attempt in _new_ends(look):
        if attempt.state in names:
            wanted += len(spec.by_id[instance.task_id].callbacks.get(names[attempt.state], ()))
    for key, instance in look.state.instances.items():
        before = _before(look, key)
        if before is None:
            return  # it has just been expanded
        wanted += (instance.try_number - before[1]) * len(
            spec.by_id[instance.task_id].callbacks.get(Event.ON_EXECUTE, ())
        )
    for name in look.state.missed[len(look.before["missed"]) :]:
        if name == "":
            wanted += len(spec.callbacks.get(Event.DEADLINE_MISS, ()))
        elif name in spec.by_id:
            return  # how many instances were late at that moment is not known here
    told = look.state.notices - look.before["notices"]
    # A run that was over, and that somebody has changed in that moment, has told of that end, too, and goes on.
    ends = {len(spec.callbacks.get(event, ())) for event in (Event.ON_SUCCESS, Event.ON_FAILURE)}
    changed = look.messages_of("clear_tasks", "set_task_state")
    if told != wanted and not (changed and told - wanted in ends):
        yield f"{told} and not {wanted}"


# What tasks leave


@prop(LEVEL)
def branches_leave_out_what_they_did_not_choose(look: Look) -> Found:
    """A branch, a short circuit and latest_only leave out the tasks that follow from what they have returned."""
    for instance, attempt in _new_ends(look) if look.exact else ():  # else a task may have said itself what it skips
        task = look.state.spec.by_id[instance.task_id]
        if attempt.state is not S.SUCCESS or instance.state is not S.SUCCESS or not task.do_xcom_push:
            continue
        if _by_people(instance.reason):
            continue
        expected = skipped_by_value(look.state.spec, task, value_of(instance))
        if expected is not None and {*instance.skips} != expected:
            yield f"{instance.key} has returned {value_of(instance)} and skips {instance.skips}, not {sorted(expected)}"


@prop(LEVEL)
def a_mapped_task_has_an_instance_for_each_value(look: Look) -> Found:
    """A task is mapped over as many instances as its list has values; over none it is skipped."""
    if not look.before:
        return
    keys = Counter(split_key(key)[0] for key in look.state.instances)
    known = look.before["instances"]
    for task_id, length in lengths(look.state.spec, look.state.instances):
        fresh = task_id in known and f"{task_id}[0]" in look.state.instances
        if fresh and keys[task_id] != length:
            yield f"{task_id}: {keys[task_id]} of {length}"
        empty = look.state.instances.get(task_id)
        ran = empty is not None and empty.map_index == UNMAPPED and empty.state is S.SUCCESS
        if ran and not _by_people(empty.reason) and look.object.tasks.ended is None:
            yield f"{task_id} has succeeded without an instance"


@prop(LEVEL)
def a_cleared_task_begins_anew(look: Look) -> Found:
    """What has been cleared has no result, no branch's choice and no answer left when it waits for its next try."""
    for key, instance in look.state.instances.items():
        if instance.state is S.NONE and (instance.xcom or instance.skips or instance.deferral or instance.response):
            yield f"{key}: {instance.xcom or instance.skips or instance.deferral or instance.response}"


# Going on as new


@prop(LEVEL)
def a_long_run_goes_on_as_new(look: Look) -> Found:
    """A run whose history is long goes on as new when it wakes and nothing is under way."""
    if look.idle and look.is_much_too_long and look.closed is None and not look.object.tasks.busy:
        yield "nothing is under way"


@prop("Pool")
def a_long_pool_goes_on_as_new(look: Look) -> Found:
    """A pool whose history is long goes on as new when it wakes, unless it looks for holders."""
    if look.idle and look.is_much_too_long and look.closed is None and not look.object._is_looking:
        yield "it sleeps"


@prop("Asset")
def a_long_asset_goes_on_as_new(look: Look) -> Found:
    """An asset whose history is long goes on as new when it wakes and tells nobody."""
    waits = look.object._sending or look.object._beside
    if look.idle and look.is_much_too_long and look.closed is None and not waits and look.state.fits_a_payload:
        yield "it sleeps"


@prop("Dag")
def a_long_dag_goes_on_as_new(look: Look) -> Found:
    """A DAG whose history is long goes on as new when its runs have ended, or a few seconds later."""
    until = look.object._hold_until
    fires = look.timers is None or any(at <= look.now for at in look.timers)  # the service was away meanwhile
    holds = look.idle and look.holding and look.closed is None and not fires
    if holds and until is not None and until < look.now - LATE:
        yield f"it sleeps, since {until}"
