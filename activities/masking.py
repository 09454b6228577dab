"""Secrets kept out of what is printed and told: replaced in text, wherever they are known, in each usual form."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, TextIO
from urllib.parse import quote, quote_plus

MASK = "***"
SHORTEST_MASKED = 4
"""Shorter secrets are not masked: they would be found in the middle of ordinary words."""
SHORTEST_ENCODED = 8
"""What base64 makes of shorter ones is found in other texts, too."""
MOST_SECRETS = 500
"""So many that were told later are known at a time: whoever tells more has the oldest of them forgotten."""


def _parts_of(secret: str) -> Iterator[str]:
    """*secret*, and each of its lines, as far as they are long enough."""
    return (part for part in {secret, *secret.splitlines()} if len(part.strip()) >= SHORTEST_MASKED)


def forms_of(secret: str) -> Iterator[str]:
    """*secret* as people print it by accident: quoted in a URL, escaped in JSON or in bytes, and in base64."""
    yield secret
    yield quote(secret)
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret.encode(errors="replace"))[2:-1]
    yield from _in_base64(secret.encode(errors="replace"))


def _in_base64(secret: bytes) -> Iterator[str]:
    """What base64 makes of *secret* wherever it begins in something longer, such as `user:password`."""
    for before in range(3):
        text = base64.b64encode(bytes(before) + secret).decode()
        first = (before * 8 + 5) // 6  # these signs depend on what comes before, as the last ones on what follows
        last = (before + len(secret)) * 8 // 6
        if last - first >= SHORTEST_ENCODED:
            yield text[first:last]
            yield text[first:last].replace("+", "-").replace("/", "_")


@lru_cache(16)
def _pattern_of(secrets: frozenset[str]) -> re.Pattern[str]:
    """Finds any form of *secrets*, the longest first. The attempts of a worker mostly know the same ones."""
    forms = {form for secret in secrets for form in forms_of(secret)}
    return re.compile("|".join(re.escape(form) for form in sorted(forms, key=lambda form: (-len(form), form))))


class Masker:
    """Knows secrets, and text without them. Safe to use from several threads.

    *secrets* are known for good; of those that are added later, the last MOST_SECRETS.
    """

    def __init__(self, secrets: Iterable[str] = (), heard: Callable[[str], None] | None = None) -> None:
        self._lasting: frozenset[str] = frozenset(part for secret in secrets for part in _parts_of(secret))
        self._added: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None
        self.heard = heard
        """Called with each secret that is new here."""

    def add(self, secret: Any) -> None:
        """Has *secret* replaced from now on; of one with several lines, each line by itself."""
        if not isinstance(secret, str):
            return
        for part in _parts_of(secret):
            if part not in self._lasting and part not in self._added:
                self._added = dict.fromkeys([*self._added, part][-MOST_SECRETS:])
                self._pattern = None
                if self.heard is not None:
                    self.heard(part)

    @property
    def secrets(self) -> set[str]:
        return {*self._lasting, *self._added}

    def clear(self) -> None:
        self._lasting, self._added, self._pattern = frozenset(), {}, None

    def masked(self, text: str) -> str:
        """*text* with every known secret replaced."""
        pattern = self._pattern
        if pattern is None:
            if not self._lasting and not self._added:
                return text
            pattern = self._pattern = _pattern_of(self._lasting.union(self._added))
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
