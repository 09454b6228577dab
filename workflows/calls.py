"""How workflows call activities: timeouts and what is retried."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

from ..activities.names import DATE_TAKEN, INVALID_INPUT, MAX_STARTS, OTHER_BUNDLE, control_queue
from ..model.dag.records import DateTakenError
from ..model.errors import InvalidInputError, OtherBundleError
from ..model.interfaces.calls import SignalCall


@contextmanager
def refusing() -> Iterator[None]:
    """Turns bad input into a refusal that its sender reads."""
    try:
        yield
    except OtherBundleError as error:
        raise ApplicationError(str(error), error.bundle, type=OTHER_BUNDLE, non_retryable=True) from None
    except InvalidInputError as error:
        kind = DATE_TAKEN if isinstance(error, DateTakenError) else INVALID_INPUT
        raise ApplicationError(str(error), type=kind, non_retryable=True) from None


def cause_of(error: ActivityError) -> str:
    """What an activity failed of, in its own words."""
    return error.cause.message if isinstance(error.cause, ApplicationError) else str(error.cause)


async def send(
    handle: workflow.ExternalWorkflowHandle[Any] | workflow.ChildWorkflowHandle[Any, Any], call: SignalCall
) -> None:
    """Sends a signal to another workflow. Raises FailureError where it is not there."""
    await handle.signal(call.name, args=call.arguments)


Q = TypeVar("Q")
A = TypeVar("A")

ANSWER_TIMEOUT = timedelta(seconds=30)


async def ask(activity: Callable[[Any, Q], A], question: Q) -> A:
    """An answer from outside the workflow, kept in history; asked again until there is one.

    On a task queue of its own, so that a DAG's decisions never wait behind its tasks. Not a local
    activity: their answers can take another place among signals on replay than they had at first.
    """
    return await workflow.execute_activity_method(
        activity, question, task_queue=control_queue(workflow.info().task_queue), start_to_close_timeout=ANSWER_TIMEOUT
    )


async def look_up(activity: Callable[[Q], Awaitable[A]], question: Q) -> A:
    """The same, of an activity that is a coroutine."""
    return await workflow.execute_activity(
        activity, question, task_queue=control_queue(workflow.info().task_queue), start_to_close_timeout=ANSWER_TIMEOUT
    )


INFRASTRUCTURE = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=30),
    maximum_attempts=MAX_STARTS,
)
"""For what is not the task's fault: a killed worker, a lost heartbeat, a shutdown. Not the user's `retries`."""

FOR_EVER = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
"""For what only looks on: any number of workers may come and go meanwhile."""

UNBOUNDED = timedelta(days=3650)
TIMEOUT_GRACE = timedelta(minutes=1)
