"""What DAGs, runs and assets tell assets and watchers of, which are begun by whoever is the first to name them."""

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError

from ..model.asset.state import AssetState, named_asset
from ..model.base import Record
from ..model.interfaces.asset import AssetInterface
from ..model.interfaces.calls import Interface, SignalCall
from ..model.spec.assets.identity import Asset
from .calls import send

AGAIN_FIRST, AGAIN_LAST = timedelta(seconds=1), timedelta(minutes=1)


async def tell_asset(workflow_id: str, call: SignalCall, asset: Asset | None) -> None:
    """Tells an asset of something, which is begun as *asset* if it is not there. Ends when that is told."""
    name = workflow_id.partition(":")[2]
    state = AssetState(asset=asset or named_asset(name), is_alias=workflow_id.startswith("asset-"))
    await tell(workflow_id, call, AssetInterface, state)


async def tell(workflow_id: str, call: SignalCall, of: type[Interface], state: Record) -> None:
    """Tells a workflow of something, which is begun as one *of* that kind in *state* if it is not there."""
    pause = AGAIN_FIRST
    while True:
        try:
            await send(workflow.get_external_workflow_handle(workflow_id), call)
        except FailureError:
            if not await _begin(workflow_id, of, state):
                await workflow.sleep(pause)
                pause = min(2 * pause, AGAIN_LAST)
        else:
            return


async def _begin(workflow_id: str, of: type[Interface], state: Record) -> bool:
    """Begins the workflow. False if it is there already, so that it was not that."""
    try:
        begun = await workflow.start_child_workflow(
            of.workflow, state, id=workflow_id, parent_close_policy=workflow.ParentClosePolicy.ABANDON
        )
    except WorkflowAlreadyStartedError:
        return False
    begun.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # its end is its own matter
    return True
