"""Where results are kept that are too large for Temporal's history: a folder, or an object store such as S3."""

import json
from dataclasses import dataclass
from typing import Any

import fsspec

from ..model.attempts import TaskAttempt
from ..model.references import STORED, is_stored, replace, stored_reference
from ..model.task_instances import Outcome


@dataclass(frozen=True)
class XComStore:
    """Results as JSON files below a URL that fsspec knows: `file:///...`, `s3://bucket/prefix`, ..."""

    url: str

    def put(self, attempt: TaskAttempt, outcome: Outcome) -> Outcome:
        """*outcome* with its large values stored, and references in their place."""
        kept = {key: self._put(attempt, key, value) for key, value in outcome.xcom.items()}
        return outcome if kept == outcome.xcom else outcome.model_copy(update={"xcom": kept})

    def _put(self, attempt: TaskAttempt, key: str, value: Any) -> Any:
        text = json.dumps(value)
        if len(text) <= attempt.inline_limit:
            return value
        url = f"{self.url.rstrip('/')}/{attempt.path}/{attempt.execution}/{key}.json"
        with fsspec.open(url, "w", auto_mkdir=True) as file:
            file.write(text)
        length = len(value) if isinstance(value, list | dict) else None
        return stored_reference(url, len(text), length)

    def fill(self, attempt: TaskAttempt) -> TaskAttempt:
        """*attempt* with stored results in the place of the references to them."""
        task = attempt.task.model_dump()
        filled = {"xcom": load(attempt.xcom)} if has_stored(attempt.xcom) else {}
        if has_stored(task):
            filled["task"] = type(attempt.task).model_validate(load(task))
        return attempt.model_copy(update=filled) if filled else attempt


def has_stored(value: Any) -> bool:
    found: list[Any] = []
    replace(value, is_stored, found.append)
    return bool(found)


def load(value: Any) -> Any:
    """*value* with every reference to a stored result replaced by the result."""
    return replace(value, is_stored, _load)


def _load(reference: dict[str, Any]) -> Any:
    with fsspec.open(reference[STORED], "r") as file:
        found = json.load(file)
    if "at" not in reference:
        return found
    return list(found.items())[reference["at"]] if isinstance(found, dict) else found[reference["at"]]
