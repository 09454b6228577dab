"""Asks runs which slots they hold: what a pool cannot know that was ended, and made again."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from temporalio import activity
from temporalio.client import WorkflowQueryFailedError, WorkflowQueryRejectedError
from temporalio.service import RPCError, RPCStatusCode

from ..model.base import Model
from ..model.pool.state import LeaseRequest

RUNNING = 'WorkflowType = "DagRun" AND ExecutionStatus = "Running"'
AT_ONCE = 32
ANSWERS_WITHIN = timedelta(seconds=20)
GONE = (RPCStatusCode.NOT_FOUND,)


class HoldersQuestion(Model):
    """Who holds slots of *pool*, a workflow id."""

    pool: str
    dag_id: str | None = None
    """The DAG whose runs alone can hold slots; None: those of any."""


@activity.defn(name="tidemill.holders")
async def find_holders(question: HoldersQuestion) -> Sequence[LeaseRequest]:
    """Return the requests by which running runs hold slots of the pool.

    Runs are found by visibility, which lags by moments; what each holds is its own word. Raises RPCError where a run
    cannot be asked now: then nobody knows, and it is asked again.
    """
    client, room = activity.client(), asyncio.Semaphore(AT_ONCE)

    async def ask(workflow_id: str) -> list[LeaseRequest]:
        async with room:
            handle = client.get_workflow_handle(workflow_id)
            try:
                activity.heartbeat()
                held: list[LeaseRequest] = await handle.query(
                    "holds",
                    question.pool,
                    result_type=list[LeaseRequest],
                    rpc_timeout=ANSWERS_WITHIN,
                )
                return held
            except (WorkflowQueryFailedError, WorkflowQueryRejectedError):  # of a release that cannot say
                return []
            except RPCError as error:
                if error.status in GONE:
                    return []
                raise

    prefix = "run:" if question.dag_id is None else f"run:{question.dag_id}:"
    query = f'{RUNNING} AND WorkflowId STARTS_WITH "{prefix}"'
    # Some stores compare without regard to case: what was found is compared once more.
    found = [run.id async for run in client.list_workflows(query) if run.id.startswith(prefix)]
    answers = await asyncio.gather(*map(ask, found))
    return [request for answer in answers for request in answer]
