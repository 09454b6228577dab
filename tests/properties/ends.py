"""What holds of an installation when people and faults have let go of it, and everything has come to its end."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from tidemill.model.run.identity import RunType
from tidemill.model.states import RunState, TaskState

from .catalogue import Found, prop
from .dags import dag_line
from .lines import NEW_OF_DAGS, is_line, without_newest_run

LEVEL = "end"


class Ended:
    """The workflow objects of an installation that has come to rest, by workflow id, and what people know."""

    def __init__(self, objects: dict[str, Any], executions: dict[str, Any], now: datetime) -> None:
        self.objects = objects
        self.executions = executions
        """The newest execution of each workflow."""
        self.now = now
        self.foreseen: dict[str, dict[str, bool]] = {}
        """By DAG that nobody has disturbed, the keys of the runs that its timetable has for it, and whether each has
        to be there by now."""
        self.unanswered: list[str] = []
        self.triggered: dict[str, list[str]] = {}
        """By DAG, the run_ids that people were answered with."""
        self.registered: dict[str, str] = {}
        """By DAG, the version that somebody has registered last, or saved in its file."""
        self.notices: dict[str, int] = {}
        """By run, how many notices were sent."""
        self.deleted: set[str] = set()
        self.confs: dict[str, dict[str, Any]] = {}
        """By run, the conf that people were answered with last."""
        self.touched: Collection[str] = ()
        """Workflow ids of what somebody has ended or reset."""
        self.restored = False
        self.lost: set[str] = set()
        """Workflow ids of DAGs that somebody has ended or reset: they have no memory of what was before."""

    def of_kind(self, kind: str) -> list[tuple[str, Any]]:
        """Those that go on; of runs, those that have ended, too."""
        found = ((key, made) for key, made in self.objects.items() if self.executions[key].kind == kind)
        return [(key, made) for key, made in found if kind == "DagRun" or self.executions[key].running]


@prop(LEVEL)
def every_run_ends(ended: Ended) -> Found:
    """Nothing waits for ever: every run has ended."""
    for workflow_id, execution in ended.executions.items():
        if execution.kind == "DagRun" and execution.running:
            tasks = ended.objects[workflow_id].tasks
            waiting = {
                key: f"{i.state}: {tasks.why(i)}"
                for key, i in ended.objects[workflow_id].state.instances.items()
                if not i.state.finished
            }
            yield f"{workflow_id}: {waiting}"


@prop(LEVEL)
def a_dag_knows_that_its_runs_have_ended(ended: Ended) -> Found:
    """No DAG has a run under way or queued when all runs have ended."""
    for workflow_id, dag in ended.of_kind("Dag"):
        for key, tracked in dag.state.runs.items():
            future = dag.state.not_before(tracked.run) > ended.now
            if dag.state.held_up is None and not future:
                yield f"{workflow_id}: {key} is {tracked.state}"


@prop(LEVEL)
def slots_are_given_back(ended: Ended) -> Found:
    """No slot is held when all runs have ended; who was terminated has its slots until somebody waits for them."""
    for workflow_id, pool in ended.of_kind("Pool"):
        for lease_id, lease in pool.state.held.items():
            holder = ended.executions.get(lease.request.holder)
            if holder is None or lease.request.holder not in ended.touched:
                yield f"{workflow_id}: {lease_id} of {holder.status if holder is not None else None}"


@prop(LEVEL)
def nobody_waits_for_slots(ended: Ended) -> Found:
    """Nobody waits for slots when all runs have ended."""
    for workflow_id, pool in ended.of_kind("Pool"):
        if pool.state.waiting:
            yield f"{workflow_id}: {sorted(pool.state.waiting)}"


@prop(LEVEL)
def every_event_has_reached_its_dags(ended: Ended) -> Found:
    """No event of an asset is on its way when nothing goes wrong any more."""
    for workflow_id, asset in ended.of_kind("Asset"):
        if asset.state.outbox or asset.state.held:
            yield f"{workflow_id}: {sorted(asset.state.outbox)}, {len(asset.state.held)} held"


@prop(LEVEL)
def every_task_that_writes_has_told(ended: Ended) -> Found:
    """For each try that has succeeded and writes an asset, the asset has an event."""
    for workflow_id, run in ended.of_kind("DagRun"):
        if run.state.spec.written_for != "tidemill" or ended.restored:
            continue
        for instance in run.state.instances.values():
            task = run.state.spec.by_id[instance.task_id]
            told = instance.state is TaskState.SUCCESS and not (instance.reason or "").startswith(("marked", "the run"))
            for outlet in task.outlets if told and instance.attempts else ():
                asset_id = f"asset:{getattr(outlet, 'name', '')}"
                asset = ended.objects.get(asset_id)
                if asset_id in ended.lost:
                    continue
                if asset is None or asset.state.numbered == 0:
                    yield f"{workflow_id}: {instance.key} has told {outlet} of nothing"


@prop(LEVEL)
def every_foreseen_run_was_made(ended: Ended) -> Found:
    """Each run that the timetable of an undisturbed DAG has, by then, is there, and no other."""
    for dag_id, keys in ended.foreseen.items():
        dag = ended.objects[f"dag:{dag_id}"]
        made = {
            record.logical_date.isoformat() if record.logical_date is not None else record.run_id
            for record in dag.state.ledger
            if record.run_type is RunType.SCHEDULED
        }
        made |= {key for key, tracked in dag.state.runs.items() if tracked.run.run_type is RunType.SCHEDULED}
        made |= {key for key in dag.state.dates if key in keys}
        if missing := {key for key, is_over in keys.items() if is_over} - made - ended.deleted:
            yield f"{dag_id}: {len(missing)} are missing, such as {min(missing)}"
        if surplus := made - keys.keys():
            yield f"{dag_id}: {len(surplus)} too many, such as {min(surplus)}"


@prop(LEVEL)
def what_was_promised_is_there(ended: Ended) -> Found:
    """Each run that somebody who triggered one was answered with is known to the DAG, unless it was deleted."""
    for dag_id, run_ids in ended.triggered.items():
        dag = ended.objects.get(f"dag:{dag_id}")
        if dag is None or ended.restored or f"dag:{dag_id}" in ended.lost:
            continue
        known = {record.run_id for record in dag.state.ledger} | {t.run.run_id for t in dag.state.runs.values()}
        for run_id in run_ids:
            if run_id not in known and run_id not in ended.deleted:
                yield f"{dag_id}: {run_id}"


@prop(LEVEL)
def lists_tell_what_runs_tell(ended: Ended) -> Found:
    """The state that a DAG's list shows of an ended run is the one that its workflow has ended in.

    Unless somebody has had the DAG forget, as by a reset to before a mark: it then knows the run's end before that.
    """
    for workflow_id, dag in ended.of_kind("Dag"):
        if workflow_id in ended.lost:
            continue
        for record in dag.state.ledger:
            key = record.logical_date.isoformat() if record.logical_date is not None else record.run_id
            run = ended.executions.get(f"run:{workflow_id.removeprefix('dag:')}:{key}")
            if run is None or run.running or str(run.status) in ("Terminated", "Canceled"):
                continue
            succeeded = str(run.status) == "Completed"
            by_mark = (record.reason or "").startswith("marked")
            if succeeded != (record.state is RunState.SUCCESS) and not by_mark:
                yield f"{record.run_id}: the list says {record.state}, the run {run.status}"


@prop(LEVEL)
def backfills_come_to_their_end(ended: Ended) -> Found:
    """Each backfill that nobody holds back is complete."""
    for workflow_id, dag in ended.of_kind("Dag"):
        for backfill in dag.state.backfills:
            if backfill.open and dag.state.held_up is None and not backfill.is_paused:
                yield f"{workflow_id}: {backfill.backfill_id}, {backfill.running} run, {backfill.awaits}"


@prop(LEVEL)
def consumers_are_known(ended: Ended) -> Found:
    """Each asset that a DAG waits for knows that it does."""
    for workflow_id, dag in ended.of_kind("Dag"):
        for asset_id, tie in dag.state.ties.items():
            asset = ended.objects.get(asset_id)
            if tie.consumes and (asset is None or dag.state.spec.dag_id not in asset.state.consumers):
                yield f"{asset_id} does not know {workflow_id}"


@prop(LEVEL)
def the_last_memo_shows_the_dag(ended: Ended) -> Found:
    """What a list shows of a DAG at rest is what the DAG says itself."""
    for workflow_id, dag in ended.of_kind("Dag"):
        memo = ended.executions[workflow_id].view
        if memo is None:
            continue
        memo, shown = without_newest_run(memo), without_newest_run(dag_line(dag.state))
        if not is_line(memo, shown, NEW_OF_DAGS) and dag._hold_until is None:
            yield f"{workflow_id}: {memo} and not {shown}"


@prop(LEVEL)
def a_list_of_runs_shows_their_end(ended: Ended) -> Found:
    """What a list shows of a run that has ended by itself is an end."""
    for workflow_id, execution in ended.executions.items():
        if execution.kind == "DagRun" and str(execution.status) in ("Completed", "Failed"):
            view = execution.view
            if view is not None and view.get("state", "running") not in ("success", "failed"):
                yield f"{workflow_id} shows {view.get('state')}"


@prop(LEVEL)
def bundles_have_registered_what_files_say(ended: Ended) -> Found:
    """Each DAG that is in a file has the version of its file."""
    for _, bundle in ended.of_kind("DagBundle"):
        for dag_id, owned in bundle.state.dags.items():
            record = bundle.state.files.get(owned.path)
            dag = ended.objects.get(f"dag:{dag_id}")
            wanted = record.dags.get(dag_id) if record is not None else None
            if wanted is not None and dag is not None and dag.state.spec.version != wanted:
                yield f"{dag_id}: {dag.state.spec.version}, its file has {wanted}"


@prop(LEVEL)
def whoever_asked_was_answered(ended: Ended) -> Found:
    """No update is without an answer when nothing goes wrong any more."""
    yield from ended.unanswered


@prop(LEVEL)
def nothing_is_pending(ended: Ended) -> Found:
    """No workflow has a workflow task that fails again and again, or an activity that nobody ends."""
    for workflow_id, execution in ended.executions.items():
        if execution.running and execution.task_attempt > 2:
            yield f"{workflow_id}: attempt {execution.task_attempt}"


@prop(LEVEL)
def the_last_version_is_in_place(ended: Ended) -> Found:
    """A DAG has the version that was registered last, or that is in its file."""
    for dag_id, version in ended.registered.items():
        dag = ended.objects.get(f"dag:{dag_id}")
        running = dag is not None and ended.executions[f"dag:{dag_id}"].running
        known = running and f"dag:{dag_id}" not in ended.lost and not ended.restored
        if known and dag.state.spec.version != version:
            yield f"{dag_id}: {dag.state.spec.version}, and {version} was registered"


@prop(LEVEL)
def each_notice_is_sent(ended: Ended) -> Found:
    """As many notices were sent of a run as it has counted: none is forgotten, none is sent twice."""
    for workflow_id, sent in ended.notices.items():
        run = ended.objects.get(workflow_id)
        if run is not None and not ended.restored and run.state.notices != sent:
            yield f"{workflow_id}: {sent} of {run.state.notices}"


@prop(LEVEL)
def a_run_has_the_conf_that_was_asked_for(ended: Ended) -> Found:
    """A run has the conf that whoever triggered it was answered with, or that was set last while it was queued."""
    for workflow_id, conf in ended.confs.items():
        run = ended.objects.get(workflow_id)
        known = not ended.restored and f"dag:{workflow_id.split(':')[1]}" not in ended.lost
        if run is not None and known and run.state.run.conf != conf:
            yield f"{workflow_id}: {run.state.run.conf}, and {conf} was asked for"
