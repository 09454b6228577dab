"""What a driver in a pod tells of itself: lines among those that it prints, since nobody shares a disk with it.

The driver's side writes them (`driver.tell`). They are its own word, as a file would be: code of the task runs there.
"""

import base64
import json
import re
import zlib
from dataclasses import dataclass, field
from typing import Any

LARGEST = 8 * 2**20
"""Of what is told at once, in bytes: small input may unpack to much more."""
_LINE = re.compile(r"tidemill:([0-9a-f]{32}):(result|progress|figures):(\d{1,6})/(\d{1,6}):([\w+/=-]*)$")


@dataclass
class DriverLines:
    """Takes the lines of an attempt's driver one after the other."""

    attempt: str
    """Its uuid, as hex digits."""
    reports: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By what it is about (`result`, `progress`, `figures`), what was told last."""
    _parts: dict[str, list[str]] = field(default_factory=dict)

    def take(self, line: str) -> bool:
        """Return whether *line* is one of these, and keep what it tells."""
        found = _LINE.search(line)
        if found is None or found[1] != self.attempt:
            return False
        about, number, total = found[2], int(found[3]), int(found[4])
        parts = self._parts.setdefault(about, [])
        if number == 1:
            parts.clear()
        if number == len(parts) + 1 <= total:
            parts.append(found[5])
        if number == total == len(parts) and (content := _unpacked("".join(parts))) is not None:
            self.reports[about] = content
        return True


def _unpacked(text: str) -> dict[str, Any] | None:
    """Return the object that *text* holds; None where it is not one."""
    try:
        unzipped = zlib.decompressobj().decompress(base64.b64decode(text), LARGEST)
        content = json.loads(unzipped)
    except (ValueError, zlib.error, RecursionError):
        return None
    return content if isinstance(content, dict) else None
