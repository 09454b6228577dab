"""Tasks that have to do with other DAGs: start a run of one, or wait for one."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from dateutil.parser import isoparse
from temporalio import activity
from temporalio.client import WorkflowQueryFailedError
from temporalio.service import RPCError

from ..model.base import to_utc
from ..model.interfaces.run import RunInterface
from ..model.run.attempts import TaskAttempt
from ..model.run.identity import operator_run_id
from ..model.run.poking import PokeReturnValue, poked
from ..model.run.task_instances import Failure, Outcome
from ..model.run.views import RunView
from ..model.spec.dag import enclosing
from ..model.spec.tasks import ExternalTaskTask, TriggerDagTask
from ..model.states import TaskState
from .attempts.supervision import task_failure
from .dag_handle import DagHandle, DagNotFoundError, TriggerRefusedError
from .waiting import filled
from .worker_context import WorkerContext
from .workflow_caller import WorkflowCaller

PATIENCE = timedelta(seconds=60)
"""Less than the time that a look at another workflow may take."""


class OtherDagsActivities:
    def __init__(self, worker_context: WorkerContext) -> None:
        self._worker_context = worker_context

    @cached_property
    def _caller(self) -> WorkflowCaller:
        return WorkflowCaller(activity.client(), PATIENCE)

    @activity.defn(name="tidemill.trigger_dag")
    async def trigger_dag(self, attempt: TaskAttempt) -> Outcome:
        """Starts the run, unless an earlier start of this try has; then looks how it stands, if that is waited for."""
        task = attempt.task
        assert isinstance(task, TriggerDagTask)  # noqa: S101
        values = await asyncio.to_thread(filled, self._worker_context, attempt, task.written())
        try:
            return await _triggered(attempt, task, DagHandle(self._caller, values["trigger_dag_id"]), values)
        except DagNotFoundError as error:
            raise _failed("DagNotFound", str(error)) from None
        except TriggerRefusedError as error:
            raise _failed("TriggerRefused", str(error)) from None

    @activity.defn(name="tidemill.external_task")
    async def poke_external_task(self, attempt: TaskAttempt) -> Outcome:
        """Whether the other DAG's run, or tasks of it, are where they are waited for to be."""
        task = attempt.task
        assert isinstance(task, ExternalTaskTask)  # noqa: S101
        values = await asyncio.to_thread(filled, self._worker_context, attempt, task.written())
        dag_id, task_ids = values["external_dag_id"], values["external_task_ids"]
        try:
            return await _poked(attempt, task, DagHandle(self._caller, dag_id), task_ids)
        except DagNotFoundError as error:
            if not task.check_existence:
                return poked(attempt, False, datetime.now(UTC), f"DAG {dag_id!r} is not registered yet")
            raise _failed("DagNotFound", str(error)) from None


def _failed(error_type: str, message: str, *, retryable: bool = True) -> Exception:
    return task_failure(Failure(error_type=error_type, message=message, retryable=retryable))


async def _triggered(attempt: TaskAttempt, task: TriggerDagTask, dag: DagHandle, values: Mapping[str, Any]) -> Outcome:
    names = ("trigger_run_id", "logical_date", "conf", "run_after")
    wanted, logical_date, conf, run_after = (values[name] for name in names)
    now = datetime.now(UTC)
    date = to_utc(isoparse(logical_date)) if logical_date is not None else None
    run_id = wanted or operator_run_id(attempt.run, attempt.key, attempt.try_number)
    run = await dag.run(run_id)
    first = attempt.poke == 1 and activity.info().attempt == 1
    if first or (attempt.poke == 1 and task.reset_dag_run):
        held = run if wanted is not None else run or await dag.run(None, date)
        if task.fail_when_dag_is_paused and (await dag.view()).is_paused:
            message = f"DAG {dag.dag_id!r} is paused, and fail_when_dag_is_paused is set. Unpause it"
            raise _failed("DagIsPaused", message, retryable=False)
        if held is not None and task.reset_dag_run:
            await dag.clear(held, f"reset/{attempt.uuid}")
            run_id, run = held.run_id, await dag.run(held.run_id)
        elif held is not None and task.skip_when_already_exists:
            note = f"DAG {dag.dag_id!r} has run {held.run_id!r}"
            return Outcome(state=TaskState.SKIPPED, started_at=now, note=note)
        elif held is not None and wanted is not None:
            message = f"DAG {dag.dag_id!r} has a run {run_id!r} already. Clear that run, or use another trigger_run_id"
            raise _failed("DagRunAlreadyExists", message, retryable=False)
    elif run is None and task.reset_dag_run and (run := await dag.run(None, date)) is not None:
        run_id = run.run_id  # the one that was cleared
    if run is None:
        request = {"run_id": run_id, "logical_date": logical_date, "conf": conf}
        await dag.trigger(request if run_after is None else {**request, "run_after": run_after})
        run = await dag.run(run_id)
    state = run.state if run is not None else "gone"
    if not task.wait_for_completion or state in task.allowed_states:
        return poked(attempt, PokeReturnValue(is_done=True, xcom_value=run_id), now)
    if state in task.failed_states or run is None:
        raise _failed("TriggeredRunFailed", f"run {run_id} of {dag.dag_id!r} is {state}")
    return poked(attempt, False, now, f"run {run_id} of {dag.dag_id!r} is {state}")


async def _poked(attempt: TaskAttempt, task: ExternalTaskTask, dag: DagHandle, task_ids: Sequence[str]) -> Outcome:
    now = datetime.now(UTC)
    date = attempt.run.logical_date
    if date is None:
        message = "a run without a logical date has no counterpart in another DAG. Trigger it with a logical_date"
        raise _failed("InvalidInput", message, retryable=False)
    if task.external_task_group_id is not None or (task.check_existence and attempt.poke == 1):
        task_ids = await _existing(task, dag, task_ids)
    wanted = date - task.execution_delta
    run = await dag.run(None, wanted)
    if run is None:
        return poked(attempt, False, now, f"DAG {dag.dag_id!r} has no run of {wanted.isoformat()} yet")
    states = await _states(dag, run, task_ids)
    skipped = [f"{name} is {state}" for name, state in states.items() if state in task.skipped_states]
    if skipped:
        return Outcome(state=TaskState.SKIPPED, started_at=now, note=", ".join(skipped))
    bad = [f"{name} is {state}" for name, state in states.items() if state in task.failed_states]
    if bad:
        raise _failed("ExternalTaskFailed", ", ".join(bad))
    waiting = [f"{name} is {state}" for name, state in states.items() if state not in task.allowed_states]
    return poked(attempt, not waiting, now, ", ".join(waiting))


async def _existing(task: ExternalTaskTask, dag: DagHandle, task_ids: Sequence[str]) -> Sequence[str]:
    """The tasks that are waited for, those of a group among them. Fails the task where the DAG lacks one for good."""
    spec = await dag.spec()
    group = task.external_task_group_id
    inside = [t.task_id for t in spec.tasks if group is not None and group in enclosing(t.group)]
    missing = [name for name in task_ids if name not in spec.by_id] if task.check_existence else []
    if missing or (group is not None and not inside):
        kind, name = ("task", missing[0]) if missing else ("group", group)
        message = f"DAG {dag.dag_id!r} has no {kind} {name!r}. Correct the id"
        raise _failed("ExternalTaskNotFound", message, retryable=False)
    return [*task_ids, *inside]


async def _states(dag: DagHandle, run: RunView, task_ids: Sequence[str]) -> dict[str, str]:
    """The state of the run as a whole, or of those of its tasks."""
    if not task_ids:
        return {f"run {run.run_id}": run.state}
    try:
        details = await dag.caller.query(run.workflow_id, RunInterface.describe())
    except (RPCError, WorkflowQueryFailedError):
        return {f"run {run.run_id}": run.state} if run.state.finished else {run.run_id: "not there"}
    states: dict[str, str] = {view.key: view.state for view in details.tasks if view.task_id in task_ids}
    missing = sorted({*task_ids} - {view.task_id for view in details.tasks})
    return states | dict.fromkeys(missing, "not there")
