"""The messages of a run's workflow."""

from typing import Annotated, Any

from ..pool.state import Granted, RunLeases
from ..run.identity import RunIdentity
from ..run.messages import Answer, DagUpdate, XComQuestion
from ..run.progress import Progress
from ..run.revisions import ClearRequest, MarkRequest, RunMark
from ..run.state import DagRunState
from ..run.views import RunDetails
from ..states import RunState
from .calls import Interface, Query, Signal, Update


class RunInterface(Interface):
    """What a run answers to."""

    workflow = "DagRun"
    dag_update: Annotated[Signal[[DagUpdate]], "news"]
    granted: Signal[[Granted]]
    clear_tasks: Update[[ClearRequest], list[str]]
    set_task_state: Update[[MarkRequest], list[str]]
    set_state: Update[[RunMark], RunState]
    respond: Update[[Answer], str]
    xcom: Query[[XComQuestion], dict[str, Any]]
    describe: Query[[], RunDetails]
    progress: Query[[], Progress]
    explain: Query[[str], str]
    leases: Query[[str], RunLeases]
    identity: Query[[], RunIdentity]
    whole_state: Query[[], DagRunState]
    would_clear: Query[[ClearRequest], list[str]]
    would_mark: Query[[MarkRequest], list[str]]
