"""The error types that activities and workflows understand each other by."""

TASK_FAILED = "TaskFailed"
"""The task itself failed; the first detail is a `Failure`. Never retried by Temporal."""
INFRASTRUCTURE = "Infrastructure"
"""Not the task's fault; Temporal starts the same attempt again."""
