"""Questions to workflows: patient with a server that is busy, and asked once for all who want the same at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from ..model.interfaces.calls import QueryCall
from .calling import query
from .single_flight import SingleFlight

T = TypeVar("T")
ANSWER_TIMEOUT = timedelta(seconds=5)
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


@dataclass(frozen=True)
class WorkflowCaller:
    """Asks workflows with the worker's client."""

    client: Client
    patience: timedelta
    """So long a workflow is asked again that is too busy to answer."""
    _shared: SingleFlight = field(default_factory=SingleFlight)

    async def query(self, workflow_id: str, call: QueryCall[T]) -> T:
        """The answer to a query. Raises RPCError; NOT_FOUND where there is no such workflow."""

        async def query_once() -> T:
            return await query(self.client.get_workflow_handle(workflow_id), call, within=ANSWER_TIMEOUT)

        again = AsyncRetrying(
            retry=retry_if_exception(is_busy),
            stop=stop_after_delay(self.patience),
            wait=wait_random_exponential(multiplier=0.1, max=2),
            reraise=True,
        )
        return await self._shared.ask(f"{workflow_id} {call.name} {call.arguments}", lambda: again(query_once))
