"""Asks Temporal from the thread of an activity."""

import asyncio
import logging
from dataclasses import dataclass

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

ANSWER_TIMEOUT = 60.0
ASK_EVERY = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TemporalAccess:
    """The worker's client, and the loop that it lives in."""

    client: Client
    loop: asyncio.AbstractEventLoop

    def is_open(self, workflow_id: str, run_id: str) -> bool:
        """Whether that execution of the workflow is still running. Raises TimeoutError if Temporal cannot be asked."""
        pending = asyncio.run_coroutine_threadsafe(self._ask(workflow_id, run_id), self.loop)
        try:
            return pending.result(ANSWER_TIMEOUT)
        finally:
            pending.cancel()

    async def _ask(self, workflow_id: str, run_id: str) -> bool:
        while True:
            try:
                return await self._is_open(workflow_id, run_id)
            except RPCError as error:
                log.warning("Temporal cannot say whether %s goes on: %s; asking again", workflow_id, error)
                await asyncio.sleep(ASK_EVERY)

    async def _is_open(self, workflow_id: str, run_id: str) -> bool:
        try:
            found = await self.client.get_workflow_handle(workflow_id, run_id=run_id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return False
        return found.status is WorkflowExecutionStatus.RUNNING
