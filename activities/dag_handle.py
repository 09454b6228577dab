"""A DAG that a task has to do with and that is not its own: its runs, and another one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ..model.dag.manual_runs import read_request
from ..model.dag.views import DagView
from ..model.errors import InvalidInputError
from ..model.interfaces.calls import QueryCall, UpdateCall
from ..model.interfaces.dag import DagInterface
from ..model.run.identity import TriggeredBy, dag_workflow_id
from ..model.run.revisions import ClearRequest, ReviseQuestion
from ..model.run.views import RunView
from ..model.spec.dag import DagSpec
from .calling import update
from .workflow_caller import WorkflowCaller

T = TypeVar("T")


class DagNotFoundError(InvalidInputError):
    """No DAG of that id is registered."""


class TriggerRefusedError(InvalidInputError):
    """The DAG does not make the run; its reason is the text."""


@dataclass(frozen=True)
class DagHandle:
    """A DAG by its id. Every question raises DagNotFoundError where there is no such DAG."""

    caller: WorkflowCaller
    dag_id: str

    async def view(self) -> DagView:
        """How the DAG stands."""
        return await self._ask(DagInterface.describe())

    async def spec(self) -> DagSpec:
        """The version of the DAG that is in place."""
        return await self._ask(DagInterface.spec())

    async def runs(self) -> Sequence[RunView]:
        """The runs that the DAG knows."""
        return await self._ask(DagInterface.runs())

    async def run(self, run_id: str | None, logical_date: datetime | None = None) -> RunView | None:
        """The run of that id, else the one of that date."""
        views = await self.runs()
        named = (view for view in views if view.run_id == run_id)
        dated = (view for view in views if logical_date is not None and view.logical_date == logical_date)
        return next(named, None) or next(dated, None)

    async def trigger(self, fields: dict[str, Any]) -> None:
        """Makes a run. A run of the same id that is there by now is it: a call that nobody heard the answer of."""
        try:
            request = read_request({**fields, "triggered_by": TriggeredBy.OPERATOR}, self.dag_id)
        except InvalidInputError as error:
            raise TriggerRefusedError(str(error)) from None
        try:
            await self._update(DagInterface.trigger_run(request))
        except TriggerRefusedError:
            if await self.run(fields["run_id"]) is None:
                raise

    async def clear(self, run: RunView, once: str) -> None:
        """Has all tasks of *run* run again; called twice with the same *once*, it does so once."""
        question = ReviseQuestion(workflow_id=run.workflow_id, clear=ClearRequest())
        await self._update(DagInterface.revise_run(question), once)

    async def _update(self, call: UpdateCall[Any], once: str | None = None) -> None:
        handle = self.caller.client.get_workflow_handle(dag_workflow_id(self.dag_id))
        try:
            await update(handle, call, once=once)
        except WorkflowUpdateFailedError as error:
            reason = error.cause.message if isinstance(error.cause, ApplicationError) else str(error.cause)
            raise TriggerRefusedError(reason) from None

    async def _ask(self, call: QueryCall[T]) -> T:
        try:
            return await self.caller.query(dag_workflow_id(self.dag_id), call)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            message = f"DAG {self.dag_id!r} is not registered. Register it, or correct the dag_id"
            raise DagNotFoundError(message) from None
