"""Looks for files: in a child, since a folder of a network may not answer for a long time."""

from __future__ import annotations

from datetime import UTC, datetime
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from ...model.run.attempts import TaskAttempt
from ...model.run.context import context
from ...model.run.poking import poked
from ...model.run.task_instances import Failure
from ...model.spec.tasks import FileSensorTask
from ..processes.answers import Failed, Performed
from ..secrets import Connection, masked
from .templates import filled, settings_for

if TYPE_CHECKING:
    from .job import Job


def run(job: Job) -> Performed | Failed:
    """Whether a file that the attempt's path or pattern means is there."""
    attempt = TaskAttempt.model_validate(job.request["attempt"])
    assert isinstance(attempt.task, FileSensorTask)  # noqa: S101
    try:
        path = filled(attempt, attempt.task.written(), context(attempt, job), settings_for(job, attempt))["filepath"]
        path = str(Path(base_folder(attempt.task.fs_conn_id), path))
    except Exception as error:  # also what its DAG file raises, where that is needed
        return Failed(failure=Failure(error_type="TemplateError", message=masked(str(error))))
    found = glob(path, recursive=True)  # noqa: PTH207 - the pattern may be absolute
    is_there = any(_has_files(Path(one)) for one in found)
    return Performed(outcome=poked(attempt, is_there, datetime.now(UTC), f"no file {masked(path)} yet"))


def base_folder(conn_id: str | None) -> str:
    """The folder that the connection is about; none where no connection is named."""
    return "" if conn_id is None else str(Connection.get(conn_id).extra_dejson.get("path", ""))


def _has_files(path: Path) -> bool:
    """Whether it is a file, or a folder with a file somewhere in it (as Airflow looks at it)."""
    return path.is_file() or any(inside.is_file() for inside in path.rglob("*"))
