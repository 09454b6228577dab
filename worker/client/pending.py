"""What the server knows of tasks that are under way, beside what their run does."""

import re
from collections.abc import Container, Mapping
from functools import partial
from typing import Any

from ...activities.names import DRIVERS_SUFFIX
from ...model.run.views import RunDetails, TaskView
from ...model.states import TaskState

KEY = r"[\w.-]+(?:\[\d+\])?"
HELD_BACK = (TaskState.NONE, TaskState.SCHEDULED)
"""States of tasks whose `why` is the plan's own: others' words are of any length, and not to be changed."""
QUEUED = re.compile(rf"(?<![\w.-])(?<!\d )({KEY}(?:, {KEY})*) (?:is|are) queued")
"""What a run says of tasks that another waits for, see `RunPlan.why`; a list that was cut short is left as it is."""


def queue_of(task: TaskView, of_run: str, without_room: Container[str]) -> str:
    """The task queue that *task* is in; *without_room*: the keys of those whose driver waits for a worker."""
    return task.queue or of_run + (DRIVERS_SUFFIX if task.key in without_room else task.queue_suffix)


def with_pending(
    details: RunDetails,
    running: Mapping[str, tuple[Any, Any, int]],
    unclaimed: Mapping[str, str],
    deserted: set[str],
    lost: Mapping[str, str],
    without_room: Container[str] = (),
) -> RunDetails:
    """The run as the server sees it too: the workflow is only told of an attempt when it ends.

    *lost*: why the start before of an attempt did not come to an end. *without_room*: those whose driver of Spark waits
    for a worker.
    """
    tasks = []
    for task in details.tasks:
        if task.key in running and task.state is TaskState.QUEUED:
            progress, started, starts = running[task.key]
            before = lost.get(task.key, "a worker was lost")
            why = "is running" if starts == 1 else f"is running, started for the {starts}. time: {before}"
            update = {"state": TaskState.RUNNING, "progress": progress, "started_at": started, "why": why}
            task = task.model_copy(update=update)
        elif task.key in unclaimed and (queue := queue_of(task, unclaimed[task.key], without_room)) in deserted:
            why = f"no worker polls task queue {queue!r}. Start one for it, or correct the task's queue"
            task = task.model_copy(update={"why": why})
        elif task.key in unclaimed and task.key in lost:
            task = task.model_copy(update={"why": f"begins again: {lost[task.key]}"})
        elif task.key in without_room:
            task = task.model_copy(update={"why": "waits for a worker with room for a driver of Spark"})
        if task.state in HELD_BACK and " queued" in task.why:  # whom it waits for may be further than its run knows
            task = task.model_copy(update={"why": QUEUED.sub(partial(_as_they_are, running), task.why)})
        tasks.append(task)
    return details.model_copy(update={"tasks": tuple(tasks)})


def _as_they_are(running: Container[str], found: re.Match[str]) -> str:
    """Those that are queued, and those of them that run."""
    keys = found[1].split(", ")
    if not any(key in running for key in keys):
        return found[0]
    parts = {"queued": [key for key in keys if key not in running], "running": [key for key in keys if key in running]}
    return "; ".join(
        f"{', '.join(some)} {'is' if len(some) == 1 else 'are'} {state}" for state, some in parts.items() if some
    )
