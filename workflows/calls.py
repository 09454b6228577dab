"""How workflows call activities: timeouts and what is retried."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy

Q = TypeVar("Q")
A = TypeVar("A")

ANSWER_WITHIN = timedelta(seconds=30)
# A local activity that always fails would hold up its workflow for ever.
GIVE_UP_AFTER = timedelta(minutes=2)

INFRASTRUCTURE = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=30),
    maximum_attempts=10,
)
"""For what is not the task's fault: a killed worker, a lost heartbeat, a shutdown. Not the user's `retries`."""


async def ask(activity: Callable[[Q], A], question: Q) -> A:
    """The answer of a local activity: worked out once, then kept in history."""
    return await workflow.execute_local_activity(
        activity, question, start_to_close_timeout=ANSWER_WITHIN, schedule_to_close_timeout=GIVE_UP_AFTER
    )


async def look_up(activity: Callable[[Q], Awaitable[A]], question: Q) -> A:
    """The same, of one that asks a server."""
    return await workflow.execute_local_activity(
        activity, question, start_to_close_timeout=ANSWER_WITHIN, schedule_to_close_timeout=GIVE_UP_AFTER
    )


UNBOUNDED = timedelta(days=3650)
TIMEOUT_GRACE = timedelta(minutes=1)
