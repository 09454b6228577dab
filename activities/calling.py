"""Sends messages to workflows: the one place where a message of `model.interfaces` becomes a name that travels."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar, cast

from temporalio.client import Client, WithStartWorkflowOperation, WorkflowHandle
from temporalio.common import QueryRejectCondition, WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from ..model.interfaces.calls import Interface, QueryCall, SignalCall, UpdateCall

A = TypeVar("A")
UNREADABLE = (KeyError, ValueError, RuntimeError)
"""What reading a memo raises that was written with a codec that is not here, or by a release that is too different."""
TOO_LATE = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
"""Nobody has answered in time: as the server says it, and as the client does that stops waiting."""


async def query(
    handle: WorkflowHandle[Any, Any],
    call: QueryCall[A],
    *,
    rpc_timeout: timedelta | None = None,
    reject: QueryRejectCondition | None = None,
) -> A:
    """Return the answer of a workflow. Raises what `WorkflowHandle.query` raises.

    It is asked again after half of *rpc_timeout*: a worker that makes room in its cache drops the queries that it has
    taken up for a workflow, and nobody answers them ("leftover buffered tasks" in the SDK's log).
    """

    ask = partial(
        handle.query,
        call.name,
        args=call.arguments,
        result_type=call.answer,
        reject_condition=reject,
        rpc_timeout=rpc_timeout and rpc_timeout / 2,
    )
    try:
        found = await ask()
    except RPCError as error:
        if rpc_timeout is None or error.status not in TOO_LATE or is_cancelled():
            raise
        found = await ask()
    return cast("A", found)


def is_cancelled() -> bool:
    """Whether who asks has been cancelled: the SDK tells that as an error of the request."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def update(
    handle: WorkflowHandle[Any, Any],
    call: UpdateCall[A],
    *,
    rpc_timeout: timedelta | None = None,
    once: str | None = None,
) -> A:
    """Return what a change is answered with; sent twice with the same *once*, it is made once.

    Raises what `WorkflowHandle.execute_update` raises.
    """
    made = await handle.execute_update(
        call.name, args=call.arguments, result_type=call.answer, rpc_timeout=rpc_timeout, id=once
    )
    return cast("A", made)


async def signal(handle: WorkflowHandle[Any, Any], call: SignalCall) -> None:
    """Sends a message that is not answered. Raises RPCError."""
    await handle.signal(call.name, args=call.arguments)


def starting(
    of: type[Interface], state: Any, workflow_id: str, task_queue: str, summary: str | None = None
) -> WithStartWorkflowOperation[Any, Any]:
    """Return the start of a workflow with *state*, unless there is one of that id."""
    return WithStartWorkflowOperation(
        of.workflow,
        state,
        id=workflow_id,
        task_queue=task_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        static_summary=summary,
    )


async def update_with_start(
    client: Client,
    start: WithStartWorkflowOperation[Any, Any],
    call: UpdateCall[A],
    *,
    rpc_timeout: timedelta | None = None,
) -> A:
    """As `update`, of a workflow that is started if it is not there."""
    made = await client.execute_update_with_start_workflow(
        call.name, args=call.arguments, start_workflow_operation=start, result_type=call.answer, rpc_timeout=rpc_timeout
    )
    return cast("A", made)
