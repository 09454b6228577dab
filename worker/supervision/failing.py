"""Workflows whose code fails: their workflow tasks are tried again and again, and nothing of them goes on."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import Client, WorkflowExecution
from temporalio.service import RPCError, RPCStatusCode

from ...model.base import Model
from ...model.spec.tasks.foreign import OWN_WORKFLOWS

NAMES = ", ".join(f'"{name}"' for name in sorted(OWN_WORKFLOWS))
OPEN = f'ExecutionStatus = "Running" AND WorkflowType IN ({NAMES})'
REPORTED = "TemporalReportedProblems"
"""What Temporal's service, from its release 1.30 on, lists of an execution whose tasks have failed several times."""
ANSWER_TIMEOUT = timedelta(seconds=10)
CAUSE = "cause=WorkflowTaskFailedCause"


class FailingWorkflow(Model):
    """An open workflow whose tasks fail. *dag_id* is None for a pool, an asset, a bundle."""

    workflow_id: str
    dag_id: str | None = None
    problem: str


def problem_of(listed: WorkflowExecution) -> str | None:
    """Why the workflow tasks of an execution fail, as the service lists it; None where they do not, or it is closed."""
    reported = listed.search_attributes.get(REPORTED)
    if not reported or listed.close_time is not None:
        return None
    causes = [str(one).removeprefix(CAUSE) for one in reported if str(one).startswith(CAUSE)]
    return f"its workflow tasks fail ({', '.join(causes) or 'no cause is listed'}): the log of the worker has the error"


async def failing_workflows(client: Client, task_queue: str | None = None) -> list[FailingWorkflow]:
    """The open workflows whose workflow task has failed several times, by id; those of *task_queue* alone, if given.

    None where the service is of a release that does not say so. Raises RPCError where it cannot be asked.
    """
    try:
        query = f"{OPEN} AND {REPORTED} IS NOT NULL"
        if task_queue is not None:
            query += f' AND TaskQueue = "{task_queue}"'
        listed = [found async for found in client.list_workflows(query, rpc_timeout=ANSWER_TIMEOUT)]
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            return []
        raise
    return sorted([await _of(found) for found in listed], key=lambda found: found.workflow_id)


async def count_failing(client: Client) -> int:
    """How many there are in the namespace: one short question, for who asks often. Raises as `failing_workflows`."""
    try:
        return (await client.count_workflows(f"{OPEN} AND {REPORTED} IS NOT NULL", rpc_timeout=ANSWER_TIMEOUT)).count
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            return 0
        raise


async def _of(found: WorkflowExecution) -> FailingWorkflow:
    try:
        dag_id = (await found.memo()).get("dag_id")
    except (KeyError, ValueError, RuntimeError):  # written with a codec that is not here
        dag_id = None
    if found.workflow_type == "Dag":
        dag_id = found.id.removeprefix("dag:")
    return FailingWorkflow(
        workflow_id=found.id, dag_id=dag_id, problem=problem_of(found) or "its workflow tasks have failed"
    )
