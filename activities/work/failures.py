"""What users are told of an exception in their code: cause, message and the lines of their own files."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from ...model.exceptions import AirflowFailException
from ...model.run.task_instances import Failure
from ..secrets import masked
from .dag_code import shown_path
from .logs import log_failure

LAYERS = ("activities", "kinds", "model", "tidemill", "worker", "workflows")
OURS = (*(f"{Path(__file__).parents[2] / layer}/" for layer in LAYERS), "<frozen importlib", "<frozen runpy")
"""Where the frames of a traceback begin that tell its author nothing."""
MESSAGE = 4000
FRAMES = 20
LINE = 500
"""The most characters of a message, frames of a traceback, and characters of each that are kept."""


Named = Callable[[BaseException], tuple[str, str]]
"""The type and the message of an exception, as its reader needs them."""


def name_and_message(error: BaseException) -> tuple[str, str]:
    if isinstance(error, SystemExit):
        return type(error).__name__, f"it called sys.exit({error.code!r})"
    return type(error).__name__, str(error)


def describe_failure(error: BaseException, named: Named = name_and_message) -> Failure:
    """The innermost cause in the user's terms: type, message, and the frames of the user's own code."""
    cause = innermost(error)
    error_type, message = named(cause)
    kinds = (kind.__name__ for kind in type(cause).__mro__ if kind is not object)
    return Failure(
        error_type=error_type,
        message=masked(message)[:MESSAGE],
        traceback=tuple(masked(line)[:LINE] for line in lines_of(cause)[-FRAMES:]),
        kinds=tuple(kind for kind in kinds if kind != error_type),
        retryable=not isinstance(error, AirflowFailException),
    )


def innermost(error: BaseException) -> BaseException:
    """What has brought about *error*, and itself was brought about by nothing."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def lines_of(error: BaseException) -> list[str]:
    """Where *error* came from in the user's code, outermost first: `file:line in function: code`."""
    frames = _theirs(traceback.extract_tb(error.__traceback__))
    return [f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}" for frame in frames]


def place_of(error: BaseException) -> str | None:
    """`file:line` of the user's code that *error* came from; None where it came from none."""
    frames = _theirs(traceback.extract_tb(error.__traceback__))
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None


def print_failure(error: BaseException) -> None:
    """Has *error* in the log as one entry, with its causes as Python shows them, without frames that are not theirs."""
    trace = traceback.TracebackException.from_exception(error)
    _keep_theirs(trace)
    log_failure("".join(trace.format()).rstrip("\n"))


def _keep_theirs(trace: traceback.TracebackException) -> None:
    trace.stack = traceback.StackSummary.from_list(_theirs(trace.stack))
    for before in (trace.__cause__, trace.__context__):
        if before is not None:
            _keep_theirs(before)


def _theirs(frames: traceback.StackSummary) -> list[traceback.FrameSummary]:
    return [
        traceback.FrameSummary(
            shown_path(frame.filename), frame.lineno, frame.name, lookup_line=False, line=frame.line or ""
        )
        for frame in frames
        if not frame.filename.startswith(OURS)
    ]
