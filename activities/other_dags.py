"""Tasks that have to do with other DAGs: start a run of one, or wait for one."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from dateutil.parser import isoparse
from temporalio import activity
from temporalio.client import Client, WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ..model.base import to_utc
from ..model.dag.views import DagView
from ..model.run.attempts import TaskAttempt
from ..model.run.identity import TriggeredBy, dag_workflow_id, operator_run_id
from ..model.run.poking import PokeReturnValue, poked
from ..model.run.revisions import ClearRequest, ReviseQuestion
from ..model.run.task_instances import Failure, Outcome
from ..model.run.views import RunDetails, RunView
from ..model.spec.dag import DagSpec, enclosing
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
        written = [task.trigger_dag_id, task.trigger_run_id, task.logical_date, task.conf, task.run_after]
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
    dag_id, wanted, logical_date, conf, run_after = values
    now = datetime.now(UTC)
    run_id = wanted or operator_run_id(attempt.run, attempt.key, attempt.try_number)
    run = await _find(dag_id, run_id)
    first = attempt.poke == 1 and activity.info().attempt == 1
    if first or (attempt.poke == 1 and task.reset_dag_run):
        held = run if wanted is not None else run or await _of_date(dag_id, logical_date)
        if task.fail_when_dag_is_paused and (await _dag(dag_id)).is_paused:
            told = f"DAG {dag_id!r} is paused, and fail_when_dag_is_paused is set. Unpause it"
            raise task_failed(Failure(error_type="DagIsPaused", message=told, retryable=False))
        if held is not None and task.reset_dag_run:
            await _clear(dag_id, held, f"reset/{attempt.uuid}")
            run_id, run = held.run_id, await _find(dag_id, held.run_id)
        elif held is not None and task.skip_when_already_exists:
            return Outcome(state=TaskState.SKIPPED, started_at=now, note=f"DAG {dag_id!r} has run {held.run_id!r}")
        elif held is not None and wanted is not None:
            told = f"DAG {dag_id!r} has a run {run_id!r} already. Clear that run, or use another trigger_run_id"
            raise task_failed(Failure(error_type="DagRunAlreadyExists", message=told, retryable=False))
    elif run is None and task.reset_dag_run and (run := await _of_date(dag_id, logical_date)) is not None:
        run_id = run.run_id  # the one that was cleared
    if run is None:
        asked = {"run_id": run_id, "logical_date": logical_date, "conf": conf}
        await _trigger(dag_id, asked if run_after is None else {**asked, "run_after": run_after})
        run = await _find(dag_id, run_id)
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


async def _clear(dag_id: str, run: RunView, once: str) -> None:
    """Has all tasks of *run* run again; called twice with the same *once*, it does so once."""
    question = ReviseQuestion(workflow_id=run.workflow_id, clear=ClearRequest())
    try:
        await _client().get_workflow_handle(dag_workflow_id(dag_id)).execute_update("revise_run", question, id=once)
    except WorkflowUpdateFailedError as error:
        told = error.cause.message if isinstance(error.cause, ApplicationError) else str(error.cause)
        raise task_failed(Failure(error_type="TriggerRefused", message=told)) from None


async def _dag(dag_id: str) -> DagView:
    view: DagView = await _client().get_workflow_handle(dag_workflow_id(dag_id)).query("describe", result_type=DagView)
    return view


async def _of_date(dag_id: str, logical_date: str | None) -> RunView | None:
    """The run of that date, whatever its id."""
    if logical_date is None:
        return None
    date = to_utc(isoparse(logical_date))
    return next((run for run in await _runs(dag_id) if run.logical_date == date), None)


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
    if not task.check_existence and not await _is_registered(dag_id):
        return poked(attempt, False, now, f"DAG {dag_id!r} is not registered yet")
    if task.external_task_group_id is not None or (task.check_existence and attempt.poke == 1):
        task_ids = await _existing(task, dag_id, task_ids)
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


async def _is_registered(dag_id: str) -> bool:
    try:
        await _dag(dag_id)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


async def _existing(task: ExternalTaskTask, dag_id: str, task_ids: Sequence[str]) -> Sequence[str]:
    """The tasks that are waited for, those of a group among them. Fails the task where the DAG lacks one for good."""
    handle = _client().get_workflow_handle(dag_workflow_id(dag_id))
    spec: DagSpec = await handle.query("spec", result_type=DagSpec)
    group = task.external_task_group_id
    inside = [t.task_id for t in spec.tasks if group is not None and group in enclosing(t.group)]
    missing = [name for name in task_ids if name not in spec.by_id] if task.check_existence else []
    if missing or (group is not None and not inside):
        kind, name = ("task", missing[0]) if missing else ("group", group)
        told = f"DAG {dag_id!r} has no {kind} {name!r}. Correct the id"
        raise task_failed(Failure(error_type="ExternalTaskNotFound", message=told, retryable=False))
    return [*task_ids, *inside]


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
