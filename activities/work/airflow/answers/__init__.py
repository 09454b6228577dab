"""What a task of Airflow's is answered: for each message of the Task SDK's protocol, one function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from .....model.errors import InvalidInputError
from .....model.run.attempts import TaskAttempt
from .....model.run.facts import Question
from ..task_report import TaskReport

Message = dict[str, Any]
OK: Message = {"type": "OKResponse", "ok": True}


class AnswerSource(Protocol):
    """Whom answers are taken from that the task does not carry itself: its worker."""

    def ask(self, **question: Any) -> dict[str, Any]: ...

    def facts(self, question: Question) -> Any: ...

    def tell(self, **message: Any) -> None: ...


@dataclass
class Asking:
    """The try that asks, what it has told so far, and who knows more."""

    attempt: TaskAttempt
    report: TaskReport
    worker: AnswerSource

    def ask(self, **question: Any) -> dict[str, Any]:
        """What the worker answers. Raises InvalidInputError for what it refuses, and for what it cannot do now."""
        answer = self.worker.ask(**question)
        if "error" in answer:
            raise InvalidInputError(answer["error"])
        return answer

    def is_own(self, message: Message) -> bool:
        """Whether *message* is about the run of this try."""
        run = self.attempt.run
        return bool(message["dag_id"] == run.dag_id and message["run_id"] == run.run_id)


Answering = Callable[[Asking, Message], Message | None]


def missing(error: str, **detail: Any) -> Message:
    """That there is no such thing, as an answer: *error* is one of Airflow's ErrorType.

    Whoever asks has to look at it: `table.LOOKED_AT` says where Airflow's SDK does. All else is raised in the task.
    """
    return {"type": "ErrorResponse", "error": error, "detail": detail}
