"""Sessions that somebody has ended before their time: sessions are signed and not kept, so the ended ones are."""

import logging
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

log = logging.getLogger(__name__)


class EndedSessions:
    """An empty file for each, called by its digest, in a folder that servers share; None: in this process alone.

    *lasts*: the longest that a session may last, in seconds. Afterwards nobody needs to know that it was ended.
    """

    def __init__(self, folder: Path | None, lasts: float = 12 * 3600) -> None:
        self._folder, self._lasts = folder, lasts
        self._local: dict[str, float] = {}
        """Those that were ended here, and when, in seconds since 1970."""

    def has(self, session: str) -> bool:
        """Whether *session* has been ended."""
        digest = sha256(session.encode()).hexdigest()
        return digest in self._local or (self._folder is not None and (self._folder / digest).exists())

    def add(self, session: str) -> None:
        """Have *session* be ended. Where that cannot be kept, it is so at this server alone, whose log says so."""
        now, digest = time.time(), sha256(session.encode()).hexdigest()
        self._local = {known: at for known, at in self._local.items() if at > now - self._lasts} | {digest: now}
        if self._folder is None:
            return
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            (self._folder / digest).touch(mode=0o600)
        except OSError as error:
            log.error("that a session has ended cannot be kept in %s: %s", self._folder, error.strerror)
        self._tidy(now - self._lasts)

    def _tidy(self, before: float) -> None:
        with suppress(OSError):
            for known in [*self._folder.iterdir()] if self._folder is not None else ():
                with suppress(OSError):
                    if known.stat().st_mtime < before:
                        known.unlink()
