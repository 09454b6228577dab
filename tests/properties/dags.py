"""What holds of a DAG after each of its workflow tasks."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from tidemill.model.dag.data import DATES_KEPT, DECISIONS_KEPT
from tidemill.model.dag.state import LEDGER_LENGTH, MAX_DELETED, MAX_RUNNING, DagState
from tidemill.model.dag.views import dag_row, run_views
from tidemill.model.run.identity import RunType
from tidemill.model.spec.timetables import waited_for
from tidemill.model.states import RunState

from .catalogue import Found, Look, prop
from .lines import NEW_OF_DAGS, is_line, without_newest_run

LEVEL = "Dag"
ROUNDING = timedelta(milliseconds=1)


def picture(workflow: Any) -> dict[str, Any]:
    """What the next look compares with."""
    state = workflow.state
    return {
        "runs": {key: tracked.state for key, tracked in state.runs.items()},
        "ids": {key: tracked.run.run_id for key, tracked in state.runs.items()},
        "of_backfill": {key: tracked.backfill_id for key, tracked in state.runs.items() if tracked.backfill_id},
        "ledger": {record.run_id: record.state for record in state.ledger},
        "last": state.last_automated_interval,
        "held_up": state.held_up,
        "paused": state.is_paused,
        "news": state.last_update,
        "executions": state.executions,
        "backfills_made": state.backfills_made,
        "limit": state.spec.max_active_runs,
        "taken": [*state.gathering.taken] if state.gathering is not None else [],
        "rows": [row.name for row in state.gathering.rows] if state.gathering is not None else [],
        "heard": [one.event.cause for one in state.gathering.heard] if state.gathering is not None else [],
        "heard_names": [one.event.name for one in state.gathering.heard] if state.gathering is not None else [],
        "file": (state.file.is_stale, state.file.import_error),
        "skipped": sum(backfill.skipped for backfill in state.backfills),
        "backfills": {b.backfill_id: (b.is_paused, b.cancelled, b.succeeded, b.failed) for b in state.backfills},
    }


def _new(look: Look) -> Any:
    before = look.before.get("runs")
    for key, tracked in look.state.runs.items():
        if before is not None and key not in before:
            yield tracked


def _started(look: Look) -> Any:
    before = look.before.get("runs")
    for key, tracked in look.state.runs.items():
        if before is not None and tracked.state is RunState.RUNNING and before.get(key) is not RunState.RUNNING:
            yield tracked


def _can_work(look: Look) -> bool:
    """Whether the DAG had reason to leave something undone."""
    state, wakes_at = look.state, look.object._alarm._due
    if wakes_at is not None and wakes_at <= look.now:  # its timer has yet to be told
        return False
    return look.idle and not look.holding and state.held_up is None and state.broken is None


# Which runs there are


@prop(LEVEL)
def runs_are_known_by_their_keys(look: Look) -> Found:
    """Each run is kept by its logical date, or by its run_id where it has none."""
    for key, tracked in look.state.runs.items():
        if tracked.run.key != key:
            yield f"{key} is {tracked.run.key}"


@prop(LEVEL)
def run_ids_are_unique(look: Look) -> Found:
    """No two runs under way have the same run_id."""
    ids = Counter(tracked.run.run_id for tracked in look.state.runs.values())
    for run_id, n in ids.items():
        if n > 1:
            yield f"{run_id}: {n}"


@prop(LEVEL)
def a_date_has_one_run(look: Look) -> Found:
    """No two runs, under way or ended, have one logical date."""
    known = {record.run_id: record.logical_date for record in look.state.ledger}
    known |= {tracked.run.run_id: tracked.run.logical_date for tracked in look.state.runs.values()}
    for date, n in Counter(known.values()).items():
        if n > 1 and date is not None:
            yield f"{date}: {n}"


@prop(LEVEL)
def a_run_is_under_way_or_over(look: Look) -> Found:
    """No run is listed both as under way and among those that have ended."""
    for run_id, n in Counter(view.run_id for view in run_views(look.state, lambda *_: "")).items():
        if n > 1:
            yield run_id


@prop(LEVEL)
def ended_runs_are_listed_once(look: Look) -> Found:
    """The list of ended runs has each once."""
    ids = Counter(record.run_id for record in look.state.ledger)
    for run_id, n in ids.items():
        if n > 1:
            yield f"{run_id}: {n}"


@prop(LEVEL)
def runs_are_of_their_dag(look: Look) -> Found:
    """A DAG has no runs of another."""
    for tracked in look.state.runs.values():
        if tracked.run.dag_id != look.state.spec.dag_id:
            yield f"{tracked.run.dag_id}"


@prop(LEVEL)
def runs_out_of_order_keep_their_date(look: Look) -> Found:
    """A run that the timetable has not made holds its date against others."""
    for tracked in _new(look):
        asked_for = tracked.run.run_type is not RunType.SCHEDULED and not tracked.again and not tracked.backfill_id
        if asked_for and look.state.dates.get(tracked.run.key) != tracked.run.run_id:
            yield tracked.run.run_id


# When they are made


@prop(LEVEL)
def no_run_is_made_early(look: Look) -> Found:
    """A scheduled run is made when it is due, and not before."""
    for tracked in _new(look):
        if tracked.run.run_type is RunType.SCHEDULED and tracked.run.run_after > look.now + ROUNDING:
            yield f"{tracked.run.run_id} for {tracked.run.run_after}"


@prop(LEVEL)
def no_run_starts_early(look: Look) -> Found:
    """A run starts when its run_after and its logical date have come."""
    for tracked in _started(look):
        if look.state.not_before(tracked.run) > look.now + ROUNDING:
            yield f"{tracked.run.run_id} for {look.state.not_before(tracked.run)}"


@prop(LEVEL)
def the_schedule_goes_forward(look: Look) -> Found:
    """The interval of the last scheduled run never goes back."""
    before, now = look.before.get("last"), look.state.last_automated_interval
    if before is not None and (now is None or now.start < before.start):
        yield f"{now} after {before}"


@prop(LEVEL)
def planned_runs_are_in_order(look: Look) -> Found:
    """The coming runs are in order, each once."""
    times = [info.run_after for info in look.state.ticks]
    if times != sorted(times):
        yield f"{times[:5]}"


@prop(LEVEL)
def what_is_held_up_makes_no_scheduled_runs(look: Look) -> Found:
    """A DAG that is paused, stale or broken makes no runs of its schedule."""
    if look.before.get("held_up") and look.state.held_up:
        for tracked in _new(look):
            if tracked.run.run_type in (RunType.SCHEDULED, RunType.ASSET_TRIGGERED) and not tracked.again:
                yield tracked.run.run_id


@prop(LEVEL)
def what_is_held_up_starts_no_runs(look: Look) -> Found:
    """A DAG that is paused, stale or broken starts no runs, but for marks of people."""
    if look.before.get("held_up") and look.state.held_up:
        for tracked in _started(look):
            if tracked.revision is None:
                yield tracked.run.run_id


@prop(LEVEL)
def due_runs_are_made(look: Look) -> Found:
    """After a workflow task, no run is due that there is room for."""
    state = look.state
    if _can_work(look) and state.ticks and state.made_at(state.ticks[0]) <= look.now and state.room(look.now):
        yield f"{state.ticks[0].run_after}"


@prop(LEVEL)
def a_plan_is_made(look: Look) -> Found:
    """A DAG whose timetable may have another run knows its next one, or waits for room to ask."""
    state = look.state
    asked = state.spec.schedule.answers_by_moment or state.ticks_ended
    if _can_work(look) and not state.ticks and not asked and state.question(look.now) is not None:
        yield "there is no next run, and nobody is asked"


@prop(LEVEL)
def due_asset_runs_are_made(look: Look) -> Found:
    """After a workflow task, no run of assets is due that there is room for."""
    state = look.state
    condition = waited_for(state.spec.schedule)
    gathers = condition is not None and state.spec.schedule.kind != "partitioned_asset"
    due = gathers and state.gathering is not None and state.gathering.is_due(condition)
    if _can_work(look) and due and state.room(look.now):
        yield f"{[row.name for row in state.gathering.rows]}"


@prop(LEVEL)
def runs_that_may_start_do(look: Look) -> Found:
    """After a workflow task, no queued run waits that may start."""
    state = look.state
    if _can_work(look) and state.running < MAX_RUNNING:
        for tracked in state.startable(look.now):
            yield f"{tracked.run.run_id}"


@prop(LEVEL)
def triggers_are_followed(look: Look) -> Found:
    """After a workflow task, no trigger lies about that nobody is looking at."""
    if look.idle and look.state.triggers:
        yield f"{len(look.state.triggers)}"


# Limits


@prop(LEVEL)
def max_active_runs_holds(look: Look) -> Found:
    """No run starts while max_active_runs others run; those of backfills and of people's changes do not count."""
    limit = max(look.state.spec.max_active_runs, look.before.get("limit", 0))
    backfill = RunType.BACKFILL
    started = [t for t in _started(look) if t.run.run_type is not backfill and t.revision is None]
    running = [
        t for t in look.state.runs.values()
        if t.state is RunState.RUNNING and t.run.run_type is not backfill and t.revision is None
    ]  # fmt: skip
    if started and len(running) > limit:
        yield f"{len(running)} of {limit}"


@prop(LEVEL)
def runs_are_made_where_there_is_room(look: Look) -> Found:
    """The schedule makes a run only while fewer than max_active_runs are queued or running, without backfills."""
    new = [*_new(look)]
    by_schedule = [t for t in new if t.run.run_type is RunType.SCHEDULED and not t.again and not t.backfill_id]
    if not by_schedule or len(by_schedule) < len(new):
        return
    # What somebody has revised may have come back in the same workflow task, after the run was made.
    counted = [
        t for t in look.state.runs.values()
        if t.run.run_type is not RunType.BACKFILL and look.state.not_before(t.run) <= look.now + ROUNDING
        and not (t.again and (t.revised_at or t.queued_at) >= look.now)
    ]  # fmt: skip
    if len(counted) > max(look.state.spec.max_active_runs, look.before.get("limit", 0)):
        yield f"{len(counted)} of {look.state.spec.max_active_runs}"


def _made_by(look: Look, backfill: Any) -> list[Any]:
    """The runs of *backfill* that are under way, without those that had ended and that somebody has revised."""
    mine = [t for t in look.state.runs.values() if t.backfill_id == backfill.backfill_id]
    return [t for t in mine if t.revision is None]


@prop(LEVEL)
def a_backfill_keeps_its_limit(look: Look) -> Found:
    """No more runs of a backfill are under way than its own max_active_runs, beside those that somebody has revised."""
    for backfill in look.state.backfills:
        mine = _made_by(look, backfill)
        if len(mine) > backfill.request.max_active_runs:
            yield f"{backfill.backfill_id}: {len(mine)} of {backfill.request.max_active_runs}"


@prop(LEVEL)
def a_backfill_counts_its_runs(look: Look) -> Found:
    """A backfill's count of runs under way is true."""
    for backfill in look.state.backfills:
        mine = [t for t in look.state.runs.values() if t.backfill_id == backfill.backfill_id]
        if backfill.running != len(mine):
            yield f"{backfill.backfill_id}: counts {backfill.running}, are {len(mine)}"


@prop(LEVEL)
def a_backfill_makes_no_more_than_all(look: Look) -> Found:
    """A backfill makes and skips no more runs than it has."""
    for backfill in look.state.backfills:
        if backfill.counted and backfill.created + backfill.skipped > backfill.total:
            yield f"{backfill.backfill_id}: {backfill.created} + {backfill.skipped} of {backfill.total}"


@prop(LEVEL)
def a_backfill_ends_when_its_runs_have(look: Look) -> Found:
    """A backfill that is complete has no run under way, unless somebody has revised it since, and has made or skipped
    all of them, or was ended."""
    for backfill in look.state.backfills:
        if backfill.open:
            continue
        whole = backfill.created + backfill.skipped == backfill.total or backfill.cancelled or backfill.error
        if _made_by(look, backfill) or not whole:
            yield f"{backfill.backfill_id}: {backfill.running} run, {backfill.created}+{backfill.skipped}"


@prop(LEVEL)
def a_backfill_that_is_done_is_closed(look: Look) -> Found:
    """A backfill whose runs have all ended is complete."""
    for backfill in look.state.backfills:
        done = backfill.created + backfill.skipped == backfill.total and not backfill.running and backfill.counted
        if backfill.open and done and not backfill.awaits:
            yield backfill.backfill_id


@prop(LEVEL)
def backfills_are_told_apart(look: Look) -> Found:
    """No two backfills of a DAG have one id, and no number is used again."""
    ids = [backfill.backfill_id for backfill in look.state.backfills]
    if len({*ids}) < len(ids) or look.state.backfills_made < look.before.get("backfills_made", 0):
        yield f"{ids}"


@prop(LEVEL)
def what_a_dag_keeps_has_bounds(look: Look) -> Found:
    """The lists of a DAG's state do not grow without end."""
    state = look.state
    bounds = (
        ("ledger", state.ledger, LEDGER_LENGTH), ("dates", state.dates, DATES_KEPT),
        ("deleted", state.deleted, MAX_DELETED), ("decisions", state.decisions, DECISIONS_KEPT),
    )  # fmt: skip
    for name, kept, most in bounds:
        if len(kept) > most:
            yield f"{name}: {len(kept)} of {most}"


# Assets


@prop(LEVEL)
def events_are_heard_once(look: Look) -> Found:
    """No event of an asset is gathered twice."""
    if look.state.gathering is not None:
        causes = Counter(one.event.cause for one in look.state.gathering.heard)
        for cause, n in causes.items():
            if n > 1:
                yield f"{cause}: {n}"


@prop(LEVEL)
def taken_events_are_not_gathered_again(look: Look) -> Found:
    """An event that a run has taken waits for no other run."""
    if look.state.gathering is not None:
        taken = {*look.state.gathering.taken}
        for one in look.state.gathering.heard:
            if one.event.cause in taken:
                yield one.event.cause


@prop(LEVEL)
def an_asset_is_there_once(look: Look) -> Found:
    """An asset that is there is gathered as one row."""
    if look.state.gathering is not None:
        rows = [row.key for row in look.state.gathering.rows]
        if len({*rows}) < len(rows):
            yield f"{rows}"


@prop(LEVEL)
def gathered_assets_are_waited_for(look: Look) -> Found:
    """Only assets count as there that the present version of the DAG waits for."""
    state = look.state
    if state.gathering is not None and state.gathering.rows and state.spec.schedule.kind == "asset":
        known = {(ref.name, ref.uri) for ref in state.gathering.references}
        linked = {tuple(key) for keys in state.gathering.links.values() for key in keys}
        for row in state.gathering.rows:
            if row.key not in known and row.key not in linked and known:
                yield row.name


# Facts


@prop(LEVEL)
def ended_runs_have_ended(look: Look) -> Found:
    """A run among those that have ended has a state that is an end, and ends after it was queued."""
    for record in look.state.ledger:
        if not record.state.finished:
            yield f"{record.run_id}: {record.state}"


@prop(LEVEL)
def an_ended_run_says_why(look: Look) -> Found:
    """A run that has ended has a reason."""
    for record in look.state.ledger:
        if not record.reason:
            yield record.run_id


@prop(LEVEL)
def only_running_runs_are_watched(look: Look) -> Found:
    """Only the end of runs under way is waited for."""
    for tracked in look.state.runs.values():
        if tracked.watched and tracked.state is not RunState.RUNNING:
            yield tracked.run.run_id


@prop(LEVEL)
def started_runs_have_a_start(look: Look) -> Found:
    """A run under way knows when it was started; a queued one does not, unless a person has marked it."""
    for tracked in look.state.runs.values():
        is_marked = tracked.state is RunState.QUEUED and tracked.revised_at is not None
        if not is_marked and (tracked.state is RunState.RUNNING) != (tracked.started_at is not None):
            yield f"{tracked.run.run_id} is {tracked.state}, started at {tracked.started_at}"


@prop(LEVEL)
def messages_to_runs_are_numbered(look: Look) -> Found:
    """The number of messages to runs never falls."""
    if look.state.last_update < look.before.get("news", 0):
        yield f"{look.state.last_update} after {look.before['news']}"


@prop(LEVEL)
def executions_are_counted(look: Look) -> Found:
    """Each continue-as-new of a DAG is counted."""
    if look.state.executions < look.before.get("executions", 1):
        yield f"{look.state.executions} after {look.before['executions']}"


@prop(LEVEL)
def a_broken_dag_says_why(look: Look) -> Found:
    """No DAG is broken by an error of tidemill."""
    if look.state.broken is not None and not look.state.is_broken_by_timetable:
        yield look.state.broken


@prop(LEVEL)
def the_memo_shows_the_dag(look: Look) -> Found:
    """The view in the memo is the DAG as it is, unless it is being held back for a moment."""
    memo = look.object._memo
    if look.memo is None or memo.held_back_until is not None or not look.idle or look.holding:
        return
    known, shown = without_newest_run(look.memo), without_newest_run(dag_line(look.state))
    if not is_line(known, shown, NEW_OF_DAGS) and not look.object._runs._telling:
        yield f"it shows {known} and is {shown}"


def dag_line(state: DagState) -> dict[str, Any]:
    """What a list should show of a DAG."""
    return dag_row(state).model_dump(mode="json", exclude_defaults=True)


@prop(LEVEL)
def a_dag_leaves_no_message(look: Look) -> Found:
    """A DAG that goes on as new has nothing on its way to runs or assets, and counts nothing."""
    if look.closed == "ContinuedAsNew":
        workflow = look.object
        if workflow._runs._telling or workflow._tying or workflow._counting.under_way:
            yield f"{len(workflow._runs._telling)} to runs, {len(workflow._tying)} to assets"
