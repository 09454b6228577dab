"""What a workflow cannot find out by itself about runs: how terminated ones ended, what ended ones left behind."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio import activity
from temporalio.client import (
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ..model.base import Model
from ..model.interfaces.run import RunInterface
from ..model.run.changes import keeps_times
from ..model.run.identity import RunColumns, RunIdentity
from ..model.run.messages import RunReport
from ..model.run.revisions import ReviseQuestion
from ..model.run.state import DagRunState
from ..model.states import RunState
from .calling import UNREADABLE, query, update
from .names import INVALID_INPUT, JUST_ENDED

QUERY_TIMEOUT = timedelta(seconds=10)
MAX_QUERIES = 5
AT_ONCE = 32
"""How many runs are asked about at a time: two thousand over 50 ms of network take three seconds."""


class RunsQuestion(Model):
    """Workflow ids of runs by their keys."""

    workflow_ids: dict[str, str]


@activity.defn(name="tidemill.ended_runs")
async def find_ended_runs(question: RunsQuestion) -> Sequence[RunReport]:
    """Reports of those runs that have ended. Asks the server for each one; visibility lags, this does not."""
    room = asyncio.Semaphore(AT_ONCE)

    async def look(key: str, workflow_id: str) -> RunReport | None:
        async with room:
            return await _report_of(key, workflow_id)

    found = await asyncio.gather(*(look(key, id_) for key, id_ in question.workflow_ids.items()))
    return [report for report in found if report is not None]


async def _report_of(key: str, workflow_id: str) -> RunReport | None:
    """How the run has ended; None: it has not."""
    try:
        found = await activity.client().get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return _report(key, RunState.FAILED, None, "its workflow is gone from Temporal")
    if found.status is WorkflowExecutionStatus.RUNNING:
        return None
    state = RunState.SUCCESS if found.status is WorkflowExecutionStatus.COMPLETED else RunState.FAILED
    status = found.status.name.lower() if found.status is not None else "unknown"
    report = _report(key, state, found.close_time, f"its workflow is {status}")
    return report.model_copy(update={"run": await _columns_of(found)})


@activity.defn(name="tidemill.run_there")
async def find_run(workflow_id: str) -> RunColumns | None:
    """Return what a run's workflow says of itself; None where it says nothing, or is not there."""
    try:
        return await _columns_of(await activity.client().get_workflow_handle(workflow_id).describe())
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return None


async def _columns_of(found: WorkflowExecutionDescription) -> RunColumns | None:
    """What the workflow of a run shows of itself in its memo; None before its first workflow task."""
    try:
        return RunColumns.model_validate((await found.memo())["view"])
    except UNREADABLE:  # or not yet written: its DAG goes on with what it knows
        return None


class LastExecution(Model):
    """An execution of a run's workflow that has ended."""

    workflow_id: str
    execution: str


class Revised(Model):
    """What came of it."""

    instances: tuple[str, ...] = ()
    """The instances that are changed."""
    execution: str | None = None
    """Where the run has ended: its last execution, which another has to go on from."""
    run: RunIdentity | None = None
    keeps_times: bool = False
    """Whether only how it has ended is another: nothing of it runs again."""


@activity.defn(name="tidemill.load_run")
async def load_run(last: LastExecution) -> DagRunState:
    """The state that the last execution of a run left behind."""
    execution = last.execution
    while True:
        handle = activity.client().get_workflow_handle(last.workflow_id, run_id=execution)
        try:
            state = await query(handle, RunInterface.whole_state())
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            raise _refusal("its history is no longer kept by Temporal. Run the date again with a backfill") from None
        except WorkflowQueryFailedError as error:
            raise _refusal(f"its last execution cannot be read: {error}. Run the date again with a backfill") from None
        if state.revision is None:
            return state
        execution = state.revision.execution  # it was ended before it could go on from the one before


class RunConf(Model):
    """With what a run was asked for, and where its last execution is."""

    conf: dict[str, Any] = {}
    execution: str | None = None
    """That execution, by Temporal's run id; None: it cannot be read."""
    problem: str | None = None
    """Why it is not known any more."""


@activity.defn(name="tidemill.conf_of_run")
async def find_conf(workflow_id: str) -> RunConf:
    """Return the conf of the last execution of a run's workflow, or why nobody can tell it.

    Other runs of the DAG wait for the answer: it is asked for a few times.
    """
    handle = activity.client().get_workflow_handle(workflow_id)
    try:
        run = await query(handle, RunInterface.identity(), rpc_timeout=QUERY_TIMEOUT)
        found = await handle.describe(rpc_timeout=QUERY_TIMEOUT)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return RunConf(problem="Temporal no longer keeps its history")
        if activity.info().attempt < MAX_QUERIES:
            raise
        return RunConf(problem=f"its last execution does not answer ({error.message})")
    except WorkflowQueryFailedError as error:
        return RunConf(problem=f"its last execution cannot be read ({error})")
    return RunConf(conf=run.conf, execution=found.run_id)


@activity.defn(name="tidemill.revise_run")
async def revise_run(question: ReviseQuestion) -> Revised:
    """Changes a run that goes on. Of one that has ended, tells what has to be known to run it again."""
    handle = activity.client().get_workflow_handle(question.workflow_id)
    try:
        found = await handle.describe()
        if found.status is WorkflowExecutionStatus.RUNNING:
            return await _revise_running(handle, question)
        run = await query(handle, RunInterface.identity())
        keys: list[str] = []
        keeps = question.mark_run is not None
        if question.clear is not None:
            keys = await query(handle, RunInterface.would_clear(question.clear))
        elif question.mark is not None:
            keys = await query(handle, RunInterface.would_mark(question.mark))
            before = await load_run(LastExecution(workflow_id=question.workflow_id, execution=found.run_id))
            before.settle_ended()
            keeps = keeps_times(before, question.mark, None)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise _refusal("its history is no longer kept by Temporal. Run the date again with a backfill") from None
    except WorkflowQueryFailedError as error:
        raise _refusal(str(error)) from None
    return Revised(instances=tuple(keys), execution=found.run_id, run=run, keeps_times=keeps)


async def _revise_running(handle: WorkflowHandle[Any, Any], question: ReviseQuestion) -> Revised:
    try:
        keys: list[str] = []
        if question.clear is not None:
            keys = await update(handle, RunInterface.clear_tasks(question.clear))
        elif question.mark is not None:
            keys = await update(handle, RunInterface.set_task_state(question.mark))
        elif question.mark_run is not None:
            await update(handle, RunInterface.set_state(question.mark_run))
    except RPCError as error:  # it has ended between the look and the update: asked again, it is found ended
        raise ApplicationError(f"the run has just ended: {error}", type=JUST_ENDED) from None
    except WorkflowUpdateFailedError as error:
        cause = error.cause
        if isinstance(cause, ApplicationError) and cause.type == JUST_ENDED:
            raise ApplicationError(cause.message, type=JUST_ENDED) from None
        raise _refusal(cause.message if isinstance(cause, ApplicationError) else str(cause)) from None
    return Revised(instances=tuple(keys))


def _refusal(reason: str) -> ApplicationError:
    return ApplicationError(reason, type=INVALID_INPUT, non_retryable=True)


def _report(key: str, state: RunState, ended_at: datetime | None, reason: str) -> RunReport:
    return RunReport(key=key, state=state, ended_at=ended_at or datetime.now(UTC), reason=reason)
