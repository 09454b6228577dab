"""From what a child has answered to what its run is told."""

import signal

from ...model.run.task_instances import Failure, Outcome
from ..masking import Masker
from ..processes.answers import ChildAnswer, CommandEnded, Failed, Performed
from .supervision import task_failure

OF_A_SIGNAL = 128
"""What shells, and spark-submit, add to the number of the signal that ended the process below them."""
KILLED = (-signal.SIGKILL, OF_A_SIGNAL + signal.SIGKILL)
"""How a process ends that the kernel has ended, or a shell whose last command was."""
LONGEST_NOTE = 4000
"""In characters: what a task says of why it is skipped, or waits."""
LARGEST = 1_900_000
"""In bytes: what Temporal takes as what an activity has come to, and some room."""


def outcome_of(answer: ChildAnswer, masker: Masker | None = None) -> Outcome:
    """The outcome that *answer* tells of. Raises the task's failure if it tells of one, without any secret."""
    if isinstance(answer, Failed):
        raise task_failure(failure_of_child(answer.failure, masker))
    if not isinstance(answer, Performed):
        raise task_failure(unanswered(0))
    outcome = answer.outcome
    return outcome if outcome.note is None else outcome.model_copy(update={"note": outcome.note[:LONGEST_NOTE]})


def failure_of_child(given: Failure, masker: Masker | None = None) -> Failure:
    """The failure that a child tells of, without any secret; that a cluster has ended it, its worker alone says."""
    failure = given if masker is None else Failure.model_validate(masker.masked_all(given.model_dump(mode="json")))
    return failure.model_copy(update={"is_disruption": False})


def _named_signal(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def describe_exit(code: int, *, memory: bool = False) -> str:
    """*code* as a shell would put it: an exit code, or the signal that ended the process; and whether *memory* did."""
    if code < 0:
        end = f"was ended by signal {_named_signal(-code)}"
    elif code > OF_A_SIGNAL:
        end = f"ended with exit code {code}, as of signal {_named_signal(code - OF_A_SIGNAL)}"
    else:
        end = f"ended with exit code {code}"
    return f"{end}: memory ran out, and the kernel ended processes here" if memory and code in KILLED else end


def describe_end(end: CommandEnded) -> str:
    """What `describe_exit` says of the *end* of a command."""
    return "was stopped" if end.code is None else describe_exit(end.code, memory=end.memory)


def unanswered(code: int, *, memory: bool = False) -> Failure:
    """Why a child has ended without an answer."""
    if code == -signal.SIGXCPU:  # only templates run under such a limit
        message = "the task's templates took more than 10 s of processor time. Do such work in the task itself"
        return Failure(error_type="TemplateError", message=message, retryable=False)
    return Failure(error_type="ProcessEnded", message=f"the task's process {describe_exit(code, memory=memory)}")


def check_size(outcome: Outcome) -> None:
    """Raises the task's failure where *outcome*, without results kept elsewhere, is more than Temporal takes."""
    size = len(outcome.model_dump_json())
    if size > LARGEST:
        events = len(outcome.asset_events)
        message = f"what the task says of its end has {size:,} bytes ({events} events of assets among it)"
        message += f"; at most {LARGEST:,} travel. Write it to a file, and say where that is"
        raise task_failure(Failure(error_type="ResultTooLarge", message=message, retryable=False))
