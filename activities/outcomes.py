"""From what an attempt left in its folder to what its run is told."""

from datetime import UTC, datetime
from typing import Any

from ..model.task_instances import Failure, Outcome
from .attempt_folder import AttemptFolder
from .supervision import task_failed

TAIL_LIMIT = 1024 * 1024
"""How much of the end of a log is looked at for its last lines."""


def outcome_of(result: dict[str, Any]) -> Outcome:
    """The outcome that `result.json` tells of. Raises the task's failure if it tells of one."""
    if "failure" in result:
        raise task_failed(Failure.model_validate(result["failure"]))
    return Outcome.model_validate(result["outcome"])


def instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def last_line(folder: AttemptFolder, start: int) -> str | None:
    """The last line that was added to the log since offset *start*."""
    return next((line.strip() for line in reversed(added(folder, start)) if line.strip()), None)


def log_tail(folder: AttemptFolder, start: int, lines: int = 15) -> tuple[str, ...]:
    return tuple("\n".join(added(folder, start)).rstrip().split("\n")[-lines:])


def added(folder: AttemptFolder, start: int) -> list[str]:
    """The lines of the log since offset *start*; of many only the last, as much as a result may hold."""
    with folder.log.open("rb") as log:
        log.seek(max(start, log_size(folder) - TAIL_LIMIT))
        return log.read().decode(errors="replace").split("\n")


def log_size(folder: AttemptFolder) -> int:
    try:
        return folder.log.stat().st_size
    except FileNotFoundError:
        return 0


def describe_exit(code: int) -> str:
    """*code* as a shell would put it: an exit code, or the signal that ended the process."""
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
