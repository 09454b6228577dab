"""Runs of DAGs: triggers, shows, changes and deletes them."""

import asyncio
import builtins
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC
from typing import Any

from temporalio.api.enums.v1 import PendingActivityState, TaskQueueType
from temporalio.client import WorkflowExecutionDescription, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from ...activities.names import NEEDS_DRIVER
from ...model.dag.manual_runs import ConfChange
from ...model.dag.views import QueuedRun
from ...model.errors import InvalidInputError, does_not_know
from ...model.interfaces.dag import DagInterface
from ...model.interfaces.run import RunInterface
from ...model.run.changes import marked_while_queued
from ...model.run.identity import RunIdentity, TriggerRequest, dag_workflow_id
from ...model.run.revisions import ClearRequest, ReviseQuestion, RunMark
from ...model.run.state import DagRunState
from ...model.run.views import RunDetails, RunView, details_of_unbegun, details_without_execution, queued_details
from ...model.spec.dag import DagSpec
from ...model.states import RunState
from ..service.connection import NotFoundError, clear_errors
from ..service.deleting import delete_run_histories
from ..service.older_runs import older_run
from ..supervision.attempt_starts import AttemptStart, attempt_starts
from ..supervision.pollers import pollers_of
from .caller import Caller
from .pending import queue_of, with_pending

SHORTEST_WAIT, LONGEST_WAIT = 0.01, 2.0


class Runs:
    """The runs of DAGs."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def trigger(self, dag_id: str, request: TriggerRequest | None = None) -> RunIdentity:
        """Creates a manual run. Raises InvalidInputError, naming the run that holds the date if one does."""
        request = request or TriggerRequest()
        while True:
            try:
                return await self._caller.change_dag(dag_id, DagInterface.trigger_run(request))
            except InvalidInputError as error:
                # A DAG of the release before, which does not know a field yet: the run is worth more than that.
                plain = request.without_later(name for name in request.later_fields if does_not_know(error, name))
                if plain == request:
                    raise
                request = plain

    async def trigger_batch(self, dag_id: str, requests: Sequence[TriggerRequest]) -> builtins.list[RunIdentity]:
        """Creates several manual runs in one step, or none of them if one is refused. Raises InvalidInputError."""
        return await self._caller.change_dag(dag_id, DagInterface.trigger_runs(list(requests)))

    async def set_conf(self, dag_id: str, run_id: str, conf: dict[str, Any]) -> RunIdentity:
        """Gives a run another conf that is still queued. Raises InvalidInputError for one that has begun."""
        return await self._caller.change_dag(dag_id, DagInterface.set_conf(ConfChange(run_id=run_id, conf=conf)))

    async def describe(self, dag_id: str, run_id: str) -> RunDetails:
        """A run with its tasks. A task whose worker has taken it up shows as running, with what it tells of itself."""
        return await self.describe_listed(dag_id, await self.find(dag_id, run_id))

    async def state(self, workflow_id: str) -> DagRunState:
        """All that a run knows, with the results that are kept in its history."""
        async with clear_errors(f"run {workflow_id!r}", self._caller.task_queue):
            state = await self._caller.query(workflow_id, RunInterface.whole_state())
            while state.revision is not None:  # it has not taken up yet what its last execution has left behind
                state = await self._caller.query_of(workflow_id, state.revision.execution, RunInterface.whole_state())
            return state

    async def queued(self, dag_id: str, run_id: str) -> QueuedRun | None:
        """Return a run that is queued for the first time, and why it waits; None where it is not."""
        with suppress(InvalidInputError):  # a worker of the release before does not know the question
            return await self._caller.ask(f"DAG {dag_id!r}", dag_workflow_id(dag_id), DagInterface.queued_run(run_id))
        return None

    async def attempt_starts(self, workflow_id: str) -> builtins.list[AttemptStart]:
        """Which workers have begun which tries of a run."""
        async with clear_errors(f"run {workflow_id!r}", self._caller.task_queue):
            return await attempt_starts(self._caller.client, workflow_id)

    async def find(self, dag_id: str, run_id: str) -> RunView:
        for view in await self.list(dag_id):
            if view.run_id == run_id:
                return view
        # Older than what its DAG keeps a list of: Temporal may still know it.
        if (row := await older_run(self._caller.client, dag_id, run_id)) is not None:
            return row
        raise NotFoundError(f"DAG {dag_id!r} has no run {run_id!r}. `tidemill runs list {dag_id}` shows its runs")

    async def wait(self, run: RunIdentity) -> RunState:
        """Waits until a run that was triggered has ended, and says how. One that is queued may take its time."""
        handle = self._caller.handle(run.workflow_id)
        pause = SHORTEST_WAIT
        while True:
            try:
                await handle.result()
                return RunState.SUCCESS
            except WorkflowFailureError:
                return RunState.FAILED
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
            await asyncio.sleep(pause)  # queued: its workflow does not exist yet
            pause = min(2 * pause, LONGEST_WAIT)

    async def describe_listed(self, dag_id: str, run: RunView) -> RunDetails:
        """Return *run* with its tasks, also while it is queued. Raises NotFoundError where it is forgotten."""
        if run.state is RunState.QUEUED and (queued := await self.queued(dag_id, run.run_id)) is not None:
            return queued_details(marked_while_queued(queued.run, await self._spec(dag_id), queued.marks), queued.why)
        try:
            return await self.describe_workflow(run.workflow_id)
        except NotFoundError:
            if not run.never_began:
                raise
            return details_of_unbegun(dag_id, run, await self._spec(dag_id))

    async def describe_workflow(self, workflow_id: str) -> RunDetails:
        async with clear_errors(f"run {workflow_id!r}", self._caller.task_queue):
            query = self._caller.query(workflow_id, RunInterface.describe())
            handle = self._caller.handle(workflow_id)
            details, description = await asyncio.gather(query, handle.describe())
            while details.goes_on_from is not None:
                before = await self._caller.query_of(workflow_id, details.goes_on_from, RunInterface.describe())
                details = before.model_copy(update={"run": details.run, "state": RunState.RUNNING})
            if description.close_time is not None and not details.state.finished:
                details = await self._ended(details, description)
        running, unclaimed, lost, without_room = {}, set(), {}, set()
        for pending in description.raw_description.pending_activities:
            key = pending.activity_id.split("/")[0]
            if pending.attempt > 1 and pending.HasField("last_failure"):
                lost[key] = str(await self._caller.client.data_converter.decode_failure(pending.last_failure))
            if pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED:
                decoded = await self._caller.client.data_converter.decode(pending.heartbeat_details.payloads) or [None]
                running[key] = (decoded[0], pending.last_started_time.ToDatetime(UTC), pending.attempt)
            elif pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED:
                unclaimed.add(key)
                if pending.activity_id.endswith(NEEDS_DRIVER):
                    without_room.add(key)
        deserted = await self._deserted(
            {queue_of(view, description.task_queue, without_room) for view in details.tasks if view.key in unclaimed}
        )
        queues = dict.fromkeys(unclaimed, description.task_queue)
        return with_pending(details, running, queues, deserted, lost, without_room)

    async def _ended(self, details: RunDetails, description: WorkflowExecutionDescription) -> RunDetails:
        """Return how a run stands whose execution has ended: by its own word, else as its server has ended it."""
        assert description.close_time is not None  # noqa: S101
        last = await self._caller.query_of(description.id, description.run_id, RunInterface.describe())
        return last if last.state.finished else details_without_execution(details, description.close_time)

    async def _spec(self, dag_id: str) -> DagSpec:
        return await self._caller.ask_dag(dag_id, DagInterface.spec())

    async def _deserted(self, queues: set[str]) -> set[str]:
        """Those task queues that no worker polls for activities."""
        kind = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
        return {queue for queue in queues if not await pollers_of(self._caller.client, queue, kind)}

    async def clear(self, dag_id: str, run_id: str, request: ClearRequest | None = None) -> builtins.list[str]:
        """Has tasks of a run run again; a run that has ended goes on under its run_id. Returns the instances."""
        request = request or ClearRequest()
        if request.run_on_latest_version and await self._has_latest(dag_id, run_id):
            request = request.model_copy(update={"run_on_latest_version": None})
        return await self.revise(dag_id, run_id, clear=request)

    async def _has_latest(self, dag_id: str, run_id: str) -> bool:
        """Whether a run that is under way has the version in place: it cannot be given another, and need not be."""
        view = await self.find(dag_id, run_id)
        if view.state is not RunState.RUNNING:
            return False
        state, spec = await asyncio.gather(self.state(view.workflow_id), self._spec(dag_id))
        return state.spec.version == spec.version

    async def mark(self, dag_id: str, run_id: str, mark: RunMark) -> None:
        """Ends a run as success or failed, or changes how an ended one counts."""
        await self.revise(dag_id, run_id, mark_run=mark)

    async def revise(self, dag_id: str, run_id: str, **change: Any) -> builtins.list[str]:
        view = await self.find(dag_id, run_id)
        question = ReviseQuestion(workflow_id=view.workflow_id, **change)
        return await self._caller.change(f"run {run_id!r}", dag_workflow_id(dag_id), DagInterface.revise_run(question))

    async def cancel_all(self, dag_id: str) -> builtins.list[str]:
        """Ends every run of the DAG that is under way, as `cancel` does. Returns their run_ids."""
        running = [view.run_id for view in await self.list(dag_id) if view.state is RunState.RUNNING]
        for run_id in running:
            await self.cancel(dag_id, run_id)
        return running

    async def cancel(self, dag_id: str, run_id: str) -> None:
        """Ends a run that is under way, or queued: what runs is stopped, and the run has failed."""
        view = await self.find(dag_id, run_id)
        if view.state is RunState.QUEUED:
            await self.mark(dag_id, run_id, RunMark(state="failed"))
            return
        async with clear_errors(f"run {run_id!r}", self._caller.task_queue):
            await self._caller.handle(view.workflow_id).cancel()

    async def delete(self, dag_id: str, run_id: str) -> None:
        """Forgets a run that is queued or has ended, with its history: its date can be run again."""
        view = await self.find(dag_id, run_id)
        await self._caller.change_dag(dag_id, DagInterface.delete_run(run_id))
        await delete_run_histories(self._caller.client, view.workflow_id)

    async def list(self, dag_id: str) -> builtins.list[RunView]:
        """Queued, running and recent runs, newest first."""
        return await self._caller.ask_dag(dag_id, DagInterface.runs())
