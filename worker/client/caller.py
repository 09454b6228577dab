"""Calls workflows by their interfaces: whoever calls them needs none of their code."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle, WorkflowQueryRejectedError
from temporalio.common import QueryRejectCondition

from ...activities.calling import query, update
from ...activities.single_flight import SingleFlight
from ...model.interfaces.calls import Interface, QueryCall, UpdateCall
from ...model.run.identity import dag_workflow_id
from ..connection import QUERY_TIMEOUT, UPDATE_TIMEOUT, NoWorkerError, clear_errors

T = TypeVar("T")
ENDLESS = ("dag:", "pool:", "bundle:", "asset:", "asset-alias:", "watcher:")
"""Workflows that go on for as long as what they are of exists."""
UPDATES_AT_ONCE = 8
"""The service takes ten updates of a workflow at a time, and refuses others."""


class Caller:
    """Queries and updates of workflows: one question at a time of a kind, and no more updates than a workflow takes."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self.client = client
        self.task_queue = task_queue
        self._shared = SingleFlight()
        self._rooms: WeakValueDictionary[Any, asyncio.Semaphore] = WeakValueDictionary()

    def handle(self, workflow_id: str) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(workflow_id)

    def dag(self, dag_id: str) -> WorkflowHandle[Any, Any]:
        return self.handle(dag_workflow_id(dag_id))

    async def running(self, interface: type[Interface]) -> AsyncIterator[str]:
        """The ids of all workflows of a kind that go on. Visibility may lag behind by a moment."""
        async for execution in self.client.list_workflows(interface.running()):
            yield execution.id

    async def ask_dag(self, dag_id: str, call: QueryCall[T]) -> T:
        return await self.ask(f"DAG {dag_id!r}", dag_workflow_id(dag_id), call)

    async def change_dag(self, dag_id: str, call: UpdateCall[T]) -> T:
        return await self.change(f"DAG {dag_id!r}", dag_workflow_id(dag_id), call)

    async def ask(self, what: str, workflow_id: str, call: QueryCall[T]) -> T:
        """Query a workflow; *what* names in errors whose it is."""
        async with clear_errors(what, self.task_queue):
            return await self.query(workflow_id, call)

    async def change(self, what: str, workflow_id: str, call: UpdateCall[T]) -> T:
        """Update a workflow; *what* names in errors whose it is."""
        async with clear_errors(what, self.task_queue):
            return await self.update(workflow_id, call)

    async def query_of(self, workflow_id: str, execution: str, call: QueryCall[T]) -> T:
        """Asks an execution that has ended."""
        return await query(self.client.get_workflow_handle(workflow_id, run_id=execution), call, within=QUERY_TIMEOUT)

    async def query(self, workflow_id: str, call: QueryCall[T]) -> T:
        handle = self.handle(workflow_id)
        reject = QueryRejectCondition.NOT_OPEN if workflow_id.startswith(ENDLESS) else None
        ask = partial(query, handle, call, within=QUERY_TIMEOUT, reject=reject)

        async def question() -> T:
            try:
                return await ask()
            except WorkflowQueryRejectedError as error:
                if error.status is not WorkflowExecutionStatus.CONTINUED_AS_NEW:
                    raise
            return await ask()  # it went on as another execution while it was asked

        if all(isinstance(given, str | int) for given in call.arguments):
            return await self._shared.ask((workflow_id, call.name, call.arguments), question)
        return await question()

    async def update(self, workflow_id: str, call: UpdateCall[T], *, within: timedelta = UPDATE_TIMEOUT) -> T:
        handle = self.handle(workflow_id)
        room = self._rooms.setdefault((asyncio.get_running_loop(), workflow_id), asyncio.Semaphore(UPDATES_AT_ONCE))
        try:
            await asyncio.wait_for(room.acquire(), within.total_seconds())
        except TimeoutError:  # it has not been sent: nobody has to ask whether it was done all the same
            raise NoWorkerError(
                f"{workflow_id} is busy with other changes, and this one was not made: no worker polls its task queue, "
                "or there are too many at a time. Try again"
            ) from None
        try:
            return await update(handle, call, within=within)
        finally:
            room.release()
