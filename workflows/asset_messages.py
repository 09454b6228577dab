"""What DAGs and runs tell assets of: an asset's workflow is begun by whoever is the first to name it."""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError

from ..model.asset.state import AssetState, named_asset
from ..model.spec.assets.identity import Asset

AGAIN_FIRST, AGAIN_LAST = timedelta(seconds=1), timedelta(minutes=1)


async def tell_asset(workflow_id: str, signal: str, message: Any, asset: Asset | None) -> None:
    """Tells an asset of something, which is begun as *asset* if it is not there. Ends when that is told."""
    pause = AGAIN_FIRST
    while True:
        try:
            await workflow.get_external_workflow_handle(workflow_id).signal(signal, message)
        except FailureError:
            if not await _begin(workflow_id, asset):
                await workflow.sleep(pause)
                pause = min(2 * pause, AGAIN_LAST)
        else:
            return


async def _begin(workflow_id: str, asset: Asset | None) -> bool:
    """Begins the asset's workflow. False if it is there already, so that it was not that."""
    name = workflow_id.partition(":")[2]
    state = AssetState(asset=asset or named_asset(name), is_alias=workflow_id.startswith("asset-"))
    try:
        begun = await workflow.start_child_workflow(
            "Asset", state, id=workflow_id, parent_close_policy=workflow.ParentClosePolicy.ABANDON
        )
    except WorkflowAlreadyStartedError:
        return False
    begun.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # its end is its own matter
    return True
