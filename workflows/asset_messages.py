"""What DAGs, runs and assets tell assets and watchers of, which are begun by whoever is the first to name them."""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError

from ..model.asset.state import AssetState, named_asset
from ..model.spec.assets.identity import Asset

AGAIN_FIRST, AGAIN_LAST = timedelta(seconds=1), timedelta(minutes=1)


async def tell_asset(workflow_id: str, signal: str, message: Any, asset: Asset | None) -> None:
    """Tells an asset of something, which is begun as *asset* if it is not there. Ends when that is told."""
    name = workflow_id.partition(":")[2]
    state = AssetState(asset=asset or named_asset(name), is_alias=workflow_id.startswith("asset-"))
    await tell(workflow_id, signal, message, "Asset", state)


async def tell(workflow_id: str, signal: str, message: Any, kind: str, state: Any) -> None:
    """Tells a workflow of something, which is begun as a *kind* in *state* if it is not there."""
    pause = AGAIN_FIRST
    while True:
        try:
            await workflow.get_external_workflow_handle(workflow_id).signal(signal, message)
        except FailureError:
            if not await _begin(workflow_id, kind, state):
                await workflow.sleep(pause)
                pause = min(2 * pause, AGAIN_LAST)
        else:
            return


async def _begin(workflow_id: str, kind: str, state: Any) -> bool:
    """Begins the workflow. False if it is there already, so that it was not that."""
    try:
        begun = await workflow.start_child_workflow(
            kind, state, id=workflow_id, parent_close_policy=workflow.ParentClosePolicy.ABANDON
        )
    except WorkflowAlreadyStartedError:
        return False
    begun.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # its end is its own matter
    return True
