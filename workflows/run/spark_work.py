"""A try of a Spark task: submitted, followed where it outlives its worker, ended where nobody else did, published."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from functools import partial

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from ...activities.names import TASK_FAILED
from ...model.run.attempts import SubmittedAttempt, TableAttempt, TaskAttempt
from ...model.run.task_instances import Outcome, Submission
from ...model.spec.dag import DagSpec
from ...model.states import TaskState
from ..calls import FOR_EVER
from .own_activity import own_activity, part_of

END_TIMEOUT = timedelta(minutes=5)
PUBLISH_TIMEOUT = timedelta(hours=2)


async def spark_work(spec: DagSpec, attempt: TaskAttempt) -> Outcome:
    """Has one try made. When it fails or is stopped, nothing of it runs any more, and nothing can begin."""
    submission: Submission | None = None
    try:
        outcome = await own_activity(spec, attempt)
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
    part = partial(part_of, spec, attempt, part="publish", within=PUBLISH_TIMEOUT)
    if outcome.staged is not None:
        await part("tidemill.publish", outcome.staged, summary=outcome.staged.target)
    # Where a worker of a release without tables has decided what follows, that stands.
    if (staged := outcome.staged_table) is not None and workflow.patched("publish-table"):
        question = TableAttempt(attempt=attempt, staged=staged)
        await part("tidemill.publish_table", question, summary=staged.table, is_driver=True)


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
    told = f"try {attempt.try_number}: {submission.application_id}"
    outcome: Outcome = await part_of(
        spec, attempt, "tidemill.spark_watch", question, Outcome, part="watch", summary=told, policy=FOR_EVER
    )
    return outcome


async def _end(spec: DagSpec, attempt: TaskAttempt, submission: Submission | None) -> None:
    question = SubmittedAttempt(attempt=attempt, submission=submission)
    told = "make sure that nothing of it runs"
    await part_of(spec, attempt, "tidemill.spark_end", question, part="end", within=END_TIMEOUT, summary=told)
