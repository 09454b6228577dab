"""The messages of a DAG's workflow."""

from ..asset.gathering import Gathered, Unqueue
from ..asset.state import Delivery
from ..bundle.data import DagFileState
from ..dag.assignment import Assignment
from ..dag.backfill_request import BackfillRequest
from ..dag.backfills import BackfillPlan, BackfillProgress
from ..dag.explaining import Explanation
from ..dag.hand_over import HandOver
from ..dag.manual_runs import ConfChange
from ..dag.previews import Preview
from ..dag.ticks import Ticks
from ..dag.views import DagView, QueuedRun, Registration
from ..run.identity import RunIdentity, TriggerRequest
from ..run.messages import RunReport, TasksEnded
from ..run.revisions import ReviseQuestion
from ..run.views import RunView
from ..spec.dag import DagSpec
from .calls import Interface, Query, Signal, Update


class DagInterface(Interface):
    """What a DAG answers to."""

    workflow = "Dag"
    register: Update[[DagSpec], Registration]
    pause: Signal[[]]
    unpause: Signal[[]]
    take_over: Update[[HandOver], bool]
    assign: Update[[Assignment], bool]
    file_state: Signal[[DagFileState]]
    trigger: Signal[[TriggerRequest]]
    trigger_run: Update[[TriggerRequest], RunIdentity]
    trigger_runs: Update[[list[TriggerRequest]], list[RunIdentity]]
    set_conf: Update[[ConfChange], RunIdentity]
    gathered: Query[[], list[Gathered]]
    unqueue: Update[[Unqueue], int]
    asset_events: Signal[[Delivery]]
    run_finished: Signal[[RunReport]]
    tasks_ended: Signal[[TasksEnded]]
    revise_run: Update[[ReviseQuestion], list[str]]
    delete_run: Update[[str], None]
    create_backfill: Update[[BackfillRequest], BackfillPlan]
    pause_backfill: Update[[str], BackfillProgress]
    unpause_backfill: Update[[str], BackfillProgress]
    cancel_backfill: Update[[str], BackfillProgress]
    backfills: Query[[], list[BackfillProgress]]
    explain: Query[[], Explanation]
    upcoming: Query[[int], Ticks]
    preview: Query[[DagSpec], Preview]
    describe: Query[[], DagView]
    spec: Query[[], DagSpec]
    queued_run: Query[[str], QueuedRun | None]
    runs: Query[[], list[RunView]]
