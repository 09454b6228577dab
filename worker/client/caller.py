"""Calls workflows by their interfaces: whoever calls them needs none of their code."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from temporalio.client import Client, WorkflowHandle

from ...activities.calling import update
from ...activities.workflow_caller import WorkflowCaller
from ...model.interfaces.calls import Interface, QueryCall, UpdateCall
from ...model.run.identity import dag_workflow_id
from ..service.connection import QUERY_TIMEOUT, UPDATE_TIMEOUT, NoWorkerError, clear_errors

T = TypeVar("T")
UPDATES_AT_ONCE = 8
"""The service takes ten updates of a workflow at a time, and refuses others."""


class Caller(WorkflowCaller):
    """Queries and updates of workflows, by a program that says what to do when they are not answered.

    No more updates are sent at a time than a workflow takes.
    """

    def __init__(self, client: Client, task_queue: str) -> None:
        super().__init__(client, rpc_timeout=QUERY_TIMEOUT, rejects_ended=True)
        self.task_queue = task_queue
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

    async def update(self, workflow_id: str, call: UpdateCall[T], *, rpc_timeout: timedelta = UPDATE_TIMEOUT) -> T:
        handle = self.handle(workflow_id)
        room = self._rooms.setdefault((asyncio.get_running_loop(), workflow_id), asyncio.Semaphore(UPDATES_AT_ONCE))
        try:
            await asyncio.wait_for(room.acquire(), rpc_timeout.total_seconds())
        except TimeoutError:  # it has not been sent: nobody has to ask whether it was done all the same
            raise NoWorkerError(
                f"{workflow_id} is busy with other changes, and this one was not made: no worker polls its task queue, "
                "or there are too many at a time. Try again"
            ) from None
        try:
            return await update(handle, call, rpc_timeout=rpc_timeout)
        finally:
            room.release()
