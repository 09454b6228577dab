"""A try of a Spark task: submitted, followed where it outlives its worker, ended where nobody else did, published."""

import asyncio
from datetime import timedelta

from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from ..activities.names import TASK_FAILED
from ..model.attempts import SubmittedAttempt, TaskAttempt
from ..model.dag import DagSpec
from ..model.states import TaskState
from ..model.task_instances import Outcome, Submission
from .own_activity import own_activity, part_of

END_WITHIN = timedelta(minutes=5)
PUBLISH_WITHIN = timedelta(hours=2)


async def spark_work(spec: DagSpec, attempt: TaskAttempt) -> Outcome:
    """Has one try made. When it fails or is stopped, nothing of it runs any more, and nothing can begin."""
    submission: Submission | None = None
    try:
        outcome = await own_activity(spec, attempt)
        submission = outcome.submission
        if submission is not None:
            outcome = await _follow(spec, attempt, submission)
    except (Exception, asyncio.CancelledError) as error:
        if submission is not None or not _ended_by_itself(error):
            await asyncio.shield(_end(spec, attempt, submission))
        raise
    if outcome.state is TaskState.SUCCESS and outcome.staged is not None:
        await part_of(
            spec,
            attempt,
            "tidemill.publish",
            outcome.staged,
            part="publish",
            within=PUBLISH_WITHIN,
            summary=outcome.staged.target,
        )
    return outcome


def _ended_by_itself(error: BaseException) -> bool:
    """Whether the activity itself has told of its end: then it has left nothing behind."""
    if isinstance(error, asyncio.CancelledError):  # it was never begun
        return True
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, ApplicationError):
        return cause.type == TASK_FAILED
    return cause is not None and is_cancelled_exception(cause)


async def _follow(spec: DagSpec, attempt: TaskAttempt, submission: Submission) -> Outcome:
    question = SubmittedAttempt(attempt=attempt, submission=submission)
    told = f"try {attempt.try_number}: {submission.application_id}"
    outcome: Outcome = await part_of(
        spec, attempt, "tidemill.spark_watch", question, Outcome, part="watch", summary=told
    )
    return outcome


async def _end(spec: DagSpec, attempt: TaskAttempt, submission: Submission | None) -> None:
    question = SubmittedAttempt(attempt=attempt, submission=submission)
    told = "make sure that nothing of it runs"
    await part_of(spec, attempt, "tidemill.spark_end", question, part="end", within=END_WITHIN, summary=told)
