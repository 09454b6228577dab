"""Questions to workflows: patient with a server that is busy, and asked once for all who want the same at a time."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TypeVar

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowQueryRejectedError
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from ..model.interfaces.calls import QueryCall
from .calling import query
from .single_flight import SingleFlight

T = TypeVar("T")
ANSWER_TIMEOUT = timedelta(seconds=5)
ENDLESS = ("dag:", "pool:", "bundle:", "asset:", "asset-alias:", "watcher:")
"""Workflows that go on for as long as what they are of exists."""
BUSY = (
    RPCStatusCode.RESOURCE_EXHAUSTED,  # a workflow with work of its own holds back one query only
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.FAILED_PRECONDITION,  # no worker polls, as while the only one is replaced
)


def is_busy(error: BaseException) -> bool:
    """Whether the same question may be answered a little later."""
    return isinstance(error, RPCError) and error.status in BUSY


class WorkflowCaller:
    """Asks workflows: one question at a time of a kind, and again for *patience* where a workflow is too busy.

    *rejects_ended*: what goes on for as long as what it is of exists is not asked once it has ended. Else it answers
    as it was then, as tasks want it whose DAG is registered anew in a moment.
    """

    def __init__(
        self,
        client: Client,
        patience: timedelta = timedelta(0),
        rpc_timeout: timedelta = ANSWER_TIMEOUT,
        *,
        rejects_ended: bool = False,
    ) -> None:
        self.client = client
        self._patience = patience
        self._rpc_timeout = rpc_timeout
        self._rejected = ENDLESS if rejects_ended else ()
        self._shared = SingleFlight()

    async def query(self, workflow_id: str, call: QueryCall[T]) -> T:
        """Return the answer to a query.

        Raises RPCError, NOT_FOUND where there is no such workflow, and WorkflowQueryRejectedError for one that has
        ended and is not asked.
        """
        key = (workflow_id, call.name, repr(call.arguments))
        return await self._shared.ask(key, lambda: self._patiently(workflow_id, call))

    async def query_of(self, workflow_id: str, execution: str, call: QueryCall[T]) -> T:
        """As `query`, of an execution that has ended."""
        handle = self.client.get_workflow_handle(workflow_id, run_id=execution)
        return await query(handle, call, rpc_timeout=self._rpc_timeout)

    async def _patiently(self, workflow_id: str, call: QueryCall[T]) -> T:
        again = AsyncRetrying(
            retry=retry_if_exception(is_busy),
            stop=stop_after_delay(self._patience),
            wait=wait_random_exponential(multiplier=0.1, max=2),
            reraise=True,
        )
        return await again(self._query_open, workflow_id, call)

    async def _query_open(self, workflow_id: str, call: QueryCall[T]) -> T:
        reject = QueryRejectCondition.NOT_OPEN if workflow_id.startswith(self._rejected) else None
        ask = partial(
            query, self.client.get_workflow_handle(workflow_id), call, rpc_timeout=self._rpc_timeout, reject=reject
        )
        try:
            return await ask()
        except WorkflowQueryRejectedError as error:
            if error.status is not WorkflowExecutionStatus.CONTINUED_AS_NEW:
                raise
        return await ask()  # it went on as another execution while it was asked
