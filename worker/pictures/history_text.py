"""What the events of a Temporal history say, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

PREFIX = "EVENT_TYPE_"
ENDS_OF_ACTIVITIES = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: "has completed",
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: "has failed",
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT: "has timed out",
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED: "was cancelled",
}
ENDS_OF_CHILDREN = {
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED: "has begun",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED: "has completed",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED: "has failed",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED: "was cancelled",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED: "was terminated",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT: "has timed out",
}


@dataclass
class RecordedStep:
    """A step as history has it: a workflow task, what came before it and what it asked for."""

    event_id: int
    at: datetime
    learned: list[str] = field(default_factory=list)
    ordered: list[str] = field(default_factory=list)


def steps_of(events: list[HistoryEvent]) -> list[RecordedStep]:
    """The steps of one execution that came to an end, in order."""
    scheduled = {event.event_id: event for event in events}
    steps: list[RecordedStep] = []
    learned: list[str] = []
    begun: RecordedStep | None = None
    for event in events:
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
                begun = RecordedStep(event.event_id, _moment(event))
            case EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED if begun is not None:
                begun.learned, learned = learned, []
                steps.append(begun)
            case EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED | EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
                learned.append("a worker did not come to the end of this step; it is taken again")
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED if steps:
                # It is written behind the step that has taken the update up.
                steps[-1].learned += _learned(event, scheduled)
            case _:
                learned += _learned(event, scheduled)
                if steps:
                    steps[-1].ordered += _ordered(event)
    return steps


def _learned(event: HistoryEvent, known: dict[int, HistoryEvent]) -> Iterator[str]:
    kind = event.event_type
    if kind == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
        begun = event.workflow_execution_started_event_attributes
        yield "goes on in a new execution" if begun.continued_execution_run_id else "begins"
    elif kind == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
        yield f"signal {event.workflow_execution_signaled_event_attributes.signal_name}"
    elif kind == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
        accepted = event.workflow_execution_update_accepted_event_attributes.accepted_request
        yield f"update {accepted.input.name}"
    elif kind == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
        yield "a request to cancel"
    elif kind == EventType.EVENT_TYPE_TIMER_FIRED:
        begun_at = known[event.timer_fired_event_attributes.started_event_id]
        waited = begun_at.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta()
        yield f"a timer of {waited.total_seconds():g} s has fired"
    elif kind in ENDS_OF_ACTIVITIES:
        attributes = getattr(event, f"{EventType.Name(kind).removeprefix(PREFIX).lower()}_event_attributes")
        activity = known[attributes.scheduled_event_id].activity_task_scheduled_event_attributes
        yield f"activity {_activity(activity.activity_id, activity.activity_type.name)} {ENDS_OF_ACTIVITIES[kind]}"
    elif kind in ENDS_OF_CHILDREN:
        attributes = getattr(event, f"{EventType.Name(kind).removeprefix(PREFIX).lower()}_event_attributes")
        yield f"child workflow {attributes.workflow_execution.workflow_id} {ENDS_OF_CHILDREN[kind]}"


def _ordered(event: HistoryEvent) -> Iterator[str]:
    kind = event.event_type
    if kind == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
        activity = event.activity_task_scheduled_event_attributes
        yield f"activity {_activity(activity.activity_id, activity.activity_type.name)} on {activity.task_queue.name}"
    elif kind == EventType.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED:
        yield "cancels an activity"
    elif kind == EventType.EVENT_TYPE_TIMER_STARTED:
        waits = event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta()
        yield f"a timer of {waits.total_seconds():g} s"
    elif kind == EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
        yield f"child workflow {event.start_child_workflow_execution_initiated_event_attributes.workflow_id}"
    elif kind == EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
        signal = event.signal_external_workflow_execution_initiated_event_attributes
        yield f"signal {signal.signal_name} to {signal.workflow_execution.workflow_id}"
    elif kind == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
        yield "a new execution, since this one's history is long"
    elif kind in (
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
    ):
        yield "the end"


def _activity(activity_id: str, kind: str) -> str:
    """By the task and try that it is for, where it is for one: these are its id."""
    return f"{kind} {activity_id}" if "/" in activity_id else kind


def _moment(event: HistoryEvent) -> datetime:
    return event.event_time.ToDatetime(UTC)
