"""Asks runs which slots they hold and wait for: what a pool cannot know that was ended, and made again."""

import asyncio
from datetime import timedelta

from temporalio import activity
from temporalio.client import WorkflowQueryFailedError, WorkflowQueryRejectedError
from temporalio.service import RPCError, RPCStatusCode

from ..model.base import Model
from ..model.interfaces.run import RunInterface
from ..model.pool.state import RunLeases
from ..model.run.identity import beginnings_of_runs
from ..model.workflow_ids import quoted
from .calling import TOO_LATE, query

RUNNING = RunInterface.running()
AT_ONCE = 32
ANSWER_TIMEOUT = timedelta(seconds=10)
GONE = (RPCStatusCode.NOT_FOUND, RPCStatusCode.FAILED_PRECONDITION)
"""There is no such run any more, or nobody has worked for it for minutes."""


class HoldersQuestion(Model):
    """Who holds slots of *pool*, a workflow id."""

    pool: str
    dag_id: str | None = None
    """The DAG whose runs alone can hold slots; None: those of any."""


class Holders(RunLeases):
    """What is held and waited for, as far as runs have answered."""

    silent: tuple[str, ...] = ()
    """Workflow ids of runs that have not answered in time, though somebody worked for them lately."""
    follows_another: bool = False
    """Whether there was a pool of this name before: runs that began moments before its end may not be listed yet."""


@activity.defn(name="tidemill.holders")
async def find_holders(question: HoldersQuestion) -> Holders:
    """Return the requests by which running runs hold slots of the pool, or wait for some.

    Runs are found by visibility, which lags by moments; what each holds is its own word. Raises RPCError where the
    service cannot be asked.
    """
    client, room = activity.client(), asyncio.Semaphore(AT_ONCE)

    async def ask(workflow_id: str) -> RunLeases | None:
        async with room:
            activity.heartbeat()
            handle = client.get_workflow_handle(workflow_id)
            try:
                return await query(handle, RunInterface.leases(question.pool), rpc_timeout=ANSWER_TIMEOUT)
            except (WorkflowQueryFailedError, WorkflowQueryRejectedError):  # of a release that cannot say
                return RunLeases()
            except RPCError as error:
                if error.status in GONE:
                    return RunLeases()
                if error.status in TOO_LATE:
                    return None
                raise

    beginnings = beginnings_of_runs(question.dag_id)
    try:
        found = [
            run.id
            for beginning in beginnings
            async for run in client.list_workflows(f'{RUNNING} AND WorkflowId STARTS_WITH "{beginning}"')
            if run.id.startswith(beginning)
        ]
        of_name = [run.run_id async for run in client.list_workflows(f"WorkflowId = {quoted(question.pool)}", limit=3)]
    except RPCError as error:
        if error.status is RPCStatusCode.UNIMPLEMENTED:  # the SDK's test server has no lists
            return Holders()
        raise
    answers = await asyncio.gather(*map(ask, found))
    return Holders(
        held=tuple(request for answer in answers if answer is not None for request in answer.held),
        waiting=tuple(request for answer in answers if answer is not None for request in answer.waiting),
        silent=tuple(run for run, answer in zip(found, answers, strict=True) if answer is None),
        follows_another=any(run_id != activity.info().workflow_run_id for run_id in of_name),
    )
