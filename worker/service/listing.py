"""Lists of DAGs and runs, from Temporal's visibility: a DAG is asked only for what its line has not, and may be silent.

Visibility may lag behind by a moment: lists are for people, and nothing is decided from them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError

from ...activities.calling import UNREADABLE, query
from ...model.dag.row import DagRow, row_of_view
from ...model.dag.views import whole_row
from ...model.interfaces.calls import QueryCall
from ...model.interfaces.dag import DagInterface
from ...model.interfaces.run import RunInterface
from ...model.run.identity import beginnings_of_runs, dag_workflow_id
from ...model.run.row import RunRow
from ...model.states import RunState
from ..supervision.failing import problem_of
from .connection import QUERY_TIMEOUT, clear_errors

DAGS = DagInterface.running()
RUNS = RunInterface.listed()
AT_ONCE = 50
"""How many executions are read at a time."""
PAGE = 1000


async def runs_of_dag(client: Client, dag_id: str, but: str = "") -> AsyncIterator[WorkflowExecution]:
    """Every execution of the DAG's runs that Temporal lists; *but* is added to the question."""
    for beginning in beginnings_of_runs(dag_id):
        query = f'{RUNS} AND WorkflowId STARTS_WITH "{beginning}"{but}'
        async for found in client.list_workflows(query, page_size=PAGE):
            if found.id.startswith(beginning):
                yield found


async def dag_rows(client: Client, task_queue: str) -> tuple[list[DagRow], dict[str, str]]:
    """Every registered DAG; and by dag_id, what is the matter with those that cannot be shown.

    A DAG that a release before has begun keeps no line of its own yet, and is asked.
    """
    rows: dict[str, DagRow] = {}
    problems: dict[str, str] = {}
    room = asyncio.Semaphore(AT_ONCE)

    async def read(found: WorkflowExecution) -> None:
        dag_id = found.id.removeprefix("dag:")
        async with room:
            await asyncio.sleep(0)  # reading needs no waiting: others on this loop have their turn
            try:
                view = (await found.memo()).get("view")
                if view is not None:
                    rows[dag_id] = DagRow.model_validate({**view, "problem": problem_of(found)})
                    return
            except UNREADABLE as error:
                problems[dag_id] = f"DAG {dag_id!r}: its memo cannot be read here: {error}. Set TIDEMILL_CLIENT_PLUGINS"
                return
            if (problem := problem_of(found)) is not None:
                rows[dag_id] = DagRow(dag_id=dag_id, problem=problem)  # nobody else can say more of it
                return
            try:
                rows[dag_id] = await _row_of(client, found.id, dag_id, task_queue)
            except (RuntimeError, LookupError, ValueError, RPCError) as error:
                problems[dag_id] = str(error)

    # Listed first: what the service raises is raised as it is.
    listed = [found async for found in client.list_workflows(DAGS, page_size=PAGE)]
    await asyncio.gather(*map(read, listed))
    return [rows[dag_id] for dag_id in sorted(rows)], dict(sorted(problems.items()))


async def whole_rows(client: Client, rows: Sequence[DagRow], task_queue: str) -> list[DagRow]:
    """*rows*, with the texts of those that are too long for a line; of a DAG that is silent, as it was listed.

    Waits for no longer than one question may take.
    """
    room = asyncio.Semaphore(AT_ONCE)

    async def whole(row: DagRow) -> DagRow:
        handle = client.get_workflow_handle(dag_workflow_id(row.dag_id))
        async with room, clear_errors(f"DAG {row.dag_id!r}", task_queue):
            return whole_row(row, await query(handle, DagInterface.spec(), rpc_timeout=QUERY_TIMEOUT))

    requests = {row.dag_id: asyncio.create_task(whole(row)) for row in rows if row.lacks_texts}
    if requests:
        await asyncio.wait(requests.values(), timeout=QUERY_TIMEOUT.total_seconds())
    for task in requests.values():
        task.cancel()
    await asyncio.gather(*requests.values(), return_exceptions=True)
    known = {
        dag_id: task.result() for dag_id, task in requests.items() if not task.cancelled() and not task.exception()
    }
    return [known.get(row.dag_id, row) for row in rows]


async def _row_of(client: Client, workflow_id: str, dag_id: str, task_queue: str) -> DagRow:
    async with clear_errors(f"DAG {dag_id!r}", task_queue):
        as_it_is: QueryCall[Any] = replace(DagInterface.describe(), answer=dict[str, Any])  # of any release
        view = await query(client.get_workflow_handle(workflow_id), as_it_is, rpc_timeout=QUERY_TIMEOUT)
    return row_of_view(view).model_copy(update={"is_cut": True})


async def run_rows(
    client: Client,
    *,
    state: RunState | None = None,
    run_type: str | None = None,
    ended_after: datetime | None = None,
    limit: int = 100,
) -> AsyncIterator[RunRow]:
    """Runs of all DAGs, the newest first, at most *limit*, each once and as it stands now.

    A run that ran again has an execution for each time; the newest one counts. Those that are queued have no workflow
    yet.
    """
    if state is RunState.QUEUED:
        return
    states = {RunState.RUNNING: "Running", RunState.SUCCESS: "Completed"}
    query = RUNS
    if state is RunState.FAILED:
        query += ' AND ExecutionStatus IN ("Failed", "Terminated", "Canceled", "TimedOut")'
    elif state is not None:
        query += f' AND ExecutionStatus = "{states[state]}"'
    else:
        query += ' AND ExecutionStatus != "ContinuedAsNew"'
    if ended_after is not None:
        query += f' AND (ExecutionStatus = "Running" OR CloseTime >= "{ended_after.isoformat()}")'
    left = limit
    async for found in _newest_of_each(client, query, min(limit, PAGE), may_go_on=state is not None):
        await asyncio.sleep(0)  # as above
        row = await run_row(found)
        if run_type is not None and row.run_type != run_type:
            continue
        yield row
        left -= 1
        if left == 0:
            return


async def _newest_of_each(
    client: Client, query: str, page_size: int, *, may_go_on: bool
) -> AsyncIterator[WorkflowExecution]:
    """The executions of *query* without those after which their workflow has begun another one.

    Of those listed, the newest of a workflow comes first; *may_go_on*: whether there may be one that is not listed.
    """
    seen: set[str] = set()
    batch: list[WorkflowExecution] = []
    async for found in client.list_workflows(query, page_size=page_size):
        if found.id in seen:
            continue
        seen.add(found.id)
        if not may_go_on:
            yield found
            continue
        batch.append(found)
        if len(batch) == AT_ONCE:
            for one in await _not_followed(client, batch):
                yield one
            batch.clear()
    for one in await _not_followed(client, batch):
        yield one


async def _not_followed(client: Client, listed: Sequence[WorkflowExecution]) -> list[WorkflowExecution]:
    """Those of *listed* that are the newest execution of their workflow."""
    if not listed:
        return []
    ids = ", ".join(f'"{found.id}"' for found in listed)
    newest: dict[str, datetime] = {}
    async for found in client.list_workflows(f"{RUNS} AND WorkflowId IN ({ids})", page_size=PAGE):
        newest[found.id] = max(found.start_time, newest.get(found.id, found.start_time))
    return [found for found in listed if found.start_time >= newest.get(found.id, found.start_time)]


async def ended_rows(client: Client, since: datetime | None) -> AsyncIterator[RunRow]:
    """Runs of all DAGs that have ended, those that ended before *since* left out."""
    query = f'{RUNS} AND ExecutionStatus IN ("Completed", "Failed", "Terminated", "Canceled", "TimedOut")'
    if since is not None:
        query += f' AND CloseTime >= "{since.isoformat()}"'
    async for found in client.list_workflows(query, page_size=PAGE):
        yield await run_row(found)


async def run_row(found: WorkflowExecution) -> RunRow:
    bare = {"dag_id": "", "run_id": found.id, "workflow_id": found.id}
    try:
        memo = await found.memo()
        known = memo.get("view") or {"dag_id": memo.get("dag_id", ""), "run_id": memo.get("run_id", found.id)}
        row = RunRow.model_validate({**known, "workflow_id": found.id, "problem": problem_of(found)})
    except UNREADABLE:
        row = RunRow.model_validate(bare)
    # How an execution has ended its server knows best: one that was terminated could not write it down.
    ends = {WorkflowExecutionStatus.RUNNING: RunState.RUNNING, WorkflowExecutionStatus.COMPLETED: RunState.SUCCESS}
    end = ends.get(found.status, RunState.FAILED) if found.status is not None else row.state
    times = {"started_at": row.started_at or found.start_time, "ended_at": row.ended_at or found.close_time}
    return row.model_copy(update={"state": end, **times})
