"""What holds of a run after each of its workflow tasks."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from typing import Any

from tidemill.model.pool.state import pools_of
from tidemill.model.run.engine import RESULTS_LIMIT
from tidemill.model.run.instance_keys import UNMAPPED, split_key
from tidemill.model.run.ready_tasks import needs_lease
from tidemill.model.run.views import run_row
from tidemill.model.spec.tasks import EmptyTask
from tidemill.model.spec.trigger_rule import TriggerRule
from tidemill.model.states import FAILURES, FINISHED, TRANSITIONS, RunState, TaskState

from .catalogue import Found, Look, prop
from .lines import NEW_OF_RUNS, is_line
from .rules import ACTIVE, BUSY

UNDER_WAY = (TaskState.QUEUED, TaskState.RUNNING, TaskState.SHUTDOWN, TaskState.RESTARTING)
WAITS = (TaskState.DEFERRED, TaskState.AWAITING_INPUT, TaskState.UP_FOR_RESCHEDULE)
LEVEL = "DagRun"
ROUNDING = timedelta(milliseconds=1)
BY_PEOPLE = ("cleared", "marked", "the run was marked", "fail_fast")


def picture(workflow: Any) -> dict[str, Any]:
    """What the next look compares with."""
    state = workflow.state
    return {
        "instances": {
            key: (i.state, i.try_number, len(i.attempts), i.tries_cleared, i.retry_at or i.wake_at)
            for key, i in state.instances.items()
        },
        "ending": workflow.tasks.engine.end is not None or workflow.tasks.ended is not None,
        "paused": state.is_paused,
        "started_at": state.started_at,
        "notices": state.notices,
        "missed": [*state.missed],
        "news": state.last_update,
        "run": (state.run.dag_id, state.run.run_id, state.run.logical_date),
        "version": state.spec.version,
        "leases_made": state.leases_made,
        "leases": {held.lease_id for held in state.leases.values()},
        "ended": workflow.tasks.ended,
        "past": dict(state.past.states) if state.past is not None else {},
        "resumes": state.revision is not None,
    }


def _reachable() -> dict[TaskState, set[TaskState]]:
    found = {state: {state} for state in TaskState}
    for state in TaskState:
        todo = [state]
        while todo:
            for following in TRANSITIONS[todo.pop()] - found[state]:
                found[state].add(following)
                todo.append(following)
    return found


REACHABLE = _reachable()


def _moved(look: Look) -> Found:
    """Keys whose state is another than before."""
    before = look.before.get("instances", {})
    for key, instance in look.state.instances.items():
        if key in before and before[key][0] is not instance.state:
            yield key


def _tries(look: Look) -> Any:
    before = look.before.get("instances", {})
    for key, instance in look.state.instances.items():
        if key in before:
            yield key, before[key], instance


# Tries


@prop(LEVEL)
def task_moves_are_legal(look: Look) -> Found:
    """A task takes only states that can follow the one it had, by the table of transitions."""
    before = look.before.get("instances", {})
    for key in _moved(look):
        old, new = before[key][0], look.state.instances[key].state
        if new not in REACHABLE[old]:
            yield f"{key} went from {old} to {new}"


@prop(LEVEL)
def ended_tasks_move_only_by_people(look: Look) -> Found:
    """A task that has ended moves again only when it is cleared or marked."""
    for key, (old, _, _, cleared, *_), now in _tries(look):
        by_people = now.tries_cleared != cleared or (now.reason or "").startswith(BY_PEOPLE) or look.object.tasks.ended
        by_people = by_people or bool(look.messages_of("clear_tasks"))
        if old in FINISHED and now.state is not old and not by_people and now.tries_cleared != now.try_number:
            yield f"{key} went from {old} to {now.state}: {now.reason}"


@prop(LEVEL)
def try_numbers_never_fall(look: Look) -> Found:
    """The number of a task's try never falls."""
    for key, (_, tries, *_), now in _tries(look):
        if now.try_number < tries:
            yield f"{key}: {now.try_number} after {tries}"


@prop(LEVEL)
def one_try_at_a_time(look: Look) -> Found:
    """Within one workflow task a task that has work to do begins at most one try, and one for each clear."""
    clears = len(look.messages_of("clear_tasks"))
    for key, (_, tries, *_), now in _tries(look):
        if now.try_number > tries + 1 + clears and not isinstance(look.state.spec.by_id[now.task_id], EmptyTask):
            yield f"{key}: {now.try_number} after {tries}"


@prop(LEVEL)
def tries_are_kept(look: Look) -> Found:
    """What a task's earlier tries came to is never forgotten."""
    for key, (_, _, kept, *_), now in _tries(look):
        if len(now.attempts) < kept:
            yield f"{key}: {len(now.attempts)} of {kept} tries are left"


@prop(LEVEL)
def tries_are_numbered_in_order(look: Look) -> Found:
    """The kept tries of a task have rising numbers, none above the present one."""
    for key, instance in look.state.instances.items():
        numbers = [attempt.try_number for attempt in instance.attempts]
        if numbers != sorted({*numbers}) or (numbers and numbers[-1] > instance.try_number):
            yield f"{key}: {numbers} of {instance.try_number}"


@prop(LEVEL)
def retries_are_bounded(look: Look) -> Found:
    """A task has at most one try more than `retries` since it was cleared, beside those that its cluster has ended."""
    for key, instance in look.state.instances.items():
        retries = look.state.spec.by_id[instance.task_id].retries
        if instance.tries_spent > retries + 1:
            yield f"{key}: try {instance.try_number}, cleared after {instance.tries_cleared}, retries {retries}"


@prop(LEVEL)
def a_final_failure_is_not_tried_again(look: Look) -> Found:
    """A try that has failed for good, as with a result that nobody can take, is not followed by another by itself."""
    for key, instance in look.state.instances.items():
        failure = instance.failure
        if instance.state is TaskState.UP_FOR_RETRY and failure is not None and not failure.retryable:
            yield f"{key}: {failure.error_type}"


@prop(LEVEL)
def a_retry_is_still_allowed(look: Look) -> Found:
    """A task is up_for_retry only while it has a try left."""
    for key, instance in look.state.instances.items():
        retries = look.state.spec.by_id[instance.task_id].retries
        if instance.state is TaskState.UP_FOR_RETRY and instance.tries_spent > retries:
            yield f"{key}: try {instance.try_number} of {retries + 1}"


@prop(LEVEL)
def a_failed_task_had_all_its_tries(look: Look) -> Found:
    """A task fails for good only after its last try, by an error that is not retried, or by a person."""
    for key, instance in look.state.instances.items():
        task = look.state.spec.by_id[instance.task_id]
        failure = instance.failure
        if instance.state is not TaskState.FAILED or failure is None or not failure.retryable:
            continue
        if (instance.reason or "").startswith(BY_PEOPLE) or look.object.tasks.ended is not None:
            continue
        if instance.attempts[-1].try_number == instance.try_number and instance.attempts[-1].state is TaskState.FAILED:
            special = task.no_retry_on or task.retry_only_on or task.kind == "approval"
            if instance.tries_spent <= task.retries and not special:
                yield f"{key}: failed in try {instance.try_number} of {task.retries + 1}"


@prop(LEVEL)
def cleared_tries_are_past_tries(look: Look) -> Found:
    """A task was cleared after no more tries than it has had."""
    for key, instance in look.state.instances.items():
        if instance.tries_cleared > instance.try_number:
            yield f"{key}: {instance.tries_cleared} of {instance.try_number}"


@prop(LEVEL)
def a_success_is_what_its_try_came_to(look: Look) -> Found:
    """A task that has succeeded by itself has a last try that has."""
    for key, instance in look.state.instances.items():
        by_people = (instance.reason or "").startswith(BY_PEOPLE)
        by_itself = instance.state is TaskState.SUCCESS and not by_people and look.object.tasks.ended is None
        if by_itself and (not instance.attempts or instance.attempts[-1].state is not TaskState.SUCCESS):
            yield f"{key}: {[str(attempt.state) for attempt in instance.attempts]}"


@prop(LEVEL)
def a_retry_has_its_time(look: Look) -> Found:
    """A task that is up_for_retry knows when its next try is."""
    for key, instance in look.state.instances.items():
        if instance.state is TaskState.UP_FOR_RETRY and instance.retry_at is None:
            yield key


@prop(LEVEL)
def a_wait_has_an_end(look: Look) -> Found:
    """A task that waits outside of a worker has an alarm, a trigger or a person that it waits for."""
    for key, instance in look.state.instances.items():
        if instance.state in WAITS and instance.wake_at is None and instance.deferral is None:
            yield f"{key} is {instance.state}"


@prop(LEVEL)
def only_waits_have_alarms(look: Look) -> Found:
    """No task that has ended, or has not begun, has an alarm set."""
    for key, instance in look.state.instances.items():
        if (instance.state in FINISHED or instance.state is TaskState.NONE) and instance.retry_at is not None:
            yield f"{key} is {instance.state} and has retry_at"


@prop(LEVEL)
def pokes_count_within_one_try(look: Look) -> Found:
    """A task that has ended, or that was cleared, has no pokes counted."""
    for key, instance in look.state.instances.items():
        if instance.state is TaskState.NONE and instance.pokes:
            yield f"{key}: {instance.pokes}"


# Limits


def _stopping(look: Look) -> set[str]:
    """Whose attempts are being stopped. In the last release the run's tasks knew it, now its engine does."""
    tasks = look.object.tasks
    return {*getattr(tasks, "engine", tasks)._stopping}


@prop(LEVEL)
def max_active_tasks_holds(look: Look) -> Found:
    """No more tasks of a run are queued or running than max_active_tasks; those that are being stopped may be more."""
    busy = sum(i.state in BUSY for i in look.state.instances.values())
    stopping = len(_stopping(look))
    if busy - stopping > look.state.spec.max_active_tasks:
        yield f"{busy} tasks, {stopping} of them being stopped"


@prop(LEVEL)
def max_active_tis_per_dagrun_holds(look: Look) -> Found:
    """No more instances of a task are active in a run than its own limit."""
    active = Counter(i.task_id for i in look.state.instances.values() if i.state in ACTIVE)
    for task in look.state.spec.tasks:
        limit = task.max_active_tis_per_dagrun
        if limit is not None and active[task.task_id] > limit + len(_stopping(look)):
            yield f"{task.task_id}: {active[task.task_id]} of {limit}"


@prop(LEVEL)
def a_paused_run_starts_nothing(look: Look) -> Found:
    """While its DAG is paused, no task of a run is queued; but for the teardowns of one that somebody has ended."""
    if look.before.get("paused") and look.state.is_paused:
        for key in _moved(look):
            tears_down = look.object.tasks.ended and look.state.spec.by_id[split_key(key)[0]].is_teardown
            if look.state.instances[key].state is TaskState.QUEUED and not tears_down:
                yield f"{key} was queued"


@prop(LEVEL)
def pooled_work_has_its_slots(look: Look) -> Found:
    """A task that a pool or a limit has to let in is queued or running only with all its slots granted."""
    for key, instance in look.state.instances.items():
        task = look.state.spec.by_id[instance.task_id]
        if instance.state in (TaskState.QUEUED, TaskState.RUNNING) and needs_lease(task, look.state.parallelism):
            held = look.state.leases.get(key)
            if held is None or held.granted < len(held.pools):
                yield f"{key} is {instance.state} with {held}"


@prop(LEVEL)
def slots_are_wanted(look: Look) -> Found:
    """No task that has ended, or waits for tasks upstream, holds slots or asks for them."""
    for key in look.state.leases:
        instance = look.state.instances.get(key)
        if instance is None or instance.state in FINISHED or instance.state is TaskState.NONE:
            yield f"{key} is {instance.state if instance is not None else 'gone'}"


@prop(LEVEL)
def pokes_hold_no_slots(look: Look) -> Found:
    """Between two pokes a task holds no slots."""
    for key in look.state.leases:
        instance = look.state.instances.get(key)
        if instance is not None and instance.state in (TaskState.UP_FOR_RESCHEDULE, TaskState.UP_FOR_RETRY):
            yield f"{key} is {instance.state}"


@prop(LEVEL)
def slots_that_nobody_takes_over_go_back(look: Look) -> Found:
    """After a workflow task, a run keeps no slots for a task that may want them."""
    if look.idle and (free := look.object.tasks.leases._free):
        yield f"{[held.lease_id for _, held in free]}"


@prop(LEVEL)
def requests_for_slots_are_told_apart(look: Look) -> Found:
    """No two requests for slots of one run have the same id."""
    ids = [held.lease_id for held in look.state.leases.values()]
    if len({*ids}) < len(ids):
        yield f"{sorted(ids)}"


@prop(LEVEL)
def requests_for_slots_are_counted(look: Look) -> Found:
    """A run never uses the number of a request for slots again."""
    if look.state.leases_made < look.before.get("leases_made", 0):
        yield f"{look.state.leases_made} after {look.before['leases_made']}"


@prop(LEVEL)
def slots_are_of_the_pools_of_the_task(look: Look) -> Found:
    """A task asks the pools that it names, its own limit and the installation's, in that order."""
    for key, held in look.state.leases.items():
        task = look.state.spec.by_id[split_key(key)[0]]
        wanted = tuple(pools_of(look.state.run.dag_id, task, look.state.parallelism))
        if held.pools != wanted:
            yield f"{key}: {held.pools} and not {wanted}"


@prop(LEVEL)
def grants_are_no_more_than_pools(look: Look) -> Found:
    """A task has been let in by no more pools than it has asked."""
    for key, held in look.state.leases.items():
        if not 0 <= held.granted <= len(held.pools):
            yield f"{key}: {held.granted} of {len(held.pools)}"


# The plan


@prop(LEVEL)
def the_plan_knows_the_states(look: Look) -> Found:
    """What the planner has recorded is how the tasks stand."""
    plan, states = look.object.tasks.plan.states, look.state.states
    for key in plan.keys() | states.keys():
        if plan.get(key) is not states.get(key):
            yield f"{key}: planned {plan.get(key)}, is {states.get(key)}"


@prop(LEVEL)
def the_plan_counts_the_states(look: Look) -> Found:
    """The planner's counts are those of the tasks' states."""
    counted = Counter(look.state.states.values())
    for state, n in look.object.tasks.plan.counts.items():
        if counted[state] != n:
            yield f"{state}: counted {n}, are {counted[state]}"


@prop(LEVEL)
def the_plan_counts_what_is_left(look: Look) -> Found:
    """The planner's number of unfinished tasks is true."""
    left = sum(not state.finished for state in look.state.states.values())
    if look.object.tasks.plan._unfinished != left:
        yield f"planned {look.object.tasks.plan._unfinished}, are {left}"


@prop(LEVEL)
def the_plan_counts_what_is_busy(look: Look) -> Found:
    """The planner's number of tasks that hold a worker is true."""
    busy = sum(state.holds_a_worker for state in look.state.states.values())
    if look.object.tasks.plan._ready.busy != busy:
        yield f"planned {look.object.tasks.plan._ready.busy}, are {busy}"


@prop(LEVEL)
def the_plan_knows_of_pauses(look: Look) -> Found:
    """The planner is paused as the run is."""
    if look.object.tasks.plan.paused != look.state.is_paused:
        yield f"planned {look.object.tasks.plan.paused}, is {look.state.is_paused}"


@prop(LEVEL)
def work_is_under_way_for_who_is_busy(look: Look) -> Found:
    """A task is queued, running or being stopped exactly as long as something is under way for it."""
    busy = {key for key, instance in look.state.instances.items() if instance.state in UNDER_WAY}
    if busy != {*look.object.tasks._attempts}:
        yield f"busy {sorted(busy)}, under way {sorted(look.object.tasks._attempts)}"


@prop(LEVEL)
def only_work_is_stopped(look: Look) -> Found:
    """Only what is under way is being stopped."""
    if stray := _stopping(look) - {*look.object.tasks._attempts}:
        yield f"{sorted(stray)}"


# Order


@prop(LEVEL)
def setups_come_before_their_work(look: Look) -> Found:
    """A task directly below a setup, with the rule all_success, starts only when the setup has succeeded."""
    spec, before = look.state.spec, look.before.get("instances", {})
    for key in _moved(look):
        instance = look.state.instances[key]
        task = spec.by_id[instance.task_id]
        strict = not task.is_teardown and task.trigger_rule is TriggerRule.ALL_SUCCESS
        if instance.state is TaskState.QUEUED and before[key][0] is TaskState.NONE and strict:
            for upstream in task.upstream:
                paired = spec.map_scopes.get(upstream, "") == spec.map_scopes.get(instance.task_id)
                states = {
                    i.state
                    for i in look.state.of_task(upstream)
                    if not paired or i.map_index in (instance.map_index, -1)
                }
                if spec.by_id[upstream].is_setup and states != {TaskState.SUCCESS}:
                    yield f"{key} was queued and {upstream} is {states}"


@prop(LEVEL)
def depends_on_past_holds(look: Look) -> Found:
    """A task that depends on the past starts only when the run before lets it, or as a teardown of a run that ends."""
    spec, before = look.state.spec, look.before.get("instances", {})
    past = look.state.past
    for key in _moved(look):
        instance = look.state.instances[key]
        task = spec.by_id[instance.task_id]
        started = before[key][0] is TaskState.NONE and instance.state in (TaskState.SCHEDULED, TaskState.QUEUED)
        tears_down = task.is_teardown and look.object.tasks.ended is not None
        if not started or not task.needs_past or past is None or tears_down:
            continue
        now, then = past.states.get(task.task_id), look.before["past"].get(task.task_id)
        good = (TaskState.SUCCESS, TaskState.SKIPPED)
        if now is not None and now not in good and then not in good:
            yield f"{key} is {instance.state}, the run before has it {now}"


@prop(LEVEL)
def removed_tasks_stay_out(look: Look) -> Found:
    """A task that is not for the date of its run never begins, unless a person has said so."""
    for key, (old, *_), now in _tries(look):
        by_people = (now.reason or "").startswith(BY_PEOPLE)
        # `none`: a clear of all tasks has been followed, and it is decided anew that the date is not its own.
        if old is TaskState.REMOVED and now.state not in (TaskState.REMOVED, TaskState.NONE) and not by_people:
            yield f"{key} is {now.state}"


@prop(LEVEL)
def skips_name_tasks_of_the_dag(look: Look) -> Found:
    """A branch skips tasks that there are."""
    for key, instance in look.state.instances.items():
        if stray := {*instance.skips} - {*look.state.spec.by_id}:
            yield f"{key}: {sorted(stray)}"


@prop(LEVEL)
def what_a_branch_skips_does_not_run(look: Look) -> Found:
    """A task that a branch or a short circuit has decided to skip is not started after it; in a mapped group, of its
    index."""
    before = look.before.get("instances", {})
    skipped = {
        (name, i.map_index) for i in look.state.instances.values() if i.state is TaskState.SUCCESS for name in i.skips
    }
    for key in _moved(look):
        instance = look.state.instances[key]
        started = before[key][0] is TaskState.NONE and instance.state in (TaskState.SCHEDULED, TaskState.QUEUED)
        if started and {(instance.task_id, UNMAPPED), (instance.task_id, instance.map_index)} & skipped:
            yield f"{key} is {instance.state}"


# Mapped tasks


@prop(LEVEL)
def map_indexes_have_no_gaps(look: Look) -> Found:
    """The instances of a mapped task are numbered from 0 without a gap, and the task itself is none of them."""
    indexes: dict[str, list[int]] = {}
    for instance in look.state.instances.values():
        indexes.setdefault(instance.task_id, []).append(instance.map_index)
    for task_id, found in indexes.items():
        if sorted(found) not in ([-1], [*range(len(found))]):
            yield f"{task_id}: {sorted(found)}"


@prop(LEVEL)
def instances_have_their_own_names(look: Look) -> Found:
    """An instance is known by its task_id and its map_index."""
    for key, instance in look.state.instances.items():
        if instance.key != key:
            yield f"{key} is {instance.key}"


@prop(LEVEL)
def every_task_has_an_instance(look: Look) -> Found:
    """Each task of the DAG has an instance, and each instance a task."""
    if {i.task_id for i in look.state.instances.values()} != {*look.state.spec.by_id}:
        yield f"{sorted({i.task_id for i in look.state.instances.values()} ^ {*look.state.spec.by_id})}"


# Facts


@prop(LEVEL)
def results_have_room(look: Look) -> Found:
    """The results of a run's tasks together stay below what travels through continue-as-new."""
    size = sum(len(json.dumps(i.xcom, default=str)) for i in look.state.instances.values() if i.xcom)
    if size > RESULTS_LIMIT:
        yield f"{size} bytes"


@prop(LEVEL)
def times_are_in_order(look: Look) -> Found:
    """No time of a task that the workflow takes itself is in the future, and none ends before it was queued."""
    for key, instance in look.state.instances.items():
        for name in ("queued_at", "ended_at"):
            value = getattr(instance, name)
            if value is not None and value > look.now + ROUNDING:
                yield f"{key}: {name} is {value}"
        if instance.queued_at is not None and instance.ended_at is not None and instance.ended_at < instance.queued_at:
            yield f"{key}: ended at {instance.ended_at}, queued at {instance.queued_at}"


@prop(LEVEL)
def the_start_of_a_run_stays(look: Look) -> Found:
    """The time at which a run has begun never changes."""
    before = look.before.get("started_at")
    if before is not None and look.state.started_at != before:
        yield f"{look.state.started_at} after {before}"


@prop(LEVEL)
def a_run_stays_the_same_run(look: Look) -> Found:
    """A run never takes another id, date or DAG."""
    run = look.state.run
    if look.before and look.before["run"] != (run.dag_id, run.run_id, run.logical_date):
        yield f"{look.before['run']} is {run.run_id}"


@prop(LEVEL)
def a_run_keeps_its_version(look: Look) -> Found:
    """A run goes on with the version of its DAG that it began with, unless a person has it take the newest."""
    if look.before and look.before["version"] != look.state.spec.version:
        yield f"{look.state.spec.version} after {look.before['version']}"


@prop(LEVEL)
def notices_are_counted_on(look: Look) -> Found:
    """The number of a run's notices never falls, so that each can be told from the others."""
    if look.before and look.state.notices < look.before["notices"]:
        yield f"{look.state.notices} after {look.before['notices']}"


@prop(LEVEL)
def a_miss_is_told_once(look: Look) -> Found:
    """A missed deadline or sla is told once."""
    if len({*look.state.missed}) < len(look.state.missed):
        yield f"{look.state.missed}"


@prop(LEVEL)
def news_are_heard_in_order(look: Look) -> Found:
    """A run follows no message of its DAG that is older than one that it has followed."""
    if look.before and look.state.last_update < look.before["news"]:
        yield f"{look.state.last_update} after {look.before['news']}"


@prop(LEVEL)
def whoever_waits_has_a_reason(look: Look) -> Found:
    """For each task that has not ended there is a reason, in words."""
    if look.closed is None and look.object._ready:
        for key, instance in look.state.instances.items():
            if instance.state not in FINISHED and not look.object.tasks.why(instance):
                yield f"{key} is {instance.state}"


@prop(LEVEL)
def reasons_are_true(look: Look) -> Found:
    """Who is said to wait for slots, a limit, a pause or a time does."""
    if look.closed is not None or not look.object._ready:
        return
    tasks = look.object.tasks
    for key, instance in look.state.instances.items():
        if instance.state is not TaskState.SCHEDULED:
            continue
        why = tasks.why(instance)
        if why.startswith("max_active_tasks") and tasks.plan._ready.busy < look.state.spec.max_active_tasks:
            held = look.holding or look.state.is_paused or tasks.ended is not None
            if not held:
                yield f"{key}: {why}"
        if "slots of pool" in why and look.state.spec.by_id[instance.task_id].pool is None:
            yield f"{key}: {why}"


# The end


@prop(LEVEL)
def a_run_ends_when_its_tasks_have(look: Look) -> Found:
    """A run that closes leaves no task behind that has not ended."""
    end = look.object.tasks.ended
    deadlock = end is not None and end.reason.startswith("deadlock")
    if look.closed in ("Completed", "Failed") and not deadlock:
        for key, instance in look.state.instances.items():
            if instance.state not in FINISHED:
                yield f"{key} is {instance.state}"


@prop(LEVEL)
def a_run_leaves_nothing_under_way(look: Look) -> Found:
    """A run that closes, or goes on as new, has no work under way."""
    if look.closed is not None and look.object.tasks._attempts:
        yield f"{sorted(look.object.tasks._attempts)}"


@prop(LEVEL)
def a_run_leaves_no_slots(look: Look) -> Found:
    """A run that closes holds no slots and asks for none."""
    if look.closed in ("Completed", "Failed") and look.state.leases:
        yield f"{look.state.leases}"


@prop(LEVEL)
def a_run_leaves_no_message(look: Look) -> Found:
    """A run that closes, or goes on as new, has nothing on its way to pools, assets, its DAG or people."""
    if look.closed is None:
        return
    # What comes in one workflow task behind the step in which it goes on as new is done again by the next execution.
    comes_behind = {"fire_timer", "resolve_activity"} & {job.WhichOneof("variant") for job in look.jobs}
    if look.closed == "ContinuedAsNew" and comes_behind:
        return
    tasks = look.object.tasks
    waiting = [*look.object._messages, *tasks.notices._sending, *tasks.assets._telling]
    if waiting or tasks.leases._messages._telling:
        yield f"{len(waiting)} messages, {sorted(tasks.leases._messages._telling)}"


@prop(LEVEL)
def a_run_s_state_is_that_of_its_last_tasks(look: Look) -> Found:
    """A run that ends by itself has failed if one of its last tasks has or none can begin, and has succeeded else."""
    end = look.object.tasks.ended
    plan_end = look.object.tasks.plan.end()
    if look.closed not in ("Completed", "Failed") or end is None or plan_end is None or end.reason != plan_end.reason:
        return
    tasks = look.state.spec.tasks

    def counts(task: Any) -> bool:
        return not task.is_teardown or task.on_failure_fail_dagrun

    last = [t for t in tasks if counts(t) and not any(counts(d) and t.task_id in d.upstream for d in tasks)]
    bad = any(i.state in FAILURES for t in last for i in look.state.of_task(t.task_id))
    # As Airflow's deadlock: a rule that neither lets a task begin nor skips it, where one upstream is removed.
    bad = bad or any(not i.state.finished for i in look.state.instances.values())
    if last and (end.state is RunState.FAILED) != bad:
        yield f"it is {end.state}: {end.reason}"


@prop(LEVEL)
def the_memo_shows_the_run(look: Look) -> Found:
    """The view in the memo is the run as it is, unless it is being held back for a moment."""
    workflow = look.object
    if look.memo is None or workflow._memo.held_back_until is not None or not workflow._ready or look.closed:
        return
    row = run_row(look.state, workflow.tasks.plan.counts, None, look.now)
    shown = row.model_dump(mode="json", exclude_defaults=True)
    if workflow._memo._shown == row and not is_line(look.memo, shown, NEW_OF_RUNS, ("started_at",)):
        yield f"it shows {look.memo} and is {shown}"
