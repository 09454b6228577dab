"""Each message that a workflow has been told has its effect by the end of that workflow task, and nothing changes
without one: what a person has set stays until somebody changes it, and whoever asked is not forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.model.asset.gathering import Gathering
from tidemill.model.names import LIMIT
from tidemill.model.run.identity import RunIdentity, run_key
from tidemill.model.run.instance_keys import split_key
from tidemill.model.spec.assets.condition import assets_in
from tidemill.model.spec.timetables import waited_for
from tidemill.model.states import RunState, TaskState

from .catalogue import Found, Look, prop

RUN, DAG, POOL, ASSET = "DagRun", "Dag", "Pool", "Asset"


def _together(messages: Iterable[Any]) -> list[Any]:
    """The parts of messages that carry lists, in order."""
    return [one for message in messages for one in message or ()]


def _answers(look: Look) -> bool:
    """Whether an activity or another workflow has answered in this workflow task."""
    kinds = ("resolve_activity", "resolve_signal_external_workflow", "resolve_child_workflow_execution_start")
    return any(job.HasField(kind) for job in look.jobs for kind in kinds)


# Runs


@prop(RUN)
def what_a_pool_grants_is_taken(look: Look) -> Found:
    """A grant counts at once: the task has the slots of that pool, or wants none any more."""
    by_id = {held.lease_id: held for held in look.state.leases.values()}
    for answer in look.messages_of("granted"):
        for lease_id in answer["lease_ids"]:
            held = by_id.get(lease_id)
            known = lease_id in look.before.get("leases", ())
            if known and held is not None and answer["pool"] not in held.pools[: held.granted]:
                yield f"{lease_id} of {answer['pool']}: {held}"


@prop(RUN)
def news_of_the_dag_are_followed(look: Look) -> Found:
    """The newest message of its DAG says whether a run is paused, and how the run before it stands."""
    if not look.before or look.before.get("resumes"):
        return
    news = [update for update in look.messages_of("news") if update["number"] > look.before["news"]]
    if not news:
        if look.state.is_paused != look.before["paused"]:
            yield f"it is {'' if look.state.is_paused else 'not '}paused, and nobody said so"
        return
    known = look.state.past
    last = max(news, key=lambda update: update["number"])
    whole = [u for u in news if not u.get("is_delta")]
    if whole or any((u.get("past") or {}).get("run_id") == getattr(known, "run_id", None) for u in news):
        newest = max(whole or news, key=lambda update: update["number"])
        if newest is last and look.state.is_paused != last["is_paused"]:
            yield f"it is {'' if look.state.is_paused else 'not '}paused, and was told {last['is_paused']}"
    past = last.get("past")
    if past is None or (last.get("is_delta") and (known is None or known.run_id != past["run_id"])):
        return
    if known is None or known.run_id != past["run_id"]:
        yield f"it looks back at {known}, and was told of {past['run_id']}"
        return
    for task_id, state in past["states"].items():
        if known.states.get(task_id) != state:
            yield f"{task_id} of {past['run_id']} is {state}, and is held to be {known.states.get(task_id)}"


@prop(RUN)
def marks_of_tasks_are_followed(look: Look) -> Found:
    """A task that a person marks has that state at once, or when its attempt has been stopped."""
    changes = look.messages_of("set_task_state", "clear_tasks", "set_state")
    marks = look.messages_of("set_task_state")
    if len(changes) != 1 or not marks or look.closed is not None:
        return
    stopping = look.object.tasks.engine._stopping
    for key, instance in look.state.instances.items():
        if {key, split_key(key)[0]} & {*marks[0]["tasks"]}:
            state = stopping.get(key, instance.state)
            if state != marks[0]["state"]:
                yield f"{key} is {state}, and was marked {marks[0]['state']}"


@prop(RUN)
def clears_of_tasks_are_followed(look: Look) -> Found:
    """A task that a person clears begins anew, also one that is under way."""
    changes = look.messages_of("set_task_state", "clear_tasks", "set_state")
    clears = look.messages_of("clear_tasks")
    if len(changes) != 1 or not clears or look.closed is not None or clears[0].get("only_failed"):
        return
    stopping = look.object.tasks.engine._stopping
    wanted = {*clears[0].get("tasks", ())}
    for key, instance in look.state.instances.items():
        before = look.before.get("instances", {}).get(key)
        if before is None or (wanted and not {key, split_key(key)[0]} & wanted) or instance.state is TaskState.REMOVED:
            continue
        waits = before[0] in (TaskState.NONE, TaskState.SCHEDULED, TaskState.REMOVED) and before[1] == 0
        again = stopping.get(key) is TaskState.NONE or instance.tries_cleared >= before[1]
        if not waits and not again:
            yield f"{key} is {instance.state}, cleared after {instance.tries_cleared} of {before[1]} tries"


@prop(RUN)
def marks_of_runs_are_followed(look: Look) -> Found:
    """A run that a person marks ends as it is marked."""
    marks = look.messages_of("set_state")
    end = look.object.tasks.ended
    alone = len(look.messages_of("set_task_state", "clear_tasks", "set_state")) == 1 and bool(marks)
    if alone and (end is None or end.state != marks[0]["state"]):
        yield f"it ends as {end}, and was marked {marks[0]['state']}"


@prop(RUN)
def answers_of_people_are_taken(look: Look) -> Found:
    """A task that was answered waits for no answer any more."""
    for answer in look.messages_of("respond"):
        instance = look.state.instances.get(answer["task"])
        if instance is not None and instance.state is TaskState.AWAITING_INPUT and instance.response is None:
            yield answer["task"]


# DAGs


@prop(DAG)
def a_pause_is_what_was_said_last(look: Look) -> Found:
    """A DAG is paused, or not, as was said last; by itself it only pauses after too many failures."""
    if not look.before:
        return
    said = [name for name, _ in look.messages if name in ("pause", "unpause")]
    expected = said[-1] == "pause" if said else look.before["paused"]
    may_pause = look.state.spec.max_consecutive_failed_dag_runs and not look.before["paused"]
    if look.state.is_paused and not expected and may_pause:
        return  # `too_many_failures_pause` says when; a run that has failed may be run again in the same moment
    if look.state.is_paused != expected:
        yield f"it is {'' if look.state.is_paused else 'not '}paused; messages: {said}"


def _has_failed_too_often(look: Look) -> bool:
    limit = look.state.spec.max_consecutive_failed_dag_runs
    last = sorted(look.state.ledger, key=lambda record: record.run_after)[-limit:] if limit else []
    return bool(limit) and len(last) == limit and all(record.state is RunState.FAILED for record in last)


@prop(DAG)
def too_many_failures_pause(look: Look) -> Found:
    """When as many runs in a row have failed as max_consecutive_failed_dag_runs says, the DAG is paused."""
    limit = look.state.spec.max_consecutive_failed_dag_runs
    new = [r for r in look.state.ledger if r.run_id not in look.before.get("ledger", {}) and r.state is RunState.FAILED]
    unpaused = look.messages_of("unpause") or any(name == "unpause" for name, _ in look.messages)
    if look.before and limit and new and not look.state.is_paused and not unpaused and _has_failed_too_often(look):
        yield f"the last {limit} runs have failed, the last of them {new[-1].run_id}"


@prop(DAG)
def the_end_of_a_run_is_heard(look: Look) -> Found:
    """A run that has told of its end is over at once, with the state and the times that it has told."""
    if not look.before or any(name in ("revise_run", "delete_run") for name, _ in look.messages):
        return
    for report in look.messages_of("run_finished"):
        before = look.before["runs"].get(report["key"])
        now = look.state.runs.get(report["key"])
        if before is not RunState.RUNNING or (now is not None and now.again):
            continue
        if now is not None:
            yield f"{report['key']} is {now.state}, and has told of its end"
            continue
        records = [r for r in look.state.ledger if r.run_id == look.before["ids"][report["key"]]]
        if len(records) != 1 or records[0].state != report["state"] or records[0].reason != report["reason"]:
            yield f"{report['key']} has ended as {report['state']}, the list has {records}"


@prop(DAG)
def the_ends_of_tasks_are_heard(look: Look) -> Found:
    """What a run tells of its tasks is what the next run looks back at.

    A DAG that was reset to before it knew of the run hears of them again at the run's end.
    """
    told: dict[str, dict[str, str]] = {}
    over = {report["key"] for report in look.messages_of("run_finished")}
    for message in look.messages_of("tasks_ended"):
        told.setdefault(message["key"], {}).update(message["states"])
    for key, states in told.items():
        tracked = look.state.runs.get(key)
        by_people = any(name in ("revise_run", "delete_run") for name, _ in look.messages)
        if tracked is not None and key in look.before.get("runs", ()) and key not in over and not by_people:
            for task_id, state in states.items():
                if tracked.past.get(task_id) != state:
                    yield f"{key}: {task_id} is {state}, and is held to be {tracked.past.get(task_id)}"


@prop(DAG)
def no_run_is_lost(look: Look) -> Found:
    """A run that is not under way any more is among those that have ended, was deleted, or was of a backfill that
    found that it had run."""
    if not look.before:
        return
    ended = {record.run_id for record in look.state.ledger}
    under_way = {tracked.run.run_id for tracked in look.state.runs.values()}
    skipped = sum(b.skipped for b in look.state.backfills) > look.before["skipped"]
    deleted = [name for name, _ in look.messages if name == "delete_run"]
    keys = {run_key(record.logical_date, record.run_id) for record in look.state.ledger}  # it may have another's name
    for key in look.before["runs"].keys() - look.state.runs.keys() - keys:
        run_id = look.before["ids"][key]
        if run_id not in ended | under_way and not deleted and not skipped and len(look.state.ledger) < 500:
            yield f"{run_id} was {look.before['runs'][key]}"
    for run_id in look.before["ledger"].keys() - ended - under_way:
        if not deleted and len(look.state.ledger) < 500:
            yield f"{run_id} had ended"


@prop(DAG)
def what_is_said_of_a_file_counts(look: Look) -> Found:
    """A DAG is stale, or broken by its file, as its bundle has said last."""
    said = look.messages_of("file_state")
    registered = any(name == "register" for name, _ in look.messages)
    if not look.before or registered or (said and said[-1].get("bundle")):
        return
    now = (look.state.file.is_stale, look.state.file.import_error)
    expected = (said[-1].get("is_stale", False), said[-1].get("import_error")) if said else look.before["file"]
    if now != expected:
        yield f"it is {now}, and was said to be {expected}"


@prop(DAG)
def a_deleted_run_is_gone(look: Look) -> Found:
    """A run that somebody has deleted is in no list any more, until another of its date is made."""
    for run_id in look.messages_of("delete_run"):
        if any(record.run_id == run_id for record in look.state.ledger):
            yield f"{run_id} is among those that have ended"
        if run_id in look.state.dates.values():
            yield f"{run_id} holds its date"


@prop(DAG)
def a_backfill_is_held_back_by_people_alone(look: Look) -> Found:
    """A backfill is paused, or cancelled, only when somebody has said so, and until somebody says otherwise."""
    said: dict[str, list[str]] = {}
    for name, backfill_id in look.messages:
        if name in ("pause_backfill", "unpause_backfill", "cancel_backfill"):
            said.setdefault(backfill_id, []).append(name)
    for backfill in look.state.backfills:
        before = look.before.get("backfills", {}).get(backfill.backfill_id)
        if before is None or backfill.error is not None:
            continue
        mine = said.get(backfill.backfill_id, [])
        paused = next((name == "pause_backfill" for name in reversed(mine) if name != "cancel_backfill"), before[0])
        cancelled = before[1] or "cancel_backfill" in mine
        if (backfill.is_paused, backfill.cancelled) != (paused, cancelled):
            yield f"{backfill.backfill_id}: paused {backfill.is_paused}, cancelled {backfill.cancelled}; {mine}"


@prop(DAG)
def a_backfill_counts_each_end(look: Look) -> Found:
    """Each run of a backfill that has ended counts once, as what it has come to, until somebody revises it."""
    if not look.before:
        return
    states = {record.run_id: record.state for record in look.state.ledger}
    for backfill in look.state.backfills:
        before = look.before["backfills"].get(backfill.backfill_id)
        if before is None:
            continue
        mine = [key for key, of in look.before["of_backfill"].items() if of == backfill.backfill_id]
        ended = [states.get(look.before["ids"][key]) for key in mine if key not in look.state.runs]
        found = (backfill.succeeded - before[2], backfill.failed - before[3])
        again = [
            tracked.revision.ended_as
            for key, tracked in look.state.runs.items()
            if tracked.backfill_id == backfill.backfill_id and tracked.revision is not None and key not in mine
        ]
        wanted = tuple(ended.count(state) - again.count(state) for state in (RunState.SUCCESS, RunState.FAILED))
        if found != wanted and None not in ended:
            yield f"{backfill.backfill_id}: {found} more have succeeded and failed, and not {wanted}"


@prop(DAG)
def events_of_assets_are_heard(look: Look) -> Found:
    """An event of an asset that a DAG waits for is kept for its next run, or taken by one that is made at once."""
    condition = waited_for(look.state.spec.schedule)
    gathering: Gathering | None = look.state.gathering
    if condition is None or gathering is None or look.state.spec.schedule.kind == "partitioned_asset":
        return
    named = {asset.name for asset in assets_in(condition)}
    known = {one.event.cause for one in gathering.heard} | {*gathering.taken}
    known |= {event.cause for tracked in look.state.runs.values() for event in tracked.run.asset_events}
    rows = {row.name for row in gathering.rows}
    made = not look.before or {*look.state.runs} - {*look.before["runs"]}  # unknown after a reset
    for delivery in look.messages_of("asset_events"):
        for event in delivery["events"]:
            if event["name"] not in named:
                continue
            if event["cause"] not in known and not gathering.dropped:
                yield f"{event['cause']} of {event['name']} is forgotten"
            counts = not delivery.get("history") and event.get("partition_key") is None
            held = look.state.is_paused and look.state.spec.asset_backlog == "airflow"
            waits = any(one.event.cause == event["cause"] for one in gathering.heard) and not _was_known(look, event)
            if counts and not held and waits and event["name"] not in rows and not made:
                yield f"{event['name']} does not count as there, after {event['cause']}"


def _was_known(look: Look, event: dict[str, Any]) -> bool:
    return event["cause"] in look.before.get("heard", ()) or any(n == "unqueue" for n, _ in look.messages)


@prop(DAG)
def what_is_taken_is_in_a_run(look: Look) -> Found:
    """Events that are taken from what a DAG has gathered are those of a run that is made of them."""
    gathering = look.state.gathering
    if not look.before or gathering is None:
        return
    of_runs = {event.cause for tracked in look.state.runs.values() for event in tracked.run.asset_events}
    for cause in {*gathering.taken} - {*look.before["taken"]}:
        if cause not in of_runs:
            yield cause
    gone = {*look.before["heard"]} - {one.event.cause for one in gathering.heard} - {*gathering.taken}
    if gone and not gathering.dropped and not any(name == "register" for name, _ in look.messages):
        made = [t.run for t in look.state.runs.values() if t.run.key not in look.before["runs"]]
        if not any(run.asset_events or _was_away(run, gathering) for run in made):
            yield f"{sorted(gone)} were forgotten"


def _was_away(run: RunIdentity, gathering: Gathering) -> bool:
    """Whether its file came back after what made *run* due: then it lists no event of before, as in Airflow."""
    return all(reference.since > run.run_after for reference in gathering.references)


# Pools


@prop(POOL)
def who_asks_a_pool_is_known(look: Look) -> Found:
    """Whoever has asked a pool has slots, waits for them, or has given them back."""
    if not look.before or look.closed is not None:
        return
    given_back = {*_together(look.messages_of("give_back"))} | {*look.before["returned"]}
    for request in _together(look.messages_of("ask")):
        lease_id = request["lease_id"]
        known = look.state.held.keys() | look.state.waiting.keys() | given_back
        if lease_id not in known and not _answers(look):
            yield f"{lease_id} is forgotten"


@prop(POOL)
def who_waits_is_not_forgotten(look: Look) -> Found:
    """Whoever waits for slots gets them or gives up; whoever has them gives them back, or is gone."""
    if not look.before or _answers(look):
        return
    given_back = {*_together(look.messages_of("give_back"))}
    now = look.state.held.keys() | look.state.waiting.keys()
    yield from (look.before["held"].keys() | look.before["waiting"]) - now - given_back


@prop(POOL)
def what_is_given_back_is_free(look: Look) -> Found:
    """Slots that are given back are held by nobody, unless they are asked for again."""
    asked = {request["lease_id"] for request in _together(look.messages_of("ask"))}
    for lease_id in {*_together(look.messages_of("give_back"))} - asked:
        if lease_id in look.state.held or lease_id in look.state.waiting:
            yield lease_id


@prop(POOL)
def parked_slots_are_parked(look: Look) -> Found:
    """A task that waits outside of a worker is known to its pools as one that does."""
    asked = {request["lease_id"] for request in _together(look.messages_of("ask"))}
    for lease_id in {*_together(look.messages_of("park"))} - asked:
        lease = look.state.held.get(lease_id)
        if lease is not None and not lease.parked:
            yield lease_id


@prop(POOL)
def the_size_of_a_pool_is_what_was_set(look: Look) -> Found:
    """A pool has as many slots as was set last; a limit follows its DAG."""
    said = look.messages_of("set")
    expected = said[-1]["slots"] if said else look.before.get("slots", look.state.settings.slots)
    if not look.state.name.startswith(LIMIT) and look.state.settings.slots != expected:
        yield f"{look.state.settings.slots}, and was set to {expected}"


# Assets


@prop(ASSET)
def what_is_told_is_kept(look: Look) -> Found:
    """Each event that an asset is told of is among its events; told twice it is one."""
    causes = {event.cause for event in look.state.events}
    told = [report["cause"] for report in look.messages_of("tell", "emit") if report]
    for cause in told:
        if cause not in causes and len(look.state.events) < 90 and look.state.numbered < 100:
            yield cause
    if look.before and look.state.numbered - look.before["numbered"] > len({*told}):
        yield f"{look.state.numbered - look.before['numbered']} new events, {len({*told})} were told"


@prop(ASSET)
def new_events_wait_for_each_consumer(look: Look) -> Found:
    """A new event waits to be told to each DAG that waits for the asset, or is held while the asset is paused."""
    if not look.before or look.state.numbered >= 90:
        return
    ties = any(name in ("tie", "pause", "unpause") for name, _ in look.messages)
    new = [event for event in look.state.events if event.cause not in look.before["causes"]]
    held = {event.cause for event in look.state.held}
    for event in new if not ties and not _answers(look) else ():
        if look.state.is_paused:
            if event.cause not in held:
                yield f"{event.cause} is not held"
            continue
        for dag_id, tie in look.state.ties.items():
            waiting = {one.cause for one in look.state.outbox.get(dag_id, ())}
            if tie.consumes and event.cause not in waiting:
                yield f"{event.cause} does not wait for {dag_id}"


@prop(ASSET)
def held_events_are_told_at_the_unpause(look: Look) -> Found:
    """What was held while an asset was paused waits for its DAGs as soon as it is not."""
    names = [name for name, _ in look.messages if name in ("pause", "unpause", "tie")]
    if not look.before or names != ["unpause"] or _answers(look):
        return
    for cause in look.before["held"]:
        for dag_id in look.state.consumers:
            if cause not in {one.cause for one in look.state.outbox.get(dag_id, ())}:
                yield f"{cause} does not wait for {dag_id}"


@prop(ASSET)
def an_asset_is_paused_as_was_said(look: Look) -> Found:
    """An asset is paused, or not, as was said last."""
    said = [name for name, _ in look.messages if name in ("pause", "unpause")]
    expected = said[-1] == "pause" if said else look.before.get("paused", look.state.is_paused)
    if look.state.is_paused != expected:
        yield f"it is {'' if look.state.is_paused else 'not '}paused; messages: {said}"


@prop(ASSET)
def whoever_ties_is_known(look: Look) -> Found:
    """A DAG that says that it waits for an asset, or writes it, is known to; one that says neither is not."""
    last = {tie["dag_id"]: tie for tie in look.messages_of("tie") if tie}
    for dag_id, tie in last.items():
        known = look.state.ties.get(dag_id)
        wanted = bool(tie.get("consumes") or tie.get("produced_by"))
        if wanted != (known is not None) and not _answers(look):
            yield f"{dag_id}: {tie}, and is held to be {known}"
        elif known is not None and known.consumes != bool(tie.get("consumes")):
            yield f"{dag_id}: consumes {tie.get('consumes')}, and is held to: {known.consumes}"
