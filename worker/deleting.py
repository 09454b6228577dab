"""Has Temporal forget workflows that nobody needs any more."""

from __future__ import annotations

from temporalio.api.common.v1 import WorkflowExecution as Execution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from ..model.run.identity import dag_workflow_id, run_workflow_id
from .listing import PAGE, RUNS


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


async def delete_histories(client: Client, dag_id: str) -> int:
    """Deletes every execution of a DAG and its runs that has ended; how many runs those were.

    A run that goes on without its DAG keeps its history: deleting that would end it under its tasks.
    """
    runs = f'{RUNS} AND WorkflowId STARTS_WITH "{run_workflow_id(dag_id, "")}"'
    deleted: set[str] = set()
    for query in (runs, f'WorkflowId = "{dag_workflow_id(dag_id)}"'):
        async for found in client.list_workflows(query, page_size=PAGE):
            if await _goes_on(client, found):
                continue
            await delete_history(client, found.id, found.run_id)
            deleted.add(found.id)
    return len(deleted - {dag_workflow_id(dag_id)})
