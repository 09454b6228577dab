"""What is known of a try apart from its log, kept beside that, and wherever logs go."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path
from typing import Any

from ..masking import Masker
from .folder import write_whole

RENDERED = ".rendered.json"
"""What the templated fields came to (Airflow: rendered task instance fields)."""
SPARK = ".spark.json"
"""What the Spark application came to."""
LARGEST = 2**20
"""In bytes: it is the word of a process that may say anything."""

log = logging.getLogger(__name__)


def path_beside(log_path: Path, suffix: str) -> Path:
    """Return where what *suffix* names is of the try that has its log at *log_path*."""
    return log_path.with_name(log_path.name + suffix)


def all_beside(log_path: Path) -> list[Path]:
    """Return the files that are there beside the log."""
    return [path for suffix in (RENDERED, SPARK) if is_plain_file(path := path_beside(log_path, suffix))]


def is_plain_file(path: Path) -> bool:
    """Return whether a file is there, and no link: whoever wrote a log may have left one to what is not theirs."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def keep_beside(log_path: Path, suffix: str, content: Any, masker: Masker) -> None:
    """Keep *content* without what is secret. What cannot be kept is said, and hurts no task.

    It goes where logs go with the end of the log: nobody who follows a task waits for a store.
    """
    if not isinstance(content, dict):
        return
    text = json.dumps(masker.masked_all(content))
    if len(text) > LARGEST:
        return
    path = path_beside(log_path, suffix)
    try:
        write_whole(path, text, 0o644)
    except OSError as error:
        log.warning("%s cannot be written: %s", path.name, error.strerror)
