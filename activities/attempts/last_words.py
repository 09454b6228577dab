"""What a child prints of which nobody keeps a log: its last words, without any secret."""

from typing import Any

from ..processes.messages import Rendered, TriggerEvent
from .lifecycle import ChildListener

MAX_BYTES, MAX_LINES = 500, 3


class LastWords:
    """Answers a child as *conversation* does, and keeps the last that it prints."""

    def __init__(self, conversation: ChildListener) -> None:
        self._conversation = conversation
        self._printed = b""

    def output(self, data: bytes) -> None:
        self._printed = (self._printed + data)[-MAX_BYTES:]

    def mask(self, secret: str) -> None:
        self._conversation.mask(secret)

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        return self._conversation.answer(question)

    def note(self, message: Rendered | TriggerEvent) -> None:
        self._conversation.note(message)

    def lines(self) -> list[str]:
        """The last lines that it has printed."""
        text = self._conversation.masker.masked(self._printed.decode(errors="replace")).strip()
        return text.split("\n")[-MAX_LINES:] if text else []

    def sentence(self) -> str:
        """A sentence about them; "" where there are none."""
        return f" Its last words: {' / '.join(self.lines())}" if self.lines() else ""
