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
FEW_FORMS = 100
MAX_SECRETS = 500
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


class _Forms:
    """All forms of some secrets, and where a text has one of them. More of them cost no more time to look for.

    Few are found by a pattern. A pattern of many tries each of them at each letter: many are known by how they begin.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._by_start: dict[str, list[str]] = {}
        self._pattern: re.Pattern[str] | None = None
        self._number = 0
        for secret in secrets:
            self.add(secret)

    def with_more(self, secrets: Iterable[str]) -> "_Forms":
        """These forms, and those of *secrets*; what is here stays as it is."""
        more = _Forms(())
        more._by_start, more._number = {**self._by_start}, self._number
        for secret in secrets:
            more.add(secret)
        return more

    def add(self, secret: str) -> None:
        """Have the forms of *secret* found, too."""
        self._pattern = None
        for form in {*forms_of(secret)}:
            alike = self._by_start.get(form[:SHORTEST_MASKED], [])
            if form not in alike:  # the list may be another's, too
                self._by_start[form[:SHORTEST_MASKED]] = sorted([*alike, form], key=len, reverse=True)
                self._number += 1

    def masked(self, text: str) -> str:
        """*text* with each of them replaced, the longest where several begin at the same letter."""
        if not self._number:
            return text
        return self._by_starts(text) if self._number > FEW_FORMS else self._by_pattern(text)

    def _by_pattern(self, text: str) -> str:
        pattern = self._pattern
        if pattern is None:
            every = [form for alike in [*self._by_start.values()] for form in alike]
            pattern = self._pattern = re.compile("|".join(map(re.escape, sorted(every, key=len, reverse=True))))
        return pattern.sub(MASK, text)

    def _by_starts(self, text: str) -> str:
        starts, parts, done, at = self._by_start, [], 0, 0
        last = len(text) - SHORTEST_MASKED
        while at <= last:
            for form in starts.get(text[at : at + SHORTEST_MASKED], ()):
                if text.startswith(form, at):
                    parts += [text[done:at], MASK]
                    done = at = at + len(form)
                    break
            else:
                at += 1
        return "".join([*parts, text[done:]]) if parts else text


@lru_cache(16)
def _lasting_forms(secrets: frozenset[str]) -> _Forms:
    """The attempts of a worker mostly know the same ones."""
    return _Forms(secrets)


class Masker:
    """Knows secrets, and text without them. Safe to use from several threads.

    *secrets* are known for good; of those that are added later, the last MAX_SECRETS at most.
    """

    def __init__(self, secrets: Iterable[str] = (), heard: Callable[[str], None] | None = None) -> None:
        self._lasting: frozenset[str] = frozenset(part for secret in secrets for part in _parts_of(secret))
        self._added: dict[str, None] = {}
        self._forms: _Forms | None = None
        self.heard = heard
        """Called with each secret that is new here."""

    def add(self, secret: Any) -> None:
        """Has *secret* replaced from now on; of one with several lines, each line by itself."""
        if not isinstance(secret, str):
            return
        for part in _parts_of(secret):
            if part in self._lasting or part in self._added:
                continue
            self._added = {**self._added, part: None}
            if len(self._added) > MAX_SECRETS:  # half of them at once, and not one with each that follows
                self._added, self._forms = dict.fromkeys([*self._added][-MAX_SECRETS // 2 :]), None
            if self._forms is None:
                self._forms = _lasting_forms(self._lasting).with_more(self._added)
            else:
                self._forms.add(part)
            if self.heard is not None:
                self.heard(part)

    @property
    def secrets(self) -> set[str]:
        return {*self._lasting, *self._added}

    def clear(self) -> None:
        self._lasting, self._added, self._forms = frozenset(), {}, None

    def masked(self, text: str) -> str:
        """*text* with every known secret replaced."""
        forms = self._forms
        return (forms if forms is not None else _lasting_forms(self._lasting)).masked(text)

    def masked_all(self, value: Any) -> Any:
        """Plain data with every known secret in its texts replaced."""
        if isinstance(value, str):
            return self.masked(value)
        if isinstance(value, dict):
            return {key: self.masked_all(part) for key, part in value.items()}
        return [self.masked_all(part) for part in value] if isinstance(value, list | tuple) else value


PROCESS_MASKER = Masker()
"""What was looked up in this process."""


class MaskingStream:
    """A text stream that prints no secret. For processes whose output passes nobody who masks it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(PROCESS_MASKER.masked(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
