"""Finds workflows that stand still, and brings them back: `tidemill doctor --repair`.

Two kinds can be repaired. One was answered by a worker that was ahead of the service's store, which had been brought
back from a copy: its history holds answers without orders where the code has given some. It is reset to the first of
them. The other fails its workflow tasks, and this release reads its history without failing: it waits for the end of
Temporal's back-off, which grows to ten minutes, and is reset to the task that failed, unless it has work under way.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner
from temporalio.workflow import Info

from ...model.base import Model
from ...workflows.kinds import workflow_kinds
from .failing import OPEN, failing_workflows
from .listening_runner import ListeningRunner

AT_A_TIME = 8
ANSWER_TIMEOUT = timedelta(seconds=30)
LOOKS_AFTER = (10.0, 30.0)
"""Seconds after a worker's start, and after its first look, at which it looks for workflows that fail."""
ORDERS = {
    "cancel_workflow_execution",
    "complete_workflow_execution",
    "continue_as_new_workflow_execution",
    "fail_workflow_execution",
    "modify_workflow_properties",
    "schedule_activity",
    "start_child_workflow_execution",
    "start_timer",
}
"""Commands that leave an event, unless the same workflow task takes them back."""
TAKEN_BACK = {"cancel_timer": "start_timer", "request_cancel_activity": "schedule_activity"}


log = logging.getLogger(__name__)


class Standing(Model):
    """A workflow that stands still."""

    workflow_id: str
    run_id: str
    kind: str
    """Its workflow type."""
    problem: str
    reset_to: int | None = None
    """The event to which a reset would bring it back; None where none would help."""


class _Orders:
    """What the code orders in each workflow task of a history that is replayed; see listening_runner.Listener."""

    def __init__(self) -> None:
        self.by_task: defaultdict[int, set[tuple[str, int]]] = defaultdict(set)
        """By the number of its WorkflowTaskStarted event; at a history's end, by that of its last event."""
        self.failure: str | None = None
        """What the code has failed of."""

    def hear(self, _: Info, act: WorkflowActivation, answer: WorkflowActivationCompletion) -> None:
        if answer.HasField("failed"):
            self.failure = self.failure or answer.failed.failure.message
        orders = self.by_task[act.history_length]
        for command in answer.successful.commands:
            name = command.WhichOneof("variant")
            seq = getattr(getattr(command, name), "seq", 0) if name else 0
            if name in TAKEN_BACK:
                orders.discard((TAKEN_BACK[name], seq))
            elif name in ORDERS:
                orders.add((name, seq))


async def all_standing(client: Client) -> list[Standing]:
    """The open workflows of the namespace that stand still. Raises RPCError where it cannot be asked."""
    return await standing_among(client, [found.id async for found in client.list_workflows(OPEN)])


async def standing_among(client: Client, workflow_ids: Iterable[str]) -> list[Standing]:
    """Those of *workflow_ids* that are open and stand still. Raises RPCError where they cannot be asked."""
    at_a_time, replays = asyncio.Semaphore(AT_A_TIME), asyncio.Semaphore(1)

    async def look(workflow_id: str) -> Standing | None:
        async with at_a_time:
            return await _look(client, workflow_id, replays)

    return [found for found in await asyncio.gather(*map(look, workflow_ids)) if found is not None]


async def repair(client: Client, standing: Standing) -> None:
    """Resets *standing* to where it can go on from, if there is such a place.

    Signals and updates that have come since are given again. Raises RPCError where the service refuses it.
    """
    if standing.reset_to is None:
        return
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=standing.workflow_id, run_id=standing.run_id),
            workflow_task_finish_event_id=standing.reset_to,
            reason=f"tidemill: {standing.problem}",
            # The same for all who repair it, so that it is reset once.
            request_id=str(uuid5(NAMESPACE_URL, f"{standing.run_id}/{standing.reset_to}")),
        ),
        timeout=ANSWER_TIMEOUT,
    )


async def repair_after_a_rollback(client: Client, task_queue: str) -> None:
    """Looks soon after a worker's start for workflows that fail, and repairs those that its release can carry out.

    So that they do not wait for Temporal's back-off. Not later, and not for ever: beside workers of a release that
    fails, each look would reset them once more.
    """
    for pause in LOOKS_AFTER:
        await asyncio.sleep(pause)
        try:
            failing = await failing_workflows(client, task_queue)
            for each in failing:  # one by one: it may have gone on by itself while others were looked at
                for found in await standing_among(client, [each.workflow_id]):
                    await repair(client, found)
        except RPCError as error:  # the service is away: they wait
            log.debug("workflows that fail could not be looked for: %s", error)
        except Exception as error:
            log.warning("workflows that fail could not be repaired: %s. Look at: tidemill doctor --repair", error)


async def _look(client: Client, workflow_id: str, replays: asyncio.Semaphore) -> Standing | None:
    try:
        found = await client.get_workflow_handle(workflow_id).describe(rpc_timeout=ANSWER_TIMEOUT)
        handle = client.get_workflow_handle(workflow_id, run_id=found.run_id)
        history = await handle.fetch_history(rpc_timeout=ANSWER_TIMEOUT)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:  # it has ended, and is forgotten
            return None
        raise
    if found.close_time is not None:
        return None
    events: Sequence[HistoryEvent] = history.events
    silent, failed = silent_tasks(events), failed_task(events)
    if not silent and failed is None:
        return None
    if failed is not None:  # so that it ends with the start of the task that has failed, and that is tried, too
        history = replace(history, events=events[: failed - 1])
    async with replays:  # beside other workflows of a worker: one at a time
        orders = await asyncio.to_thread(asyncio.run, _replayed(client.data_converter, history))
    for started, completed in silent:
        if orders.by_task.get(started) or orders.by_task.get(completed):
            return _standing(found, "a worker that was ahead of the service's store has answered for it", completed)
    if failed is None or found.raw_description.pending_workflow_task.attempt < 2:
        return None
    if orders.failure is not None:
        problem = f"its workflow task fails, and would with this release: {orders.failure}"
        return _standing(found, problem, None)
    busy = bool(found.raw_description.pending_activities)
    return _standing(found, "its workflow task has failed, and waits to be tried again", None if busy else failed)


def _standing(found: WorkflowExecutionDescription, problem: str, reset_to: int | None) -> Standing:
    return Standing(
        workflow_id=found.id, run_id=found.run_id, kind=found.workflow_type, problem=problem, reset_to=reset_to
    )


def silent_tasks(events: Sequence[HistoryEvent]) -> list[tuple[int, int]]:
    """The workflow tasks at the end of a history that have ordered nothing, oldest first.

    Each as the numbers of its WorkflowTaskStarted and WorkflowTaskCompleted events.
    """
    ordered = {_ordered_by(event) for event in events}
    silent: list[tuple[int, int]] = []
    for event in events:
        if event.event_type != EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            continue
        if event.event_id in ordered:
            silent = []
        else:
            silent.append((event.workflow_task_completed_event_attributes.started_event_id, event.event_id))
    return silent


def failed_task(events: Sequence[HistoryEvent]) -> int | None:
    """The number of the event that says that the last workflow task has failed; None if it has not."""
    failed: int | None = None
    for event in events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            failed = event.event_id
        elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            failed = None
    return failed


def _ordered_by(event: HistoryEvent) -> int:
    """The WorkflowTaskCompleted event that has brought *event* about; 0 where none has."""
    kind = event.WhichOneof("attributes")
    attributes: Any = getattr(event, kind) if kind else None
    return getattr(attributes, "workflow_task_completed_event_id", 0)


async def _replayed(converter: DataConverter, history: WorkflowHistory) -> _Orders:
    """What the code orders in each workflow task, as far as it can be replayed, and what it has failed of."""
    orders = _Orders()
    replayer = Replayer(
        workflows=workflow_kinds(),
        data_converter=converter,
        unsandboxed_workflow_runner=ListeningRunner(UnsandboxedWorkflowRunner(), orders.hear),
        debug_mode=True,  # without the watch for long steps: nobody waits for it
    )
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    if result.replay_failure is not None:
        orders.failure = orders.failure or str(result.replay_failure)
    return orders
