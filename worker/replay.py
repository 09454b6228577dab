"""Replays a workflow from its history, and tells its decisions step by step."""

from __future__ import annotations

from pathlib import Path
from tempfile import gettempdir

from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer

from ..model.errors import InvalidInputError
from ..model.replay.steps import Picture, Step, changes_between, newly_waiting
from ..workflows.replaying import Recorder
from .attempt_starts import MOST_EXECUTIONS
from .connection import NotFoundError
from .history_words import steps_of
from .plugin import TidemillPlugin


async def replayed(client: Client, workflow_id: str, most: int = MOST_EXECUTIONS) -> list[Step]:
    """The steps of a run's or a DAG's workflow, also of one that has ended; of its last *most* executions.

    Raises NotFoundError where Temporal has no history of it, InvalidInputError where this release cannot replay it.
    """
    steps: list[Step] = []
    before, recorder = Picture(), Recorder()
    for n, history in enumerate(await _histories(client, workflow_id, most), 1):
        pictures = await _pictures(client, history, recorder)
        for recorded in steps_of(list(history.events)):
            after = pictures.get(recorded.event_id)
            step = Step(
                at=recorded.at,
                execution=n,
                event_id=recorded.event_id,
                learned=tuple(recorded.learned),
                ordered=tuple(recorded.ordered),
                decided=changes_between(before, after) if after is not None else (),
                waiting=newly_waiting(before, after) if after is not None else {},
            )
            before = after or before
            steps.append(step)
    return steps


async def _histories(client: Client, workflow_id: str, most: int) -> list[WorkflowHistory]:
    """The histories of the workflow's executions, oldest first."""
    found: list[WorkflowHistory] = []
    run_id: str | None = None
    while len(found) < most:
        handle = client.get_workflow_handle(workflow_id, run_id=run_id)
        try:
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
        run_id = history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id
        if not run_id:
            break
    return found


async def _pictures(client: Client, history: WorkflowHistory, recorder: Recorder) -> dict[int, Picture]:
    recorder.pictures = {}
    replayer = Replayer(
        workflows=[],
        plugins=[TidemillPlugin(Path(gettempdir()))],  # nothing is carried out, so nothing is written there
        data_converter=client.data_converter,
        interceptors=[recorder],
        debug_mode=True,  # without the watch for long steps: who asks waits for it
    )
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    if result.replay_failure is not None:
        raise InvalidInputError(
            f"this release decides otherwise than the one that has written the history of {history.workflow_id!r}: "
            f"{result.replay_failure}. Replay it with that release"
        )
    return recorder.pictures
