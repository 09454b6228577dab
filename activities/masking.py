"""Secrets kept out of what is printed and told: replaced in text, wherever they are known."""

import re
from collections.abc import Callable, Iterable
from typing import Any, TextIO

MASK = "***"
SHORTEST_MASKED = 4
"""Shorter secrets are not masked: they would be found in the middle of ordinary words."""


class Masker:
    """Knows secrets, and text without them. Safe to use from several threads."""

    def __init__(self, secrets: Iterable[str] = (), heard: Callable[[str], None] | None = None) -> None:
        self._secrets: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self.heard = heard
        """Called with each secret that is new here."""
        for secret in secrets:
            self.add(secret)

    def add(self, secret: Any) -> None:
        """Has *secret* replaced from now on; of one with several lines, each line by itself."""
        if not isinstance(secret, str):
            return
        for part in {secret, *secret.splitlines()}:
            if len(part.strip()) >= SHORTEST_MASKED and part not in self._secrets:
                self._secrets = {*self._secrets, part}
                self._pattern = None
                if self.heard is not None:
                    self.heard(part)

    @property
    def secrets(self) -> set[str]:
        return self._secrets

    def clear(self) -> None:
        self._secrets, self._pattern = set(), None

    def masked(self, text: str) -> str:
        """*text* with every known secret replaced."""
        secrets = self._secrets
        if not secrets:
            return text
        pattern = self._pattern
        if pattern is None:
            longest_first = sorted(secrets, key=len, reverse=True)
            pattern = self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        return pattern.sub(MASK, text)

    def masked_all(self, value: Any) -> Any:
        """Plain data with every known secret in its texts replaced."""
        if isinstance(value, str):
            return self.masked(value)
        if isinstance(value, dict):
            return {key: self.masked_all(part) for key, part in value.items()}
        return [self.masked_all(part) for part in value] if isinstance(value, list | tuple) else value


HERE = Masker()
"""What was looked up in this process."""


class MaskingStream:
    """A text stream that prints no secret. For processes whose output passes nobody who masks it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(HERE.masked(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
