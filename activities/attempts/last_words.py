"""What a child prints of which nobody keeps a log: its last words, without any secret."""

from typing import Any

from ..processes.messages import Rendered, TriggerEvent
from .lifecycle import ChildListener

MAX_BYTES, MAX_LINES = 500, 3


class LastWords:
    """Answers a child as *listener* does, and keeps the last that it prints."""

    def __init__(self, listener: ChildListener) -> None:
        self._listener = listener
        self._printed = b""

    def output(self, data: bytes) -> None:
        self._printed = (self._printed + data)[-MAX_BYTES:]

    def mask(self, secret: str) -> None:
        self._listener.mask(secret)

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        return self._listener.answer(question)

    def note(self, message: Rendered | TriggerEvent) -> None:
        self._listener.note(message)

    def lines(self) -> list[str]:
        """The last lines that it has printed."""
        text = self._listener.masker.masked(self._printed.decode(errors="replace")).strip()
        return text.split("\n")[-MAX_LINES:] if text else []

    def sentence(self) -> str:
        """A sentence about them; "" where there are none."""
        return f" Its last words: {' / '.join(self.lines())}" if self.lines() else ""
