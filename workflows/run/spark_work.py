"""A try of a Spark task: submitted, followed where it outlives its worker, ended where nobody else did, published."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from ...activities.names import NEEDS_DRIVER, TASK_FAILED
from ...model.run.attempts import SubmittedAttempt, TableAttempt, TaskAttempt
from ...model.run.task_instances import Outcome, Submission
from ...model.spec.dag import DagSpec
from ...model.states import TaskState
from ..calls import FOR_EVER
from .own_activity import drivers_queue, following_queue, own_activity, part_of, queue_of

END_TIMEOUT = timedelta(minutes=5)
PUBLISH_TIMEOUT = timedelta(hours=2)


async def spark_work(spec: DagSpec, attempt: TaskAttempt) -> Outcome:
    """Has one try made. When it fails or is stopped, nothing of it runs any more, and nothing can begin."""
    workflow.deprecate_patch("drivers-have-a-queue")
    first = workflow.info().first_execution_run_id
    attempt = attempt.model_copy(update={"hands_over": attempt.task.queue is None, "first_execution": first})
    submission: Submission | None = None
    try:
        outcome = await own_activity(spec, attempt)
        if outcome.needs_driver:
            _heed_cancel()
            outcome = await own_activity(spec, attempt, queue=drivers_queue(), part=NEEDS_DRIVER)
        submission = outcome.submission
        _heed_cancel()
        if submission is not None:
            outcome = await _follow(spec, attempt, submission)
            _heed_cancel()
    except (Exception, asyncio.CancelledError) as error:
        if submission is not None or not _ended_by_itself(error):
            await _make_sure_of_end(spec, attempt, submission, error)
        raise
    if outcome.state is TaskState.SUCCESS:
        await _publish(spec, attempt, outcome)
    return outcome


async def _publish(spec: DagSpec, attempt: TaskAttempt, outcome: Outcome) -> None:
    """Has what the attempt has written take its place. Raises ActivityError, which fails the try."""
    part = partial(part_of, spec, attempt, start_to_close_timeout=PUBLISH_TIMEOUT)
    if (folder := outcome.staged) is not None:
        queue = following_queue(attempt.task)
        await part("tidemill.publish", folder, summary=folder.target, part="publish", queue=queue)
    if (staged := outcome.staged_table) is not None:
        workflow.deprecate_patch("publish-table")
        await _publish_table(part, TableAttempt(attempt=attempt, staged=staged))


async def _publish_table(part: Callable[..., Awaitable[Any]], question: TableAttempt) -> None:
    """Has the branch of the attempt become its table's main one, or makes sure that it does not any more."""
    try:
        await _settle(part, question, "publish")
    except ActivityError as error:
        if _ended_by_itself(error):
            raise
        workflow.deprecate_patch("withdraw-table")
        # Its driver may be there yet, below a worker that is cut off, and its commit may have been made.
        try:
            await _settle(part, question.model_copy(update={"withdraws": True}), "withdraw")
        except ActivityError as answer:
            failure = answer if _ended_by_itself(answer) else error
            raise failure from failure.cause


async def _settle(part: Callable[..., Awaitable[Any]], question: TableAttempt, name: str) -> None:
    task, summary = question.attempt.task, question.staged.table
    settle = partial(part, "tidemill.publish_table", question, Outcome | None, summary=f"{name} {summary}")
    begun = await settle(part=name, queue=queue_of(task))
    if begun is not None and begun.needs_driver:
        _heed_cancel()
        await settle(part=f"{name}-{NEEDS_DRIVER}", queue=drivers_queue())


def _heed_cancel() -> None:
    """Raises CancelledError if the attempt was stopped while an activity ended: the SDK gives its result then."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _ended_by_itself(error: BaseException) -> bool:
    """Whether the activity itself has told of its end: then it has left nothing behind."""
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, ApplicationError):
        return cause.type == TASK_FAILED
    # One that is no ActivityError may stand for an activity that has just submitted.
    return isinstance(error, ActivityError) and cause is not None and is_cancelled_exception(cause)


async def _make_sure_of_end(
    spec: DagSpec, attempt: TaskAttempt, submission: Submission | None, reason: BaseException
) -> None:
    """Ends the attempt wherever it runs; however often it is stopped meanwhile, first it has to be dead."""
    ending = asyncio.create_task(_end(spec, attempt, submission))
    while not ending.done():
        with suppress(asyncio.CancelledError, ActivityError):
            await asyncio.shield(ending)
    failure = ending.exception()
    if failure is not None and not _ended_by_itself(reason):
        raise failure


async def _follow(spec: DagSpec, attempt: TaskAttempt, submission: Submission) -> Outcome:
    question = SubmittedAttempt(attempt=attempt, submission=submission)
    summary = f"try {attempt.try_number}: {submission.application_id}"
    part = partial(part_of, spec, attempt, part="watch", queue=following_queue(attempt.task), summary=summary)
    outcome: Outcome = await part("tidemill.spark_watch", question, Outcome, policy=FOR_EVER)
    return outcome


async def _end(spec: DagSpec, attempt: TaskAttempt, submission: Submission | None) -> None:
    question = SubmittedAttempt(attempt=attempt, submission=submission)
    summary = "make sure that nothing of it runs"
    part = partial(part_of, spec, attempt, part="end", queue=following_queue(attempt.task), summary=summary)
    await part("tidemill.spark_end", question, start_to_close_timeout=END_TIMEOUT)
