"""Looks for files: in a child, since a folder of a network may not answer for a long time."""

from __future__ import annotations

from datetime import UTC, datetime
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from ...activities.processes.answers import Failed, Performed
from ...activities.secrets import Connection, masked
from ...activities.work.templates import filled_fields
from ...model.run.poking import poked
from ...model.run.task_instances import Failure
from .spec import FileSensorTask

if TYPE_CHECKING:
    from ...activities.work.job import Job


def run(job: Job) -> Performed | Failed:
    """Whether a file that the attempt's path or pattern means is there."""
    attempt, task = job.attempt_of(FileSensorTask)
    try:
        path = str(Path(base_folder(task.fs_conn_id), filled_fields(job, attempt)["filepath"]))
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
