"""What a DAG file is answered while it is imported: its variables and connections; no run is under way."""

from __future__ import annotations

from typing import Any

from .....model.errors import InvalidInputError
from .....model.run.facts import Question
from ....secrets import look_up, question_of_worker
from ..task_report import TaskReport
from . import Asking, Message
from .secrets import ANSWERS
from .telling import ANSWERS as TELLING

ALLOWED = {**ANSWERS, "MaskSecret": TELLING["MaskSecret"]}


class _Worker:
    """The worker, as far as a file may ask it."""

    def ask(self, **question: Any) -> dict[str, Any]:
        if "look_up" in question:  # also where a file is read without a worker
            return {"text": look_up(question["look_up"], question["name"])}
        return question_of_worker(**question)

    def facts(self, question: Question) -> Any:
        raise InvalidInputError(f"{question.about}: no task runs while a DAG file is imported. Ask in a task")

    def tell(self, **message: Any) -> None:
        from ....masking import PROCESS_MASKER

        PROCESS_MASKER.add(message["mask"])


def answer_of_file(message: Message, _: dict[str, str] | None = None) -> Message | None:
    """The answer to *message*. Raises InvalidInputError for what only a task may ask."""
    found = ALLOWED.get(message["type"])
    if found is None:
        raise InvalidInputError(f"{message['type']}: only a task may ask that. Move it from the file's top into a task")
    nobody: Any = None
    return found(Asking(nobody, TaskReport(), _Worker()), message)
