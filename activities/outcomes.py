"""From what an attempt left in its folder to what its run is told."""

from datetime import UTC, datetime
from typing import Any

from ..model.task_instances import Failure, Outcome
from .attempt_folder import AttemptFolder
from .supervision import task_failed


def outcome_of(result: dict[str, Any]) -> Outcome:
    """The outcome that `result.json` tells of. Raises the task's failure if it tells of one."""
    if "failure" in result:
        raise task_failed(Failure.model_validate(result["failure"]))
    return Outcome.model_validate(result["outcome"])


def instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def last_line(folder: AttemptFolder, start: int) -> str | None:
    """The last line that was added to the log since offset *start*."""
    with folder.log.open("rb") as log:
        log.seek(start)
        lines = log.read()[-65536:].decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), None)


def log_tail(folder: AttemptFolder, start: int, lines: int = 15) -> tuple[str, ...]:
    with folder.log.open("rb") as log:
        log.seek(start)
        text = log.read()[-65536:].decode(errors="replace")
    return tuple(text.rstrip().split("\n")[-lines:])


def log_size(folder: AttemptFolder) -> int:
    try:
        return folder.log.stat().st_size
    except FileNotFoundError:
        return 0


def describe_exit(code: int) -> str:
    """*code* as a shell would put it: an exit code, or the signal that ended the process."""
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
