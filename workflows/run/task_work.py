"""How the work of each kind of task is carried out, and what its end means."""

from typing import Any

from temporalio import exceptions, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    FailureError,
    is_cancelled_exception,
)

from ...activities.names import MAX_STARTS, TASK_FAILED
from ...activities.timetables import TimetableActivities
from ...activities.waiting import WaitingActivities
from ...model.dag.ticks import TimetableQuery
from ...model.run.attempts import TaskAttempt
from ...model.run.identity import RunType
from ...model.run.moments import is_behind_timeout, wait_for, wait_until_timeout
from ...model.run.task_instances import Failure, Outcome
from ...model.spec.dag import DagSpec
from ...model.spec.references import RETURN_VALUE, texts
from ...model.spec.tasks import ActivityTask, ApprovalTask, EmptyTask, LatestOnlyTask, SparkWork, TimeTask, WorkflowTask
from ...model.spec.tasks.foreign import check_is_foreign
from ...model.spec.timetables import TimeRestriction
from ...model.states import TaskState
from ...model.workflow_ids import bounded
from ..calls import UNBOUNDED, ask
from .own_activity import activity_id, own_activity
from .spark_work import spark_work

ONE_TRY = RetryPolicy(maximum_attempts=1)
"""For work that is not ours: what it raises is the task's failure, and the DAG's `retries` decide."""


async def work_of(spec: DagSpec, attempt: TaskAttempt) -> Outcome:
    """Has one try of a task made. Raises what Temporal raises when it fails."""
    task = attempt.task
    match task:
        case EmptyTask():
            return Outcome(started_at=workflow.now())
        case LatestOnlyTask():
            return Outcome(started_at=workflow.now(), xcom={RETURN_VALUE: await _is_latest(spec, attempt)})
        case TimeTask():
            moment = await ask(WaitingActivities.find_moment, attempt)
            now = workflow.now()
            if is_behind_timeout(task, now, moment.at) and workflow.patched("moments-have-timeouts"):
                return wait_until_timeout(task, now, moment.note)
            return wait_for(now, moment.at, moment.note)
        case ApprovalTask():
            subject = task.subject
            if "{" in subject:
                subject = str((await ask(WaitingActivities.render_attempt, attempt)).values[0])
            until = workflow.now() + task.timeout
            return Outcome(state=TaskState.AWAITING_INPUT, started_at=workflow.now(), wake_at=until, note=subject)
        case ActivityTask():
            return await _foreign_activity(attempt, task)
        case WorkflowTask():
            return await _foreign_workflow(attempt, task)
        case SparkWork():
            return await spark_work(spec, attempt)
        case _:
            return await own_activity(spec, attempt)


async def _arguments(attempt: TaskAttempt, task: ActivityTask | WorkflowTask) -> list[Any]:
    """The task's arguments, filled in elsewhere where there is something to be filled in."""
    if task.uses() or any("{" in text for text in texts(task.args)):
        return list((await ask(WaitingActivities.render_attempt, attempt)).values)
    return list(task.args)


async def _foreign_activity(attempt: TaskAttempt, task: ActivityTask) -> Outcome:
    """An activity of the user's own: what it raises counts as the task's failure, so retries are the DAG's."""
    check_is_foreign(task)
    args = await _arguments(attempt, task)
    started = workflow.now()
    result = await workflow.execute_activity(
        task.activity_type,
        args=args,
        activity_id=activity_id(attempt),
        task_queue=task.queue,
        start_to_close_timeout=task.execution_timeout or UNBOUNDED,
        heartbeat_timeout=task.heartbeat_timeout,
        retry_policy=ONE_TRY,
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=f"{attempt.key}, try {attempt.try_number}: {task.activity_type}",
    )
    return Outcome(started_at=started, xcom={} if result is None else {RETURN_VALUE: result})


async def _foreign_workflow(attempt: TaskAttempt, task: WorkflowTask) -> Outcome:
    check_is_foreign(task)
    args = await _arguments(attempt, task)
    started = workflow.now()
    result = await workflow.execute_child_workflow(
        task.workflow_type,
        args=args,
        id=bounded(f"{workflow.info().workflow_id}/{attempt.key}/{attempt.try_number}/{attempt.execution[:8]}"),
        task_queue=task.queue,
        execution_timeout=task.execution_timeout,
        cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
        static_summary=f"{attempt.key}, try {attempt.try_number}",
    )
    return Outcome(started_at=started, xcom={} if result is None else {RETURN_VALUE: result})


async def _is_latest(spec: DagSpec, attempt: TaskAttempt) -> bool:
    """Whether no later run of the schedule is due already. Manual runs always count as the latest (as in Airflow)."""
    run = attempt.run
    if run.run_type is RunType.MANUAL or run.data_interval is None:
        return True
    answer = await ask(
        TimetableActivities.ask_timetable,
        TimetableQuery(
            timetable=spec.schedule,
            restriction=TimeRestriction(earliest=None, latest=None, catchup=True),
            last=run.data_interval,
            now=workflow.now(),
            folder=spec.folder,
            bundle=spec.bundle,
            owns=spec.owns,
            limit=1,
        ),
    )
    return not answer.infos or workflow.now() <= answer.infos[0].run_after


def failure_of(error: FailureError, starts: int = MAX_STARTS) -> Failure:
    """What a failed try failed of: the task's own report, or what happened to its worker."""
    cause = error.cause if isinstance(error, ActivityError | ChildWorkflowError) else error
    if isinstance(cause, ApplicationError) and cause.type == TASK_FAILED and cause.details:
        return Failure.model_validate(cause.details[0])
    if isinstance(cause, exceptions.TimeoutError):
        kind = cause.type.name.lower() if cause.type is not None else "unknown"
        return Failure(
            error_type="WorkerLost", message=f"no worker finished the attempt: {kind} timeout, {starts} starts"
        )
    if cause is not None and is_cancelled_exception(cause):
        return Failure(error_type="Cancelled", message="the attempt was cancelled", retryable=False)
    if isinstance(cause, ApplicationError):
        return Failure(
            error_type=cause.type or "ApplicationError", message=cause.message, retryable=not cause.non_retryable
        )
    return Failure(error_type="Infrastructure", message=str(cause or error))
