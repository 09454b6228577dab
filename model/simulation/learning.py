"""What runs of the past tell of those to come: how long the tries of tasks take."""

from collections.abc import Iterable
from datetime import timedelta
from statistics import median

from ..run.views import RunDetails
from ..states import TaskState

SHORTEST = timedelta(milliseconds=1)


def durations_of(runs: Iterable[RunDetails]) -> dict[str, timedelta]:
    """By `dag_id.task_id`, the median time that the successful tries of *runs* took."""
    taken: dict[str, list[float]] = {}
    for details in runs:
        for task in details.tasks:
            name = f"{details.run.dag_id}.{task.task_id}"
            for attempt in task.attempts:
                if attempt.state is TaskState.SUCCESS and attempt.started_at is not None:
                    taken.setdefault(name, []).append((attempt.ended_at - attempt.started_at).total_seconds())
    return {name: max(SHORTEST, timedelta(seconds=median(seconds))) for name, seconds in taken.items()}
