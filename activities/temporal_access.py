"""Asks Temporal from the thread of an activity."""

import asyncio
from dataclasses import dataclass

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

ANSWER_WITHIN = 20


@dataclass(frozen=True)
class TemporalAccess:
    """The worker's client, and the loop that it lives in."""

    client: Client
    loop: asyncio.AbstractEventLoop

    def is_open(self, workflow_id: str, run_id: str) -> bool:
        """Whether that execution of the workflow is still running."""
        return asyncio.run_coroutine_threadsafe(self._is_open(workflow_id, run_id), self.loop).result(ANSWER_WITHIN)

    async def _is_open(self, workflow_id: str, run_id: str) -> bool:
        try:
            found = await self.client.get_workflow_handle(workflow_id, run_id=run_id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return False
        return found.status is WorkflowExecutionStatus.RUNNING
