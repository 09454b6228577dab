"""Tasks that have to do with other DAGs: start a run of one, or wait for one."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ..model.run.attempts import TaskAttempt
from ..model.run.identity import TriggeredBy, dag_workflow_id, operator_run_id
from ..model.run.poking import PokeReturnValue, poked
from ..model.run.task_instances import Failure, Outcome
from ..model.run.views import RunDetails, RunView
from ..model.spec.tasks import ExternalTaskTask, TriggerDagTask
from ..model.states import TaskState
from .attempts.watch import task_failed
from .waiting import filled
from .workplace import Workplace


class OtherDagsActivities:
    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace

    @activity.defn(name="tidemill.trigger_dag")
    async def trigger_dag(self, attempt: TaskAttempt) -> Outcome:
        """Starts the run, unless an earlier start of this try has; then looks how it stands, if that is waited for."""
        task = attempt.task
        assert isinstance(task, TriggerDagTask)  # noqa: S101
        written = [task.trigger_dag_id, task.trigger_run_id, task.logical_date, task.conf]
        return await _triggered(attempt, task, await asyncio.to_thread(filled, self._workplace, attempt, written))

    @activity.defn(name="tidemill.external_task")
    async def poke_external_task(self, attempt: TaskAttempt) -> Outcome:
        """Whether the other DAG's run, or tasks of it, are where they are waited for to be."""
        task = attempt.task
        assert isinstance(task, ExternalTaskTask)  # noqa: S101
        written = [task.external_dag_id, task.external_task_ids]
        dag_id, task_ids = await asyncio.to_thread(filled, self._workplace, attempt, written)
        return await _poked(attempt, task, dag_id, task_ids)


async def _triggered(attempt: TaskAttempt, task: TriggerDagTask, values: Sequence[Any]) -> Outcome:
    dag_id, run_id, logical_date, conf = values
    run_id = run_id or operator_run_id(attempt.run, attempt.key, attempt.try_number)
    run = await _find(dag_id, run_id)
    first = attempt.poke == 1 and activity.info().attempt == 1
    if run is not None and first and task.trigger_run_id is not None:
        told = f"DAG {dag_id!r} has a run {run_id!r} already. Clear that run, or use another trigger_run_id"
        raise task_failed(Failure(error_type="DagRunAlreadyExists", message=told, retryable=False))
    if run is None:
        await _trigger(dag_id, {"run_id": run_id, "logical_date": logical_date, "conf": conf})
        run = await _find(dag_id, run_id)
    now = datetime.now(UTC)
    state = run.state if run is not None else "gone"
    if not task.wait_for_completion or state in task.allowed_states:
        return poked(attempt, PokeReturnValue(is_done=True, xcom_value=run_id), now)
    if state in task.failed_states or run is None:
        raise task_failed(Failure(error_type="TriggeredRunFailed", message=f"run {run_id} of {dag_id!r} is {state}"))
    return poked(attempt, False, now, f"run {run_id} of {dag_id!r} is {state}")


async def _trigger(dag_id: str, asked: dict[str, Any]) -> None:
    request = {**asked, "triggered_by": TriggeredBy.OPERATOR}
    try:
        await _client().get_workflow_handle(dag_workflow_id(dag_id)).execute_update("trigger_run", request)
    except WorkflowUpdateFailedError as error:
        if await _find(dag_id, asked["run_id"]) is not None:
            return  # a call that nobody heard the answer of has made it
        cause = error.cause
        told = cause.message if isinstance(cause, ApplicationError) else str(cause)
        raise task_failed(Failure(error_type="TriggerRefused", message=told)) from None


async def _find(dag_id: str, run_id: str) -> RunView | None:
    return next((run for run in await _runs(dag_id) if run.run_id == run_id), None)


async def _runs(dag_id: str) -> Sequence[RunView]:
    """The runs that the DAG knows. Fails the task if there is no such DAG."""
    try:
        found: list[RunView] = (
            await _client().get_workflow_handle(dag_workflow_id(dag_id)).query("runs", result_type=list[RunView])
        )
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        told = f"DAG {dag_id!r} is not registered. Register it, or correct the dag_id"
        raise task_failed(Failure(error_type="DagNotFound", message=told)) from None
    return found


async def _poked(attempt: TaskAttempt, task: ExternalTaskTask, dag_id: str, task_ids: Sequence[str]) -> Outcome:
    now = datetime.now(UTC)
    date = attempt.run.logical_date
    if date is None:
        told = "a run without a logical date has no counterpart in another DAG. Trigger it with a logical_date"
        raise task_failed(Failure(error_type="InvalidInput", message=told, retryable=False))
    wanted = date - task.execution_delta
    run = next((run for run in await _runs(dag_id) if run.logical_date == wanted), None)
    if run is None:
        return poked(attempt, False, now, f"DAG {dag_id!r} has no run of {wanted.isoformat()} yet")
    states = await _states(run, task_ids)
    skipped = [f"{name} is {state}" for name, state in states.items() if state in task.skipped_states]
    if skipped:
        return Outcome(state=TaskState.SKIPPED, started_at=now, note=", ".join(skipped))
    bad = [f"{name} is {state}" for name, state in states.items() if state in task.failed_states]
    if bad:
        raise task_failed(Failure(error_type="ExternalTaskFailed", message=", ".join(bad)))
    waiting = [f"{name} is {state}" for name, state in states.items() if state not in task.allowed_states]
    return poked(attempt, not waiting, now, ", ".join(waiting))


async def _states(run: RunView, task_ids: Sequence[str]) -> dict[str, str]:
    """The state of the run as a whole, or of those of its tasks."""
    if not task_ids:
        return {f"run {run.run_id}": run.state}
    try:
        details = await _client().get_workflow_handle(run.workflow_id).query("describe", result_type=RunDetails)
    except (RPCError, WorkflowQueryFailedError):
        return {f"run {run.run_id}": run.state} if run.state.finished else {run.run_id: "not there"}
    states: dict[str, str] = {view.key: view.state for view in details.tasks if view.task_id in task_ids}
    missing = sorted({*task_ids} - {view.task_id for view in details.tasks})
    return states | dict.fromkeys(missing, "not there")


def _client() -> Client:
    return activity.client()
