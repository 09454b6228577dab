"""What DAGs and runs tell assets of: an asset's workflow is begun by whoever is the first to name it."""

from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError

from ..model.asset.state import AssetState
from ..model.spec.assets.identity import Asset


async def tell_asset(workflow_id: str, signal: str, message: Any, asset: Asset | None) -> None:
    """Tells an asset of something, which is begun as *asset* if it is not there."""
    for _ in range(2):
        try:
            await workflow.get_external_workflow_handle(workflow_id).signal(signal, message)
        except FailureError:
            await _begin(workflow_id, asset)
        else:
            return


async def _begin(workflow_id: str, asset: Asset | None) -> None:
    name = workflow_id.partition(":")[2]
    state = AssetState(asset=asset or Asset.model_validate({"name": name}), is_alias=workflow_id.startswith("asset-"))
    try:
        begun = await workflow.start_child_workflow(
            "Asset", state, id=workflow_id, parent_close_policy=workflow.ParentClosePolicy.ABANDON
        )
    except WorkflowAlreadyStartedError:
        return
    begun.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # its end is its own matter
