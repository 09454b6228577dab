"""Has Temporal forget workflows that nobody needs any more."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

from temporalio.api.common.v1 import WorkflowExecution as Execution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from ...model.run.identity import dag_workflow_id
from .listing import PAGE, RUNS, runs_of_dag

FORGETTING_TIMEOUT_SECONDS = 90
LOOK_AGAIN_SECONDS = 0.05


async def delete_history(client: Client, workflow_id: str, execution: str = "") -> None:
    """Deletes one execution, by default the last; nothing if there is none."""
    found = Execution(workflow_id=workflow_id, run_id=execution)
    request = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=found)
    try:
        await client.workflow_service.delete_workflow_execution(request)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


async def delete_run_histories(client: Client, workflow_id: str) -> None:
    """Deletes every execution of a run that has ended: one that was cleared has several."""
    await delete_history(client, workflow_id)
    async for found in client.list_workflows(f'{RUNS} AND WorkflowId = "{workflow_id}"', page_size=PAGE):
        if not await _goes_on(client, found):
            await delete_history(client, found.id, found.run_id)


async def _goes_on(client: Client, found: WorkflowExecution) -> bool:
    """As the execution itself says: the listing lags."""
    if found.status is not WorkflowExecutionStatus.RUNNING:
        return False
    try:
        now = await client.get_workflow_handle(found.id, run_id=found.run_id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return now.status is WorkflowExecutionStatus.RUNNING


async def delete_histories(client: Client, dag_id: str, known: Collection[str]) -> set[str]:
    """Deletes every execution of a DAG and its runs that has ended; the workflows of these runs.

    A run that goes on without its DAG keeps its history: deleting that would end it under its tasks. *known* are runs
    that have ended, by their workflows: the listing lags.
    """
    of_the_dag = client.list_workflows(f'WorkflowId = "{dag_workflow_id(dag_id)}"', page_size=PAGE)
    deleted: set[str] = set(known)
    for workflow_id in known:
        await delete_history(client, workflow_id)
    for executions in (runs_of_dag(client, dag_id), of_the_dag):
        async for found in executions:
            if await _goes_on(client, found):
                continue
            await delete_history(client, found.id, found.run_id)
            deleted.add(found.id)
    return deleted - {dag_workflow_id(dag_id)}


async def until_forgotten(client: Client, workflow_ids: Collection[str]) -> None:
    """Waits until Temporal has deleted the workflows that it was asked to, which it does within about half a minute.

    No longer than `FORGETTING_TIMEOUT_SECONDS`.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(FORGETTING_TIMEOUT_SECONDS):
            for workflow_id in workflow_ids:
                await _gone(client, workflow_id)


async def _gone(client: Client, workflow_id: str) -> None:
    while True:
        try:
            await client.get_workflow_handle(workflow_id).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
