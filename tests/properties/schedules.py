"""What a DAG owes its schedule, its people and its backfills: each run is made when it is due, the right one, at once
where there is room; said by the timetable itself, and by nothing that the DAG keeps."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tidemill.model.dag.backfill_request import ReprocessBehavior
from tidemill.model.run.identity import RunType
from tidemill.model.spec.assets.condition import holds, leaves
from tidemill.model.spec.assets.identity import Asset
from tidemill.model.spec.timetables import DagRunInfo, TimeRestriction, waited_for
from tidemill.model.states import RunState

from .catalogue import Found, Look, prop

LEVEL = "Dag"
ROUNDING = timedelta(milliseconds=1)
LATE = timedelta(seconds=11)
"""So late may a timer be that the DAG has set: see `owed`."""
MOST_RUNNING = 1000
_NEXT: dict[tuple[Any, ...], DagRunInfo | None] = {}


def next_run(state: Any, last: Any, now: datetime) -> DagRunInfo | None:
    """The run that follows *last* by the timetable, as of *now*."""
    spec = state.spec
    earliest = spec.restriction.earliest
    if state.resume_at is not None:
        earliest = state.resume_at if earliest is None else max(earliest, state.resume_at)
    bounds = TimeRestriction(earliest=earliest, latest=spec.restriction.latest, catchup=spec.catchup)
    moment = None if spec.catchup and not spec.schedule.answers_by_moment else now
    key = (
        spec.schedule.model_dump_json(),
        earliest,
        bounds.latest,
        spec.catchup,
        last and (last.start, last.end),
        moment,
    )
    if key not in _NEXT:
        if len(_NEXT) > 5000:
            _NEXT.clear()
        try:
            _NEXT[key] = spec.schedule.next_dagrun_info(last, bounds, now)
        except OverflowError:
            _NEXT[key] = None
    return _NEXT[key]


def _active(look: Look) -> int:
    """How many runs count against max_active_runs."""
    return sum(
        tracked.run.run_type is not RunType.BACKFILL
        and (tracked.state is RunState.RUNNING or _earliest(look, tracked.run) <= look.now)
        for tracked in look.state.runs.values()
    )


def _earliest(look: Look, run: Any) -> datetime:
    spec = look.state.spec
    early = spec.allow_trigger_in_future and spec.schedule.kind == "null"
    return run.run_after if run.logical_date is None or early else max(run.run_after, run.logical_date)


def _free(look: Look) -> bool:
    """Whether nothing keeps the DAG from making runs, and it has done all that it will do now."""
    state = look.state
    idle = look.idle and not look.holding and look.closed is None and state.broken is None
    return idle and not state.is_paused and not state.file.is_stale and state.held_up is None


def _periodic(look: Look) -> bool:
    schedule = look.state.spec.schedule
    return schedule.periodic and schedule.kind not in ("asset", "partitioned_asset", "custom", "events")


@prop(LEVEL)
def no_run_of_the_schedule_is_late(look: Look) -> Found:
    """The next run of the timetable is made as soon as it is due and there is room, by the timetable itself."""
    state = look.state
    if not look.exact or not _free(look) or not _periodic(look) or state.spec.schedule.answers_by_moment:
        return
    if _active(look) >= state.spec.max_active_runs:
        return
    info = next_run(state, state.last_automated_interval, look.now)
    if info is None:
        return
    due = info.run_after + (state.spec.jitter or timedelta())
    wakes = look.timers is None or any(timer <= look.now for timer in look.timers)  # the service was away meanwhile
    if due < look.now - LATE and look.began < look.now - LATE and not wakes:
        yield f"{info.run_after}, and {_active(look)} of {state.spec.max_active_runs} are active"
    waits = look.timers is None or any(timer <= max(due, look.now) + LATE for timer in look.timers)
    if due >= look.now and not waits:
        yield f"no timer is set for {due}: {look.timers}"


@prop(LEVEL)
def the_next_run_is_made(look: Look) -> Found:
    """With catchup each run of the schedule is the one that follows the one before, and none is left out."""
    state = look.state
    if not look.before or not state.spec.catchup or not _periodic(look) or state.spec.schedule.answers_by_moment:
        return
    if any(name in ("register", "take_over", "create_backfill") for name, _ in look.messages) or state.backfills:
        return
    last = look.before["last"]
    new = [t.run for k, t in state.runs.items() if k not in look.before["runs"] and not t.again]
    for run in sorted((r for r in new if r.run_type is RunType.SCHEDULED), key=lambda r: r.run_after):
        while True:
            info = next_run(state, last, look.now)
            if info is None or info.run_after > look.now + ROUNDING:
                yield f"{run.run_id} follows nothing"
                return
            last = info.data_interval
            if info.run_after == run.run_after:
                break
            passed = {r.logical_date for r in state.ledger} | {t.run.logical_date for t in state.runs.values()}
            if info.logical_date not in passed and info.logical_date.isoformat() not in state.dates:
                yield f"{run.run_id} is made, and {info.run_after} was left out"
                return
        if run.data_interval is not None and run.data_interval != info.data_interval:
            yield f"{run.run_id} is about {run.data_interval}, and not {info.data_interval}"


@prop(LEVEL)
def without_catchup_the_latest_is_made(look: Look) -> Found:
    """Without catchup the run that is made is the latest that is due."""
    state = look.state
    if not look.before or state.spec.catchup or not _periodic(look) or state.spec.jitter is not None:
        return
    if state.spec.schedule.answers_by_moment or any(
        name in ("register", "create_backfill") for name, _ in look.messages
    ):
        return
    new = [t.run for k, t in state.runs.items() if k not in look.before["runs"] and not t.again]
    made = sorted((r for r in new if r.run_type is RunType.SCHEDULED), key=lambda r: r.run_after)
    if not made or state.backfills or made[-1].data_interval is None:
        return
    info = next_run(state, made[-1].data_interval, look.now)
    if info is not None and info.run_after < look.now - LATE and _active(look) < state.spec.max_active_runs:
        yield f"{made[-1].run_id} is made, and {info.run_after} is due, too"


@prop(LEVEL)
def queued_runs_start_where_there_is_room(look: Look) -> Found:
    """After a workflow task no run is queued whose time has come, while fewer run than max_active_runs."""
    state = look.state
    if not _free(look) or (look.exact and look.timers is None):  # a timer has just fired: it hears of that next
        return
    running = [t for t in state.runs.values() if t.state is RunState.RUNNING]
    counted = sum(t.run.run_type is not RunType.BACKFILL for t in running)
    for tracked in state.runs.values():
        if (
            tracked.state is not RunState.QUEUED
            or _earliest(look, tracked.run) > look.now
            or len(running) >= MOST_RUNNING
        ):
            continue
        if tracked.run.run_type is RunType.BACKFILL or counted < state.spec.max_active_runs:
            yield f"{tracked.run.run_id} waits, {counted} of {state.spec.max_active_runs} run"


@prop(LEVEL)
def the_oldest_run_starts_first(look: Look) -> Found:
    """Of queued runs the one of the oldest date starts first; those of backfills have their own order."""
    if not look.before or not look.idle:
        return
    state = look.state
    waiting = [
        tracked.run
        for key, tracked in state.runs.items()
        if tracked.state is RunState.QUEUED and look.before["runs"].get(key) is RunState.QUEUED
        and tracked.run.run_type is not RunType.BACKFILL and _earliest(look, tracked.run) <= look.now - LATE
        and tracked.revision is None
    ]  # fmt: skip
    for key, tracked in state.runs.items():
        started = tracked.state is RunState.RUNNING and look.before["runs"].get(key) is RunState.QUEUED
        if not started or tracked.run.run_type is RunType.BACKFILL or tracked.revision is not None:
            continue
        date = tracked.run.logical_date or tracked.run.run_after
        for other in waiting:
            if (other.logical_date or other.run_after) < date:
                yield f"{tracked.run.run_id} before {other.run_id}"


@prop(LEVEL)
def a_run_that_waits_for_a_date_is_woken(look: Look) -> Found:
    """While a run waits for its date, a timer is set that fires by then."""
    if look.timers is None or not _free(look):
        return
    dates = [
        at for t in look.state.runs.values() if t.state is RunState.QUEUED and (at := _earliest(look, t.run)) > look.now
    ]
    if dates and not any(timer <= min(dates) + LATE for timer in look.timers):
        yield f"{min(dates)}: {look.timers}"


def _names_assets_alone(condition: Any) -> bool:
    """Whether a DAG waits for assets, and for no alias or reference, of which another asset may be."""
    return all(isinstance(leaf, Asset) for leaf in leaves(condition))


@prop(LEVEL)
def runs_of_assets_are_made_where_there_is_room(look: Look) -> Found:
    """As soon as all assets that a DAG waits for are there, and there is room, a run is made."""
    state, gathering = look.state, look.state.gathering
    condition = waited_for(state.spec.schedule)
    if condition is None or gathering is None or not _free(look) or state.spec.schedule.kind == "partitioned_asset":
        return
    if not _names_assets_alone(condition):
        return
    names = {row.name for row in gathering.rows}
    there = names and holds(condition, lambda leaf: getattr(leaf, "name", None) in names)
    if there and _active(look) < state.spec.max_active_runs:
        yield f"{sorted(names)} are there"


@prop(LEVEL)
def a_run_of_assets_has_them(look: Look) -> Found:
    """A run that assets have made is made when all are there that the DAG waits for."""
    condition = waited_for(look.state.spec.schedule)
    if not look.before or condition is None or look.state.spec.schedule.kind == "partitioned_asset":
        return
    if any(name == "register" for name, _ in look.messages) or not _names_assets_alone(condition):
        return
    names = {*look.before["rows"]}
    names |= {event["name"] for delivery in look.messages_of("asset_events") for event in delivery["events"]}
    for key, tracked in look.state.runs.items():
        new = key not in look.before["runs"] and not tracked.again
        if not new or tracked.run.run_type is not RunType.ASSET_TRIGGERED:
            continue
        if not holds(condition, lambda leaf: getattr(leaf, "name", None) in names):
            yield f"{tracked.run.run_id} of {sorted(names)}"
        listed = {event.name for event in tracked.run.asset_events}
        if listed - names - {*look.before["heard_names"]}:
            yield f"{tracked.run.run_id} lists {sorted(listed)}, there are {sorted(names)}"


@prop(LEVEL)
def a_backfill_uses_its_room(look: Look) -> Found:
    """A backfill that nobody holds back has as many runs under way as it may, while it has some left."""
    if not _free(look):
        return
    for backfill in look.state.backfills:
        mine = sum(t.backfill_id == backfill.backfill_id for t in look.state.runs.values())
        left = backfill.total - backfill.created - backfill.skipped
        held = backfill.is_paused or backfill.cancelled or backfill.completed_at is not None
        backwards = backfill.request.run_backwards and not backfill.counted
        if left > 0 and mine < backfill.request.max_active_runs and not held and not backwards:
            yield f"{backfill.backfill_id}: {mine} of {backfill.request.max_active_runs} run, {left} are left"


@prop(LEVEL)
def a_backfill_runs_again_what_it_should(look: Look) -> Found:
    """A date that has had a run is run again as reprocess_behavior says."""
    if not look.before:
        return
    again = {
        ReprocessBehavior.NONE: (), ReprocessBehavior.FAILED: (RunState.FAILED,),
        ReprocessBehavior.COMPLETED: (RunState.FAILED, RunState.SUCCESS),
    }  # fmt: skip
    by_id = {backfill.backfill_id: backfill for backfill in look.state.backfills}
    for key, tracked in look.state.runs.items():
        is_revised = tracked.revision is not None
        if key in look.before["runs"] or is_revised or tracked.backfill_id not in by_id:
            continue
        before = look.before["ledger"].get(tracked.run.run_id)
        behavior = by_id[tracked.backfill_id].request.reprocess_behavior
        if before is not None and tracked.run.partition_key is None and before not in again[behavior]:
            yield f"{tracked.run.run_id} had ended in {before}, and reprocess_behavior is {behavior}"


@prop(LEVEL)
def a_backfill_goes_through_its_range(look: Look) -> Found:
    """The runs of a backfill are of its range, one after the other in its direction."""
    for backfill in look.state.backfills:
        mine = [
            t.run.logical_date
            for k, t in look.state.runs.items()
            if t.backfill_id == backfill.backfill_id and k not in look.before.get("runs", {}) and t.revision is None
            if t.run.logical_date
        ]
        if mine != sorted(mine, reverse=backfill.request.run_backwards):
            yield f"{backfill.backfill_id}: {mine}"
        for date in mine:
            slack = timedelta(days=2)  # dates of a range are days, in the zone of the schedule
            if not backfill.request.from_date - slack <= date <= backfill.request.to_date + slack:
                yield f"{backfill.backfill_id}: {date}"
