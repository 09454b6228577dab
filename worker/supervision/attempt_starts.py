"""Which worker has carried out which try of a task, and how often it was begun: from the history of its run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.exceptions import FailureError
from temporalio.service import RPCError, RPCStatusCode

MAX_EXECUTIONS = 10
"""A long run goes on in further executions: so many of them are looked at, the last ones."""
ENDS = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: "activity_task_completed_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: "activity_task_failed_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT: "activity_task_timed_out_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED: "activity_task_canceled_event_attributes",
}


@dataclass(frozen=True)
class AttemptStart:
    """An activity of a try: its work, or a part such as the watch over a Spark application."""

    key: str
    """The task's instance within its run."""
    try_number: int
    part: str
    """Nothing for the work itself."""
    queued_at: datetime
    started_at: datetime | None = None
    """When it was begun last."""
    ended_at: datetime | None = None
    worker: str = ""
    """Who has begun it last, as Temporal calls workers: process@host."""
    starts: int = 0
    """How often it was begun: more than once where a worker has handed it over, or has died."""
    handed_over: str = ""
    """Why the start before the last did not come to an end."""


async def attempt_starts(client: Client, workflow_id: str) -> list[AttemptStart]:
    """The starts of a run's tries, the first queued first. Raises RPCError if Temporal does not know the run."""
    found: list[AttemptStart] = []
    run_id: str | None = None
    for _ in range(MAX_EXECUTIONS):
        handle = client.get_workflow_handle(workflow_id, run_id=run_id)
        run_id = ""
        open_: dict[int, AttemptStart] = {}
        try:
            async for event in handle.fetch_history_events():
                if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                    run_id = event.workflow_execution_started_event_attributes.continued_execution_run_id
                _take(event, open_, await _last_failure(client, event))
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND and found:  # what came before is past its retention
                break
            raise
        found = [*open_.values(), *found]
        if not run_id:
            break
    return found


async def _last_failure(client: Client, event: HistoryEvent) -> str:
    """What the start before ended of, where *event* is another start; with a codec it has to be decoded."""
    begun = event.activity_task_started_event_attributes
    if not begun.HasField("last_failure"):
        return ""
    error = await client.data_converter.decode_failure(begun.last_failure)
    return error.message if isinstance(error, FailureError) else str(error)


def _take(event: HistoryEvent, known: dict[int, AttemptStart], last_failure: str) -> None:
    """Notes in *known*, by the number of the event that has queued it, what *event* tells of an attempt."""
    if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
        scheduled = event.activity_task_scheduled_event_attributes
        key, _, rest = scheduled.activity_id.partition("/")
        number, _, part = rest.partition("/")
        if number.isdecimal():  # else it is no try of a task
            known[event.event_id] = AttemptStart(key, int(number), part, _moment(event.event_time))
    elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
        begun = event.activity_task_started_event_attributes
        if (attempt := known.get(begun.scheduled_event_id)) is not None:
            known[begun.scheduled_event_id] = replace(
                attempt,
                started_at=_moment(event.event_time),
                worker=begun.identity,
                starts=begun.attempt,
                handed_over=last_failure,
            )
    elif event.event_type in ENDS:
        number_of = getattr(event, ENDS[event.event_type]).scheduled_event_id
        if (attempt := known.get(number_of)) is not None:
            known[number_of] = replace(attempt, ended_at=_moment(event.event_time))


def _moment(at: Timestamp) -> datetime:
    return at.ToDatetime(UTC)
