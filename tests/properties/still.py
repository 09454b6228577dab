"""What holds between workflows while nothing is on its way: no message, no question, no workflow task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dst.clock import instant
from tidemill.model.run.instance_keys import split_key
from tidemill.model.states import FINISHED, RunState, TaskState

from .catalogue import Found, prop

LEVEL = "still"
GOOD = (TaskState.SUCCESS, TaskState.SKIPPED)
ASKS_WITHIN = timedelta(seconds=90)
"""So soon a DAG asks about runs whose end nobody would tell it."""
LOOKS_WITHIN = timedelta(minutes=20)
"""So soon an asset, a pool and a DAG know each other again of which somebody has ended one."""


@dataclass
class Still:
    """The workflow objects of an installation in such a moment, and what has happened to them from outside."""

    now: datetime
    objects: dict[str, Any]
    """Of workflows that run, by workflow id."""
    executions: dict[str, Any]
    """The newest execution of each workflow."""
    kinds: dict[str, str]
    touched: dict[str, datetime] = field(default_factory=dict)
    """When somebody has last ended or reset a workflow."""
    as_it_ended: Callable[[Any], Any] = lambda _: None
    """The workflow object of an execution that has closed."""

    def of_kind(self, kind: str) -> list[tuple[str, Any]]:
        return [(key, made) for key, made in self.objects.items() if self.kinds[key] == kind]

    def was_touched(self, *workflow_ids: str) -> bool:
        """Whether somebody has ended or reset one of them a short while ago."""
        return any(key in self.touched and self.touched[key] + LOOKS_WITHIN > self.now for key in workflow_ids)


def closed_at(execution: Any) -> datetime:
    return instant(execution.closed_at)


@prop(LEVEL)
def dags_know_which_runs_are_under_way(still: Still) -> Found:
    """A DAG counts a run as under way exactly as long as its workflow runs."""
    for workflow_id, dag in still.of_kind("Dag"):
        under_way = {t.run.workflow_id for t in dag.state.runs.values() if t.state is RunState.RUNNING}
        for run_id in under_way:
            execution = still.executions.get(run_id)
            if still.was_touched(workflow_id, run_id):  # ended from outside, it may have been removed since, too
                continue
            if execution is None:
                yield f"{workflow_id}: {run_id} was never begun"
            elif not execution.running and closed_at(execution) + ASKS_WITHIN < still.now:
                yield f"{workflow_id}: {run_id} has ended"
    for run_id, run in still.of_kind("DagRun"):
        dag_id = f"dag:{run.state.run.dag_id}"
        dag = still.objects.get(dag_id)
        if dag is None or dag_id in still.touched or run_id in still.touched:
            continue  # a DAG that was ended has forgotten its runs; of a run that had ended and was reset none knows
        tracked = dag.state.runs.get(run.state.run.key)
        if tracked is None or tracked.state is not RunState.RUNNING:
            yield f"{run_id} runs, its DAG has it as {tracked and tracked.state}"


@prop(LEVEL)
def runs_are_paused_with_their_dag(still: Still) -> Found:
    """A run under way knows whether its DAG is paused."""
    for workflow_id, dag in still.of_kind("Dag"):
        for tracked in dag.state.runs.values():
            run = still.objects.get(tracked.run.workflow_id)
            if run is None or tracked.state is not RunState.RUNNING or not run._ready:
                continue
            touched = still.was_touched(workflow_id, tracked.run.workflow_id)
            if run.state.is_paused != dag.state.is_paused and not touched:
                yield f"{tracked.run.workflow_id}: {run.state.is_paused}, the DAG: {dag.state.is_paused}"


@prop(LEVEL)
def runs_look_back_at_what_is(still: Still) -> Found:
    """What a run knows of the run before it is how that stands now."""
    for run_id, run in still.of_kind("DagRun"):
        past, spec = run.state.past, run.state.spec
        dag_id = f"dag:{run.state.run.dag_id}"
        if past is None or dag_id not in still.objects or not run._ready or dag_id in still.touched:
            continue
        for other_id, execution in still.executions.items():
            if not other_id.startswith(f"run:{run.state.run.dag_id}:") or still.was_touched(run_id, other_id):
                continue
            tracked = next(
                (t for t in still.objects[dag_id].state.runs.values() if t.run.workflow_id == other_id), None
            )
            runs_again = tracked is not None and tracked.again and tracked.state is RunState.QUEUED
            by_itself = execution.running or str(execution.status) in ("Completed", "Failed")
            other = still.as_it_ended(execution) if by_itself and not execution.reset_from else None
            if other is None or other.state.run.run_id != past.run_id or not other._ready:
                continue
            if any(activity.kind == "tidemill.notify" for activity in execution.activities.values()):
                continue  # it tells of its end behind its notices
            for task_id, known in past.states.items():
                instance = other.state.instances.get(task_id)
                unknown = instance is None or task_id not in other._remembered or task_id not in spec.by_id
                if unknown or instance.state is TaskState.REMOVED:
                    continue
                if runs_again and known is TaskState.NONE:  # cleared: it is done again before it counts
                    continue
                told_wrong = instance.state in FINISHED and known is not instance.state
                if told_wrong or (instance.state not in FINISHED and known in GOOD):
                    yield f"{run_id}: {task_id} of {past.run_id} is {instance.state}, and is held to be {known}"


@prop(LEVEL)
def pools_and_runs_agree_who_has_slots(still: Still) -> Found:
    """What a run holds of a pool, or waits for, the pool knows, and of no run that goes on does it know more."""
    for run_id, run in still.of_kind("DagRun"):
        if not run._ready:
            continue
        for key, held in run.state.leases.items():
            for pool_id in held.pools[: held.granted + 1]:
                pool = still.objects.get(pool_id)
                if pool is None or still.was_touched(pool_id, run_id) or held.error is not None:
                    continue
                granted = pool_id in held.pools[: held.granted]
                known = held.lease_id in pool.state.held or (not granted and held.lease_id in pool.state.waiting)
                if not known:
                    what = "holds" if granted else "waits for"
                    yield f"{run_id}: {key} {what} slots of {pool_id}, which does not know"
    for pool_id, pool in still.of_kind("Pool"):
        for lease_id, lease in pool.state.held.items():
            holder = lease.request.holder
            run = still.objects.get(holder)
            if run is None or not run._ready or still.was_touched(pool_id, holder):
                continue
            mine = {held.lease_id: key for key, held in run.state.leases.items()}
            if lease_id not in mine:
                yield f"{pool_id}: {lease_id} holds slots, and wants none"
                continue
            key = mine[lease_id]
            instance = run.state.instances.get(key)
            if lease.request.key != key:
                yield f"{pool_id}: {lease_id} is said to be of {lease.request.key}, and is of {key}"
            waits = instance is not None and instance.state in (TaskState.DEFERRED, TaskState.AWAITING_INPUT)
            works = instance is not None and instance.state in (TaskState.QUEUED, TaskState.RUNNING)
            if (waits and not lease.parked) or (works and lease.parked):
                yield f"{pool_id}: {lease_id} is {'' if lease.parked else 'not '}parked, and {key} is {instance.state}"


@prop(LEVEL)
def assets_know_who_waits_for_them(still: Still) -> Found:
    """Each asset knows the DAGs that wait for it, and has told them all that it has to tell."""
    for workflow_id, dag in still.of_kind("Dag"):
        for asset_id, tie in dag.state.ties.items():
            asset = still.objects.get(asset_id)
            if asset is None or still.was_touched(asset_id, workflow_id):
                continue
            if tie.consumes and dag.state.spec.dag_id not in asset.state.consumers:
                yield f"{asset_id} does not know {workflow_id}"
    for asset_id, asset in still.of_kind("Asset"):
        for dag_id, waiting in asset.state.outbox.items():
            if f"dag:{dag_id}" in still.objects and not still.was_touched(asset_id, f"dag:{dag_id}"):
                yield f"{asset_id}: {[one.cause for one in waiting]} wait for {dag_id}"


@prop(LEVEL)
def what_is_under_way_is_done_somewhere(still: Still) -> Found:
    """For each task that is queued or runs, the service has work that has not ended."""
    for run_id, run in still.of_kind("DagRun"):
        execution = still.executions[run_id]
        if not run._ready or still.was_touched(run_id):
            continue
        pending = {activity.activity_id.split("/")[0] for activity in execution.activities.values()}
        for key, instance in run.state.instances.items():
            kind = run.state.spec.by_id[split_key(key)[0]].kind
            works = instance.state in (TaskState.QUEUED, TaskState.RUNNING, TaskState.SHUTDOWN, TaskState.RESTARTING)
            if works and key not in pending and kind in ("bash", "python", "branch", "short_circuit", "sensor"):
                yield f"{run_id}: {key} is {instance.state}, and nobody works on it"


@prop(LEVEL)
def triggers_are_watched(still: Still) -> Found:
    """For each task that waits for a trigger, and for no moment, something watches."""
    for run_id, run in still.of_kind("DagRun"):
        pending = {activity.activity_id for activity in still.executions[run_id].activities.values()}
        for key, instance in run.state.instances.items():
            deferral = instance.deferral
            waits = instance.state is TaskState.DEFERRED and deferral is not None
            watched = any(each.startswith(f"{key}/") and each.endswith("/trigger") for each in pending)
            if waits and deferral.trigger is not None and deferral.moment is None and run._ready and not watched:
                yield f"{run_id}: {key}"
