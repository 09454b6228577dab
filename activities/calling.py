"""Sends messages to workflows: the one place where a message of `model.interfaces` becomes a name that travels."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar, cast

from temporalio.client import Client, WithStartWorkflowOperation, WorkflowHandle
from temporalio.common import QueryRejectCondition, WorkflowIDConflictPolicy

from ..model.interfaces.calls import Interface, QueryCall, SignalCall, UpdateCall

A = TypeVar("A")


async def query(
    handle: WorkflowHandle[Any, Any],
    call: QueryCall[A],
    *,
    rpc_timeout: timedelta | None = None,
    reject: QueryRejectCondition | None = None,
) -> A:
    """Return the answer of a workflow. Raises what `WorkflowHandle.query` raises."""
    found = await handle.query(
        call.name, args=call.arguments, result_type=call.answer, rpc_timeout=rpc_timeout, reject_condition=reject
    )
    return cast("A", found)


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
