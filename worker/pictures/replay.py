"""Replays a workflow from its history, and tells its decisions step by step."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import gettempdir

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer

from ...model.errors import InvalidInputError
from ...model.replay.steps import Step
from ...workflows.replaying import Recorder, Seen
from ..plugin import TidemillPlugin
from ..service.connection import NotFoundError
from ..supervision.attempt_starts import MAX_EXECUTIONS
from .history_text import RecordedStep, steps_of


async def replayed(
    client: Client, workflow_id: str, max_executions: int = MAX_EXECUTIONS, max_events: int | None = None
) -> list[Step]:
    """The steps of a run's or a DAG's workflow, also of one that has ended; of its last *max_executions* executions.

    It is replayed on a thread of its own, for as long as that takes. Raises NotFoundError where Temporal has no history
    of it, InvalidInputError where the last execution has more than *max_events* events, or this release cannot replay
    it.
    """
    histories = await _histories(client, workflow_id, max_executions, max_events)
    return await asyncio.to_thread(asyncio.run, _steps(client.data_converter, histories))


async def _steps(converter: DataConverter, histories: list[WorkflowHistory]) -> list[Step]:
    recorder = Recorder(continues=bool(_continued(histories[0])))
    steps: list[Step] = []
    for history in histories:
        recorder.begin()
        if has_begun(history):
            await _replay(converter, history, recorder)
        execution = history.events[0].workflow_execution_started_event_attributes.original_execution_run_id
        steps += [_step_of(recorded, recorder, execution) for recorded in steps_of(list(history.events))]
    return steps


def has_begun(history: WorkflowHistory) -> bool:
    """Whether the workflow's code has been asked for anything yet: the SDK's Replayer waits for ever where it was not.

    A child, and what has gone on in a new execution, is there for an instant before its first workflow task is.
    """
    return any(event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED for event in history.events)


def _step_of(recorded: RecordedStep, recorder: Recorder, execution: str) -> Step:
    seen = recorder.steps.get(recorded.event_id, Seen())
    return Step(
        at=recorded.at,
        execution=execution,
        event_id=recorded.event_id,
        learned=tuple(recorded.learned),
        ordered=tuple(recorded.ordered),
        decided=seen.decided,
        waiting=seen.waiting,
    )


def _continued(history: WorkflowHistory) -> str:
    """The run_id of the execution before; nothing for the first."""
    return history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id


async def _histories(
    client: Client, workflow_id: str, max_executions: int, max_events: int | None = None
) -> list[WorkflowHistory]:
    """The histories of the workflow's last executions, oldest first: as many as have *max_events* together.

    Raises InvalidInputError where the last one alone has more.
    """
    found: list[WorkflowHistory] = []
    events = 0
    run_id: str | None = None
    while len(found) < max_executions:
        handle = client.get_workflow_handle(workflow_id, run_id=run_id)
        try:
            if max_events is not None:
                events += (await handle.describe()).history_length
                if events > max_events and found:
                    break  # the last executions are told
                _check_length(events, max_events)
            history = await handle.fetch_history()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            if not found:
                raise NotFoundError(
                    f"Temporal has no history of {workflow_id!r}: it never was, or is past the namespace's retention"
                ) from None
            break
        found.insert(0, history)
        run_id = _continued(history)
        if not run_id:
            break
    return found


def _check_length(events: int, max_events: int) -> None:
    if events > max_events:
        raise InvalidInputError(
            f"its history has {events:,} events or more, too many for a page: use `tidemill replay`"
        )


async def _replay(converter: DataConverter, history: WorkflowHistory, recorder: Recorder) -> None:
    replayer = Replayer(
        workflows=[],
        plugins=[TidemillPlugin(Path(gettempdir()))],  # nothing is carried out, so nothing is written there
        data_converter=converter,
        interceptors=[recorder],
        debug_mode=True,  # without the watch for long steps: who asks waits for it
    )
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    if result.replay_failure is not None:
        raise InvalidInputError(
            f"this release decides otherwise than the one that has written the history of {history.workflow_id!r}: "
            f"{result.replay_failure}. Replay it with that release"
        )
