"""`DagRun` where workers take part in Worker Versioning: a run stays with the build that it began with."""

from temporalio import workflow
from temporalio.common import VersioningBehavior

from ...model.interfaces.run import RunInterface
from ...model.run.state import DagRunState
from .workflow import DagRunWorkflow


# Where workers do not take part, the server refuses a workflow that says how.
@workflow.defn(name=RunInterface.workflow, sandboxed=False, versioning_behavior=VersioningBehavior.PINNED)
class PinnedDagRunWorkflow(DagRunWorkflow):
    """The same workflow, pinned."""

    @workflow.init
    def __init__(self, state: DagRunState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: DagRunState) -> str:
        return await super().run(state)
