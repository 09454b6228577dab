"""The names that activities and workflows understand each other by."""

JUST_ENDED = "JustEnded"
"""The error of a change that has come to a run while it ended: looked at again, the run has ended."""
TASK_FAILED = "TaskFailed"
"""The task itself failed; the first detail is a `Failure`. Never retried by Temporal."""
INFRASTRUCTURE = "Infrastructure"
"""Not the task's fault; Temporal starts the same attempt again."""

MAX_STARTS = 10
"""How often Temporal starts one try of a task, when workers are lost."""

INVALID_INPUT = "InvalidInput"
"""What was asked for cannot be done; the message says why."""

DATE_TAKEN = "DateTaken"
"""A run cannot be made: another one holds its date or its id."""

OTHER_BUNDLE = "OtherBundle"
"""The DAG belongs to another bundle, which the first detail names."""

BUNDLE_PROBLEM = "BundleProblem"
"""A bundle cannot be listed at all; the message says why."""

MARK = "TIDEMILL_ATTEMPT"
"""The environment variable by which what a forked call has started is known."""

ASK_AGAIN = "AskAgain"
"""What was asked for is under way, and its end is told to whoever asks again."""

NEEDS_DRIVER = "driver"
"""How the ids of activities end that need room for a driver of Spark below their worker."""

CONTROL_SUFFIX = "-control"
CALLS_SUFFIX = "-calls"
SPARK_SUFFIX = "-spark"
DRIVERS_SUFFIX = "-drivers"
FOLLOWING_SUFFIX = "-following"
FILES_SUFFIX = "-files"
WATCHING_SUFFIX = "-watching"
TRIGGERS_SUFFIX = "-triggers"


def calls_queue(task_queue: str) -> str:
    """Where activities run that wait for other workflows: never on slots that those need for their answers."""
    return task_queue + CALLS_SUFFIX


def control_queue(task_queue: str) -> str:
    """Where the workflows on *task_queue* have their questions answered, apart from tasks."""
    return task_queue + CONTROL_SUFFIX


OF_KIND = "kind:"
"""How the name of a work begins that a kind of task has in its own folder."""
