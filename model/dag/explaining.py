"""Why a DAG does what it does, or does nothing: in plain words, from its state alone."""

from datetime import datetime

from ..base import Model, iso
from ..run.identity import RunType
from ..states import RunState
from .backfills import runs_text
from .records import MadeDecision
from .state import MAX_RUNNING, DagState


class Explanation(Model):
    """What stands in the way of the next run, what runs are waiting for, and what was decided last."""

    next_run: str
    queued: tuple[str, ...]
    backfills: tuple[str, ...]
    decisions: tuple[MadeDecision, ...]


def explain_dag(state: DagState, now: datetime) -> Explanation:
    return Explanation(
        next_run=next_run(state, now),
        queued=tuple(
            f"{tracked.run.run_id} is queued: {why_queued(state, tracked.run.run_id, now)}"
            for tracked in state.runs.values()
            if tracked.state is RunState.QUEUED
        ),
        backfills=tuple(_backfill(state, backfill.backfill_id) for backfill in state.backfills if backfill.open),
        decisions=tuple(state.decisions),
    )


NEVER = "max_active_runs = 0: no run of the DAG begins"


def next_run(state: DagState, now: datetime) -> str:
    """Why the next scheduled run comes when it does, or does not come."""
    info, spec = state.next_info, state.spec
    if state.broken is not None:
        return f"broken: {state.broken}. Register the DAG again once it is mended"
    if state.is_paused:
        return "paused: no run is created until it is unpaused"
    if state.held_up is not None:
        return f"{state.held_up}. No run is created until its file is in order"
    if spec.schedule.kind == "null":
        return "no schedule: runs are made by triggers only"
    if spec.schedule.kind in ("asset", "partitioned_asset"):
        return f"asset-triggered, time alone makes no run: {state.waits_for_assets()}"
    if spec.max_active_runs == 0:
        return NEVER
    if not state.room(now):
        return f"limit reached: max_active_runs = {spec.max_active_runs}, held by {_holders(state)}"
    if spec.schedule.kind == "asset_or_time" and info is not None:
        return f"by time at {iso(info.run_after)}; by assets: {state.waits_for_assets()}"
    if info is None:
        return _no_next(state)
    if info.run_after <= now < state.made_at(info):
        return f"due since {iso(info.run_after)}, and made at {iso(state.made_at(info))}: jitter spreads the starts"
    if info.run_after <= now:
        return f"due since {iso(info.run_after)}"
    if state.start_date_moves >= 2 and state.last_automated_interval is None:
        return (
            f"will never run: start_date has moved on {state.start_date_moves} times before a first run; "
            "it moves faster than the schedule. Give a fixed start_date"
        )
    if spec.start_date is not None and spec.start_date > now:
        return f"waiting for its start_date {iso(spec.start_date)}: the first run is due at {iso(info.run_after)}"
    return f"due when its interval ends, at {iso(info.run_after)}"


def _no_next(state: DagState) -> str:
    if not state.ticks_ended:
        return "the next run is being worked out"
    end, last = state.spec.restriction.latest, state.last_automated_interval
    if state.spec.schedule.kind == "once" and last is not None:
        return f"no more runs: @once has run, for {iso(last.start)}"
    if end is not None:
        return f"no more runs: the schedule has ended, at end_date {iso(end)}"
    return "no more runs: the schedule has ended"


def _holders(state: DagState) -> str:
    held = sorted(t.run.run_id for t in state.runs.values() if t.run.run_type is not RunType.BACKFILL)
    return ", ".join(held[:5]) + (f" and {len(held) - 5} more" if len(held) > 5 else "")


def why_queued(state: DagState, run_id: str, now: datetime) -> str:
    """Say what a queued run waits for."""
    tracked = next(t for t in state.runs.values() if t.run.run_id == run_id)
    if state.held_up is not None:
        return state.held_up
    start = state.not_before(tracked.run)
    if start > now:
        return f"it waits for {iso(start)}"
    if state.running >= MAX_RUNNING:
        return f"{MAX_RUNNING:,} runs of the DAG are under way, as many as Temporal lets it have"
    if state.spec.max_active_runs == 0:
        return NEVER
    running = sorted(t.run.run_id for t in state.runs.values() if t.state is RunState.RUNNING)
    return f"max_active_runs = {state.spec.max_active_runs} is reached by {', '.join(running[:5])}"


def _backfill(state: DagState, backfill_id: str) -> str:
    backfill = state.backfill(backfill_id)
    assert backfill is not None  # noqa: S101
    finished = backfill.succeeded + backfill.failed + backfill.skipped
    runs = runs_text(backfill.total, counted=backfill.counted)
    summary = f"{backfill_id}: {finished} of {runs} finished, {backfill.running} under way"
    if backfill.is_paused:
        return f"{summary}; paused"
    if state.held_up is not None:
        return f"{summary}; {state.held_up}"
    if backfill.cancelled:
        return f"{summary}; cancelled, waits for the runs under way"
    if backfill.request.run_backwards and not backfill.counted:
        return f"{summary}; the runs are counted before the last of them can be the first"
    if backfill.awaits and finished == backfill.total:
        others = ", ".join(state.runs[key].run.run_id for key in backfill.awaits if key in state.runs)
        return f"{summary}; waits for {others}, which others had made in its range"
    if not backfill.room:
        return f"{summary}; its max_active_runs = {backfill.request.max_active_runs} is reached"
    return summary
