"""One piece of work of a fork, and the way back to the worker that has asked for it."""

import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from ...model.errors import InvalidInputError
from ...model.run.attempts import TaskAttempt
from ...model.run.facts import Question
from ...model.spec.tasks import BaseTask
from ..masking import MaskingStream
from ..processes import channel
from ..processes.answers import ChildAnswer, too_large
from ..processes.channel import ANSWER
from .dag_code import Code
from .dag_import import import_code

T = TypeVar("T", bound=BaseTask)
QUESTION_TIMEOUT, QUESTION_INTERVAL = 90.0, 1.0
"""In seconds. While workers are replaced, or a workflow has other work, nobody answers for a moment."""


@dataclass
class Job:
    """What the child is to do, and the way back to its worker."""

    id: str
    request: dict[str, Any]
    channel: socket.socket
    code: Code | None = None
    """The DAG file that was imported before the fork."""
    control: Sequence[socket.socket] = field(default=())
    serve: Callable[[socket.socket, Code | None], None] = field(default=lambda *_: None)
    """What makes this process one that forks others, over a socket of its own."""
    files_log: int = -1
    """Where DAG files print to while they are imported: it is not the task that prints."""

    def tell(self, **message: Any) -> None:
        channel.send(self.channel, message)

    def answer(self, answer: ChildAnswer) -> None:
        """Tells what has come of it; in a file where the user's code has closed the channel."""
        try:
            self.tell(answer=answer.model_dump(mode="json"))
        except channel.MessageTooLargeError as error:
            refused = too_large(f"the result is too large: {error}. Write it somewhere yourself, and return where")
            self.tell(answer=refused.model_dump(mode="json"))
        except OSError:
            if (folder := self.request.get("folder")) is None:
                raise
            Path(folder, ANSWER).write_text(answer.model_dump_json())

    def ask(self, **question: Any) -> dict[str, Any]:
        """What the worker answers; asked again while that may come later. Raises ConnectionError if it is gone."""
        deadline = time.monotonic() + QUESTION_TIMEOUT
        while (answer := self._ask(question)).get("later") and time.monotonic() < deadline:
            time.sleep(QUESTION_INTERVAL)
        return answer

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        # An end of its own for each answer: threads and forks of the task may ask at the same time.
        mine, theirs = channel.pair()
        with mine:
            with theirs:
                channel.send(self.channel, {"ask": question}, [theirs.fileno()])
            received = channel.receive(mine)
        if received is None:
            raise ConnectionError("the worker is gone")
        return received[0]

    def attempt_of(self, model: type[T]) -> tuple[TaskAttempt, T]:
        """Return the attempt of the request, and its task. Raises TypeError where that is of another kind."""
        attempt = TaskAttempt.model_validate(self.request["attempt"])
        task: Any = attempt.task
        if not isinstance(task, model):
            raise TypeError(f"task {task.task_id!r} is of kind {task.kind!r}, and not {model.__name__}")
        return attempt, task

    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def log_url(self) -> str:
        """Where people find the attempt's log."""
        return str(self.request.get("log_url", ""))

    def facts(self, question: Question) -> Any:
        """What the worker knows of a DAG or a run. Raises InvalidInputError if it cannot be asked."""
        answer = self.ask(**question.model_dump(mode="json"))
        if "error" in answer:
            raise InvalidInputError(answer["error"])
        return answer["answer"]

    def imported(self) -> Code:
        """The DAG file, imported now unless it was before. Tells the worker how long that takes."""
        if self.code is None:
            start = time.perf_counter()
            with _printing_to(self.files_log), _masked_prints():
                self.code = import_code(Path(self.request["code"]["path"]), map(Path, self.request["code"]["roots"]))
            self.tell(imported=time.perf_counter() - start)
        return self.code


@contextlib.contextmanager
def _printing_to(target: int) -> Iterator[None]:
    """Has this process print to *target* as long as the block."""
    own = os.dup(1)
    os.dup2(target, 1)
    os.dup2(target, 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(own, 1)
        os.dup2(own, 2)
        os.close(own)


@contextlib.contextmanager
def _masked_prints() -> Iterator[None]:
    """Masks what is printed where no worker does it."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(MaskingStream, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
