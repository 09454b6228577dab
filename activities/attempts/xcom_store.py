"""Where results are kept that are too large for Temporal's history: a folder, or an object store such as S3."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import fsspec
from temporalio.exceptions import ApplicationError

from ...model.run.attempts import INLINE_LIMIT, TaskAttempt, run_path
from ...model.run.mapping import verbatim
from ...model.run.task_instances import Failure, Outcome
from ...model.spec.references import RETURN_VALUE, STORED, is_stored, replace, stored_reference
from ...model.spec.tasks import BranchTask, ShortCircuitTask
from ..names import TASK_FAILED
from .supervision import task_failure


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
        # What it returns its workflow has to read.
        decides = key == RETURN_VALUE and isinstance(attempt.task, BranchTask | ShortCircuitTask)
        if decides or (len(text) <= attempt.inline_limit and not has_stored(value)):
            return value
        url = f"{self.url.rstrip('/')}/{attempt.path}/{attempt.execution}/{quote(key, safe='')}.json"
        with fsspec.open(url, "w", auto_mkdir=True) as file:
            file.write(text)
        length = len(value) if isinstance(value, list | dict) else None
        return stored_reference(url, len(text), length)

    @contextmanager
    def keeping_pushed(self, attempt: TaskAttempt) -> Iterator[None]:
        """Keeps what a task had pushed that fails in the block, as results are kept. Raises its failure."""
        try:
            yield
        except ApplicationError as error:
            if error.type != TASK_FAILED or not error.details:
                raise
            failure = Failure.model_validate(error.details[0])
            if not failure.xcom:
                raise
            raise task_failure(self._put_pushed(attempt, failure)) from None

    def _put_pushed(self, attempt: TaskAttempt, failure: Failure) -> Failure:
        try:
            kept = {key: self._put(attempt, key, value) for key, value in failure.xcom.items()}
            size = len(json.dumps(kept))
            lost = f"{len(kept)} values that together are too large" if size > INLINE_LIMIT else ""
        except Exception as error:  # whatever an object store raises: the failure itself goes first
            kept, lost = {}, f"that cannot be kept: {error}"
        if lost:
            return failure.model_copy(update={"xcom": {}, "message": f"{failure.message} (it had pushed {lost})"})
        return failure.model_copy(update={"xcom": kept})

    def fill(self, attempt: TaskAttempt) -> TaskAttempt:
        """*attempt* with stored results of its run in the place of the references to them."""
        task, run = attempt.task.model_dump(), run_path(attempt.run.dag_id, attempt.run.run_id)
        filled: dict[str, Any] = {"xcom": self.filled(attempt.xcom, run)} if has_stored(attempt.xcom) else {}
        if has_stored(task):
            filled["task"] = type(attempt.task).model_validate(self.filled(task, run, verbatim))
        return attempt.model_copy(update=filled) if filled else attempt

    def filled(self, value: Any, owner: str, change: Callable[[Any], Any] = lambda found: found) -> Any:
        """*value* with every stored result in the place of the reference to it.

        *owner*: the path of the DAG or run whose values they are. What leads elsewhere fails the task: whoever writes
        such a reference would read what is not theirs.
        """
        return replace(value, is_stored, lambda reference: change(self._read(reference, owner)))

    def _read(self, reference: dict[str, Any], owner: str) -> Any:
        url = str(reference[STORED])
        if not url.startswith(f"{self.url.rstrip('/')}/{owner}/") or ".." in url:
            reason = (
                f"a result is said to be at {url!r}, which is not where its run keeps results. Return something else"
            )
            raise task_failure(Failure(error_type="InvalidInput", message=reason, retryable=False))
        with fsspec.open(url, "r") as file:
            found = json.load(file)
        if "at" not in reference:
            return found
        return list(list(found.items())[reference["at"]]) if isinstance(found, dict) else found[reference["at"]]


def has_stored(value: Any) -> bool:
    found: list[Any] = []
    replace(value, is_stored, found.append)
    return bool(found)
