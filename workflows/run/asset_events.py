"""Tells assets that tasks of a run have written them."""

import asyncio

from temporalio import workflow

from ...model.asset.outlets import Emission, OutletEvent
from ...model.interfaces.asset import AssetInterface
from ...model.run.outlet_events import events_of
from ...model.run.state import DagRunState
from ...model.run.task_instances import TaskInstance
from ..asset_messages import tell_asset


class AssetEvents:
    """What is on its way to assets."""

    def __init__(self, state: DagRunState) -> None:
        self._state = state
        self._telling: set[asyncio.Task[None]] = set()

    @property
    def all_sent(self) -> bool:
        return not self._telling

    def tell(self, instance: TaskInstance, outlet_events: tuple[OutletEvent, ...]) -> None:
        """Tells of what a task has written that has succeeded."""
        task, run = self._state.spec.by_id[instance.task_id], self._state.run
        if not task.outlets:
            return
        execution = workflow.info().first_execution_run_id
        found, of_before = (
            events_of(run, task, instance, outlet_events, execution, every=every) for every in (True, False)
        )
        if len(of_before) < len(found):
            workflow.deprecate_patch("every-event-of-an-outlet")
        telling = asyncio.create_task(_tell(found))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)


async def _tell(found: list[Emission]) -> None:
    """Tells of the events of one task, in order."""
    for emission in found:
        for workflow_id in emission.workflow_ids:
            asset = emission.asset if workflow_id.startswith("asset:") else None
            await tell_asset(workflow_id, AssetInterface.tell(emission.event), asset)
