"""The workflow types that a worker of tidemill runs."""

from .asset import AssetWorkflow
from .bundle import DagBundleWorkflow
from .dag.workflow import DagWorkflow
from .pool import PoolWorkflow
from .run.pinned import PinnedDagRunWorkflow
from .run.workflow import DagRunWorkflow
from .watcher import WatcherWorkflow


def workflow_kinds(*, pins_runs: bool = False) -> list[type]:
    """All of them; with *pins_runs*, a run stays with the build of the worker that began it."""
    run = PinnedDagRunWorkflow if pins_runs else DagRunWorkflow
    return [DagWorkflow, run, PoolWorkflow, AssetWorkflow, WatcherWorkflow, DagBundleWorkflow]
