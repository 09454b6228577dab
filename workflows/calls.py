"""How workflows call activities: timeouts and what is retried."""

from datetime import timedelta

from temporalio.common import RetryPolicy

TIMETABLE = {
    "start_to_close_timeout": timedelta(seconds=30),
    # A local activity that always fails would hold up the workflow for ever.
    "schedule_to_close_timeout": timedelta(minutes=2),
}

LOOK_UP = {"start_to_close_timeout": timedelta(seconds=30), "schedule_to_close_timeout": timedelta(minutes=2)}

INFRASTRUCTURE = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=30),
    maximum_attempts=10,
)
"""For what is not the task's fault: a killed worker, a lost heartbeat, a shutdown. Not the user's `retries`."""

UNBOUNDED = timedelta(days=3650)
TIMEOUT_GRACE = timedelta(minutes=1)
