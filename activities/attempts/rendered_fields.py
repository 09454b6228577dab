"""What a try's templated fields came to, kept beside its log, and wherever logs go."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from ..masking import Masker

SUFFIX = ".rendered.json"
LARGEST = 2**20
"""In bytes: it is the word of a process that may say anything."""

log = logging.getLogger(__name__)


def rendered_path(log_path: Path) -> Path:
    """Return where the fields of the try are that has its log at *log_path*."""
    return log_path.with_name(log_path.name + SUFFIX)


def keep_rendered(log_path: Path, fields: Any, masker: Masker) -> None:
    """Keep *fields* without what is secret. What cannot be kept is said, and hurts no task.

    It goes where logs go with the end of the log: nobody who follows a task waits for a store.
    """
    if not isinstance(fields, dict):
        return
    text = json.dumps(masker.masked_all(fields))
    if len(text) > LARGEST:
        return
    path = rendered_path(log_path)
    try:
        temporary = path.with_name(f"{path.name}.new")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        log.warning("%s cannot be written: %s", path.name, error.strerror)
