"""Looks for files: in a child, since a folder of a network may not answer for a long time."""

from __future__ import annotations

from glob import glob
from typing import TYPE_CHECKING, Any

from ...model.errors import InvalidInputError
from ...model.run.attempts import TaskAttempt
from ...model.run.context import context
from ...model.spec.tasks import FileSensorTask
from .templates import NOT_IN_HISTORY, filled

if TYPE_CHECKING:
    from .child import Job


def run(job: Job) -> dict[str, Any]:
    """Whether a file that the attempt's path or pattern means is there."""
    attempt = TaskAttempt.model_validate(job.request["attempt"])
    assert isinstance(attempt.task, FileSensorTask)  # noqa: S101
    try:
        path = filled(attempt, attempt.task.filepath, {**context(attempt), **NOT_IN_HISTORY})
    except InvalidInputError as error:
        return {"invalid": str(error)}
    found = glob(path, recursive=True)  # noqa: PTH207 - the pattern may be absolute
    return {"path": path, "found": bool(found)}
