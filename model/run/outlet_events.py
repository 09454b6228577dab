"""The events of assets that a task of a run has written, whoever tells of them."""

from ..asset.outlets import Emission, OutletEvent, emissions
from ..spec.tasks import BaseTask
from .identity import RunIdentity
from .task_instances import TaskInstance


def events_of(
    run: RunIdentity,
    task: BaseTask,
    instance: TaskInstance,
    recorded: tuple[OutletEvent, ...],
    execution: str,
    *,
    every: bool = True,
) -> list[Emission]:
    """Return what there is to tell of a try that has succeeded; *recorded* is what it has told of its outlets itself.

    *execution* is the run's first in Temporal: a try of a run that was run again is another. *every*: see `emissions`.
    """
    source = {
        "source_dag_id": run.dag_id,
        "source_run_id": run.run_id,
        "source_task_id": instance.task_id,
        "source_map_index": instance.map_index,
    }
    own = {"partition_key": run.partition_key, "partition_date": run.partition_date}
    # The same however often it is told, and another for each try, also of a run that was run again.
    cause = f"{run.dag_id}/{run.run_id}/{instance.key}/{instance.try_number}/{execution}"
    return emissions(task, recorded, source, cause, own if run.partition_key is not None else {}, every=every)
