"""The same properties on histories of a real server: read as events, and replayed with a look after each step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dst.clock import microseconds
from dst.history import Event
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer
from temporalio.worker._workflow_instance import (
    UnsandboxedWorkflowRunner,
    WorkflowInstance,
    WorkflowInstanceDetails,
)
from tidemill.worker.pictures.replay import has_begun
from tidemill.worker.plugin import TidemillPlugin
from tidemill.worker.service.converter import TidemillPayloadConverter

from .catalogue import Look, of_level, sleeps
from .checking import PICTURES, Checks, check_history
from .histories import Installation

CLOSES = {
    "complete_workflow_execution": "Completed",
    "fail_workflow_execution": "Failed",
    "cancel_workflow_execution": "Canceled",
    "continue_as_new_workflow_execution": "ContinuedAsNew",
}
ON_PURPOSE = frozenset({"workflow-tasks-do-not-fail"})
"""What tests bring about themselves: workflows of another release, steps that are too large."""

TELLING = frozenset(
    {
        "activity_type",
        "accepted_request_sequencing_event_id",
        "attempt",
        "cause",
        "marker_name",
        "scheduled_event_id",
        "signal_name",
        "start_to_fire_timeout",
        "timer_id",
        "workflow_id",
        "workflow_type",
    }
)
"""What of an event's attributes says which it is."""


WIDE = 200
"""Each step of a run with so many instances is looked at, of one with ten times as many each tenth: a look costs a
moment for each instance, and so would the whole history grow with their square."""


class LookingRunner(UnsandboxedWorkflowRunner):
    """Runs workflows for a replay, and looks at each after its workflow tasks."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []
        self._checks = Checks()
        self._numbers = count()

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        made = super().create_instance(det)
        real, memo, steps = made.activate, {"view": None}, count()
        execution = f"{det.info.run_id} {next(self._numbers)}"

        def activate(act: WorkflowActivation) -> Any:
            completion = real(act)
            if det.info.workflow_type in PICTURES and not any(job.HasField("remove_from_cache") for job in act.jobs):
                self._look(execution, made, det, act, completion, memo, next(steps))
            return completion

        made.activate = activate  # type: ignore[method-assign]
        return made

    def _look(
        self,
        execution: str,
        made: Any,
        det: WorkflowInstanceDetails,
        act: WorkflowActivation,
        completion: Any,
        memo: dict[str, Any],
        step: int,
    ) -> None:
        closed = None
        for command in completion.successful.commands:
            kind = command.WhichOneof("variant") or ""
            closed = CLOSES.get(kind, closed)
            if kind == "modify_workflow_properties":
                memo["view"] = json.loads(command.modify_workflow_properties.upserted_memo.fields["view"].data)
        if made._object is None or not hasattr(made._object, "state"):
            return
        if closed is None and step % max(1, len(getattr(made._object.state, "instances", ())) // WIDE):
            return
        now = act.timestamp.ToDatetime(UTC)
        look = Look(
            det.info.workflow_id,
            now,
            made._object,
            {},
            closed,
            memo["view"],
            act.continue_as_new_suggested,
            sleeps(made),
            act.jobs,
            *_answers(completion),
        )
        self.found += self._checks.look(det.info.workflow_type, execution, look, det.info.continued_run_id)


def _answers(completion: Any) -> tuple[set[str], set[str]]:
    """The updates that a workflow task has refused, and those that it has carried out."""
    responses = [c.update_response for c in completion.successful.commands if c.HasField("update_response")]
    refused = {response.protocol_instance_id for response in responses if response.HasField("rejected")}
    return refused, {response.protocol_instance_id for response in responses if response.HasField("completed")}


async def violated_by(client: Client, query: str, home: Path, most: int | None = None) -> list[str]:
    """Replay what *client* finds by *query*, *most* at most, and return what does not hold: of steps, of all together.

    Without a cache, as a worker does after a restart. Raises what a replay raises, with the workflow's id.
    """
    runner = LookingRunner()
    # Without its watch for steps that take two seconds: a busy machine is no mistake of a workflow.
    replayer = Replayer(
        workflows=[], plugins=[TidemillPlugin(home)], unsandboxed_workflow_runner=runner, debug_mode=True
    )
    histories = []
    async for found in client.list_workflows(query, limit=most):
        try:
            history = await client.get_workflow_handle(found.id, run_id=found.run_id).fetch_history()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:  # lists lag: a test has deleted it
                continue
            raise
        if not has_begun(history):
            continue
        histories.append(history)
        try:
            await replayer.replay_workflow(history)
        except Exception as error:
            error.add_note(_told(history))
            raise
    whole = most is None or len(histories) < most
    return [f"{name}: {about}" for name, about in [*runner.found, *check_real(histories, together=whole)]]


def _told(history: WorkflowHistory) -> str:
    """Each event in a line, for who sees no more of a run than what it printed."""
    lines = [f"{event.event_time.ToDatetime().time()} {event.event_id} {_details(event)}" for event in history.events]
    return "\n".join([f"the history of {history.workflow_id}:", *lines])


def _details(event: HistoryEvent) -> str:
    attributes = getattr(event, str(event.WhichOneof("attributes")))
    told = (f"{field.name}={value}" for field, value in attributes.ListFields() if field.name in TELLING)
    return " ".join([EventType.Name(event.event_type).removeprefix("EVENT_TYPE_"), *told]).replace("\n", " ")[:200]


def check_real(histories: list[WorkflowHistory], *, together: bool = True) -> Iterator[tuple[str, str]]:
    """What does not hold of real histories, each alone and, where all are there, all *together*."""
    executions = [execution_of(history) for history in histories]
    for execution in executions:
        for name, about in check_history(execution):
            if name not in ON_PURPOSE:
                yield name, about
    if not together:
        return
    plain = [execution for execution in executions if execution.kind != "DagRun" or _is_plain(execution.input[0])]
    converter = TidemillPayloadConverter()
    installation = Installation(plain, converter.from_payload, {}, None)
    installation.disturbed = {each.workflow_id for each in executions if each.disturbed}
    installation.deleted = {each.workflow_id for each in executions}  # tests delete and clear as they like
    for known in of_level("installation"):
        for about in known.check(installation):
            yield known.name, about


def _is_plain(payload: Any) -> bool:
    return payload.metadata.get("encoding", b"").startswith(b"json/")


def execution_of(history: WorkflowHistory) -> Any:
    """A real history in the form that properties read."""
    events = [
        Event(event.event_id, microseconds(event.event_time.ToDatetime(UTC)), _kind(event), {})
        for event in history.events
    ]
    scheduled: dict[int, Any] = {}
    for event, real in zip(events, history.events, strict=True):
        event.data = _data(real, event.kind, scheduled)
    start = history.events[0].workflow_execution_started_event_attributes
    kinds = {event.kind for event in events}
    resets = [e for e in events if e.kind == "WorkflowTaskFailed" and e.data["cause"] == "ResetWorkflow"]
    return SimpleNamespace(
        workflow_id=history.workflow_id,
        run_id=history.run_id,
        kind=start.workflow_type.name,
        events=events,
        input=list(start.input.payloads),
        continued_from=start.continued_execution_run_id or None,
        reset_from="another" if resets else None,
        disturbed=bool(resets) or bool(kinds & {"WorkflowExecutionTerminated", "WorkflowExecutionCanceled"}),
    )


def _at(event: HistoryEvent) -> int:
    return microseconds(event.event_time.ToDatetime(UTC))


def _kind(event: HistoryEvent) -> str:
    name = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")
    return "".join(part.capitalize() for part in name.split("_"))


def _data(event: HistoryEvent, kind: str, scheduled: dict[int, Any]) -> dict[str, Any]:
    attributes: Any = getattr(event, event.WhichOneof("attributes") or "")
    match kind:
        case "TimerStarted" | "TimerFired" | "TimerCanceled":
            return {"seq": attributes.timer_id}
        case "ActivityTaskScheduled":
            activity = SimpleNamespace(activity_id=attributes.activity_id, kind=attributes.activity_type.name)
            scheduled[event.event_id] = activity
            return {"seq": event.event_id, "activity": activity}
        case (
            "ActivityTaskCompleted"
            | "ActivityTaskFailed"
            | "ActivityTaskTimedOut"
            | "ActivityTaskCanceled"
            | "ActivityTaskCancelRequested"
        ):
            return {"seq": attributes.scheduled_event_id, "activity": scheduled.get(attributes.scheduled_event_id)}
        case "MarkerRecorded":
            return {"patch": str(attributes.details)}
        case "SignalExternalWorkflowExecutionInitiated":
            return {"name": attributes.signal_name, "workflow_id": attributes.workflow_execution.workflow_id}
        case "StartChildWorkflowExecutionInitiated":
            policy = attributes.parent_close_policy
            child = {"workflow_id": attributes.workflow_id, "kind": attributes.workflow_type.name}
            return {"child": SimpleNamespace(**child, parent_close_policy=policy)}
        case "WorkflowTaskFailed":
            name = WorkflowTaskFailedCause.Name(attributes.cause).removeprefix("WORKFLOW_TASK_FAILED_CAUSE_")
            return {"cause": "".join(part.capitalize() for part in name.split("_"))}
        case "WorkflowExecutionContinuedAsNew":
            return {"input": list(attributes.input.payloads)}
        case "WorkflowExecutionUpdateAccepted":
            return {"update_id": attributes.protocol_instance_id}
        case "WorkflowExecutionUpdateCompleted":
            return {"update_id": attributes.meta.update_id}
        case _:
            return {}
