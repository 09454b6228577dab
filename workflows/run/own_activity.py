"""The activity that does a task's work: on which queue, for how long, and how often it is started."""

from dataclasses import replace
from datetime import timedelta
from types import UnionType
from typing import Any, cast

from temporalio import workflow
from temporalio.common import RetryPolicy

from ...activities.names import DRIVERS_SUFFIX, FOLLOWING_SUFFIX, calls_queue
from ...model.run.attempts import TaskAttempt
from ...model.run.task_instances import Outcome
from ...model.spec.dag import DagSpec
from ...model.spec.tasks import BaseTask
from ..calls import FOR_EVER, INFRASTRUCTURE, TIMEOUT_GRACE, UNBOUNDED

CALL_TIMEOUT = timedelta(minutes=2)
"""How long one look at another workflow may take before another worker has a try."""


async def own_activity(spec: DagSpec, attempt: TaskAttempt, *, queue: str | None = None, part: str = "") -> Outcome:
    """Has the work of one try done; its outcome. *queue*: where, if not where its kind is."""
    assert attempt.task.activity is not None  # noqa: S101
    starts = attempt.task.max_starts
    policy = INFRASTRUCTURE if starts is None else replace(INFRASTRUCTURE, maximum_attempts=starts)
    start_to_close_timeout = None
    if attempt.task.calls_workflows:  # it finds what an earlier start has done: any number may be needed
        policy, start_to_close_timeout = FOR_EVER, CALL_TIMEOUT
    outcome: Outcome = await part_of(
        spec,
        attempt,
        attempt.task.activity,
        attempt,
        Outcome,
        summary=f"try {attempt.try_number}",
        part=part,
        queue=queue or queue_of(attempt.task),
        start_to_close_timeout=start_to_close_timeout,
        policy=policy,
    )
    return outcome


async def part_of(
    spec: DagSpec,
    attempt: TaskAttempt,
    activity: str,
    question: object,
    answer: type[Any] | UnionType | None = None,
    *,
    summary: str,
    queue: str | None,
    part: str = "",
    start_to_close_timeout: timedelta | None = None,
    policy: RetryPolicy = INFRASTRUCTURE,
) -> Any:
    """Has *activity* do the try, or a *part* of it, on the task queue *queue* (None: the workflow's own).

    By default for as long as the task may take.
    """
    return await workflow.execute_activity(
        activity,
        question,
        activity_id=activity_id(attempt) + (f"/{part}" if part else ""),
        result_type=cast(type[Any] | None, answer),
        task_queue=queue,
        start_to_close_timeout=start_to_close_timeout or limit_of(attempt),
        heartbeat_timeout=None if attempt.task.calls_workflows else spec.heartbeat_timeout,
        retry_policy=policy,
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=f"{attempt.key}, {summary}",
    )


def queue_of(task: BaseTask) -> str | None:
    """The task queue of *task*; None: the workflow's own."""
    if task.calls_workflows:
        return calls_queue(workflow.info().task_queue)
    return task.queue or (workflow.info().task_queue + task.queue_suffix if task.queue_suffix else None)


def following_queue(task: BaseTask) -> str:
    """Where the parts of a try wait that follow on its work: never behind the work of others."""
    return (task.queue or workflow.info().task_queue) + FOLLOWING_SUFFIX


def drivers_queue() -> str:
    """Where what needs room for a driver of Spark waits for a worker that has it."""
    return workflow.info().task_queue + DRIVERS_SUFFIX


def activity_id(attempt: TaskAttempt) -> str:
    return f"{attempt.key}/{attempt.try_number}" + (f"/{attempt.poke}" if attempt.poke > 1 else "")


def limit_of(attempt: TaskAttempt) -> timedelta:
    """Return how long a start may take, by Temporal's clock. Who waits for room first counts its own time."""
    timeout = attempt.task.execution_timeout
    return UNBOUNDED if timeout is None or attempt.task.waits_for_room else timeout + TIMEOUT_GRACE
