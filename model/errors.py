"""Bad input, said once and clearly: the field, the value, and what to write instead."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from .dropped_arguments import DROPPED

NO_SUCH_FIELD = "no such field"


class InvalidInputError(ValueError):
    """What the user gave cannot be used. The message is meant to be shown as it is."""


class InUseError(InvalidInputError):
    """What is asked for cannot be while something is under way. The message says what, and what to do about it."""


class NotAllowedError(InvalidInputError):
    """What is asked for is somebody else's, or tidemill's own. Who asks may mean harm: it is kept in the audit log."""


class OtherBundleError(NotAllowedError):
    """A DAG is to be registered by one bundle while another has it."""

    def __init__(self, message: str, bundle: str) -> None:
        super().__init__(message)
        self.bundle = bundle


class SecretStoreError(Exception):
    """The store of variables and connections cannot answer. The message says why, without what is secret."""


def explain(
    error: ValidationError, what: str, model: type[BaseModel] | None = None, task_ids: Sequence[str] = ()
) -> InvalidInputError:
    """*error* in the user's terms; *what* names the thing that was read, such as "DAG 'sales'"."""
    lines = list(dict.fromkeys(_line(details, model, task_ids) for details in error.errors(include_url=False)))
    if len(lines) == 1:
        return InvalidInputError(f"{what}: {lines[0]}")
    return InvalidInputError(f"{what} has {len(lines)} errors:\n" + "\n".join(f"  - {line}" for line in lines))


def does_not_know(error: InvalidInputError, field: str) -> bool:
    """Whether *error* is the refusal, as `explain` writes it, of a *field* that a release before does not have."""
    return re.search(rf"(^|: |- ){re.escape(field)} = .*: {NO_SUCH_FIELD}\.", str(error), re.MULTILINE) is not None


def _line(details: Any, model: type[BaseModel] | None, task_ids: Sequence[str]) -> str:
    where = _in_task(details["loc"], task_ids) or field_path(details["loc"])
    if details["type"] == "value_error":
        problem = str(details["ctx"]["error"])
        return f"{where}: {problem}" if where else problem
    value = f" = {_short(details['input'])}" if details["type"] != "missing" else ""
    return f"{where}{value}: {_problem(details, model)}"


def _problem(details: Any, model: type[BaseModel] | None) -> str:
    match details["type"]:
        case "extra_forbidden":
            return f"{NO_SUCH_FIELD}. {_advice(details['loc'], model)}"
        case "missing":
            return "is missing. Give it a value"
        case "union_tag_invalid":
            return f"unknown kind. Use one of {details['ctx']['expected_tags']}"
        case "union_tag_not_found":
            return 'no \'kind\' is given. Add one, such as "kind": "bash"'
        case _:
            return f"{details['msg'][0].lower()}{details['msg'][1:]}. Correct the value"


def _fields_at(loc: Sequence[str | int], model: type[BaseModel] | None) -> Iterable[str]:
    """The fields that there are where an unknown one was found: of the DAG, or of a kind of task."""
    if model is None:
        return ()
    if not _is_in_task(loc):
        return model.model_fields
    kinds = get_args(get_args(get_args(model.model_fields["tasks"].annotation)[0])[0])
    return next((kind.model_fields for kind in kinds if kind.model_fields["kind"].default == loc[2]), ())


def _is_in_task(loc: Sequence[str | int]) -> bool:
    """Whether a field of a task is meant: `("tasks", 0, "bash", "retries")`."""
    return len(loc) >= 4 and loc[0] == "tasks"


def _advice(loc: Sequence[str | int], model: type[BaseModel] | None) -> str:
    """What to write instead of the field at *loc*, which there is not."""
    name, whose = str(loc[-1]), "task" if _is_in_task(loc) else "DAG"
    if name in DROPPED[whose] and (whose == "task" or len(loc) == 1):
        return DROPPED[whose][name].replace("=...", "")
    return _suggest(name, _fields_at(loc, model))


def _suggest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    return "Remove it or correct its spelling"


def _in_task(loc: Sequence[str | int], task_ids: Sequence[str]) -> str | None:
    """`("tasks", 0, "bash", "retries")` as `task 'load': retries`, as the author knows it."""
    if len(loc) < 4 or loc[0] != "tasks" or not isinstance(loc[1], int) or loc[1] >= len(task_ids):
        return None
    return f"task {task_ids[loc[1]]!r}: {field_path(loc[3:])}"


def field_path(loc: Iterable[str | int]) -> str:
    """`("tasks", 0, "bash", "retries")` as `tasks[0].bash.retries`."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
