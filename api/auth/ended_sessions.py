"""Sessions that somebody has ended before their time: sessions are signed and not kept, so the ended ones are."""

import json
import os
import time
from hashlib import sha256
from pathlib import Path


class EndedSessions:
    """Digests of sessions in a file that servers share, each until its session would be over; None: in memory."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, float] = {}
        self._read: object = None

    def has(self, session: str) -> bool:
        """Whether *session* has been ended."""
        return sha256(session.encode()).hexdigest() in self._ended()

    def add(self, session: str, until: float) -> None:
        """Have *session* be ended; nobody needs to know it after *until* (seconds since 1970)."""
        now = time.time()
        known = {digest: over for digest, over in self._ended().items() if over > now}
        self._known = {**known, sha256(session.encode()).hexdigest(): until}
        if self._path is not None:
            temporary = self._path.with_name(f"{self._path.name}.{os.urandom(8).hex()}")
            opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(opened, "w") as file:
                json.dump(self._known, file)
            temporary.replace(self._path)

    def _ended(self) -> dict[str, float]:
        if self._path is None:
            return self._known
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return self._known
        version = (found.st_mtime_ns, found.st_size, found.st_ino)
        if self._read != version:
            self._read, self._known = version, json.loads(self._path.read_text())
        return self._known
