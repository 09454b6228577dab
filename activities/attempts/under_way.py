"""The starts of tasks that a worker has under way, noted in its home, for when it dies.

A worker holds a lock as long as it lives, which the kernel lets go whatever ends the process. So notes of this host
whose lock is free are of a worker that is dead for sure, and not of one that only cannot reach the service: what it had
under way may begin again at once. Of other hosts nothing is known, and `heartbeat_timeout` decides.
"""

import fcntl
import json
import logging
import os
import shutil
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from ..processes.users import RunAs
from .folder import HOST, AttemptFolder

LOCK = "lock"
log = logging.getLogger(__name__)
_of_this_process: set[Path] = set()
"""A process does not see its own locks, and lets them go where it opens and closes such a file."""


@dataclass(frozen=True)
class LostStart:
    """What a dead worker had under way."""

    token: bytes
    """The activity's task token, which is good for this start alone."""
    folder: AttemptFolder


class UnderWay:
    """The notes of one worker, and those of dead ones on its host. Safe to use from many threads."""

    def __init__(self, home: Path) -> None:
        self._all = home / "under_way"
        self._mine = self._all / f"{HOST}-{uuid4().hex}"
        self._lock: int | None = None
        self._workers = 0

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keeps notes while a worker runs in the block; several may share them. None where the home is full."""
        self._workers += 1
        if self._workers == 1:
            try:
                self._open()
            except OSError as error:
                log.warning("nothing can be noted of what is under way: %s. A death is seen by Temporal only", error)
        try:
            yield
        finally:
            self._workers -= 1
            if self._workers == 0:
                self._close()

    def _open(self) -> None:
        making = self._mine.with_name(f".{self._mine.name}")  # seen by others with its lock only
        making.mkdir(parents=True, mode=0o700)
        self._lock = os.open(making / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _of_this_process.add(self._mine)
        making.rename(self._mine)

    def _close(self) -> None:
        """Removes the notes: who can do so has handed over what it had."""
        shutil.rmtree(self._mine, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        _of_this_process.discard(self._mine)

    @contextmanager
    def noted(self, token: bytes, folder: AttemptFolder) -> Iterator[None]:
        """Keeps a note of a start as long as the block; none where it cannot be written, as on a full disk."""
        note = self._mine / f"{sha256(token).hexdigest()[:32]}.json"
        user = [folder.user.uid, folder.user.gid] if folder.user is not None else None
        content = {"token": b64encode(token).decode(), "folder": str(folder.path), "user": user}
        if self._lock is not None:
            with suppress(OSError):
                note.write_text(json.dumps(content))
        try:
            yield
        finally:
            with suppress(OSError):
                note.unlink()

    def lost(self) -> "LostStarts":
        """What dead workers of this host had under way; nobody else is told of it before the answer is closed."""
        found = LostStarts([], [], [])
        for folder in sorted(self._all.glob("*-*")):
            of_this_host = folder.name.rpartition("-")[0] == HOST  # of a host whose name begins alike, nothing is known
            if of_this_host and folder not in _of_this_process and (lock := _taken(folder)) is not None:
                found.locks.append(lock)
                found.folders.append(folder)
                found.starts.extend(start for note in folder.glob("*.json") if (start := _read(note)) is not None)
        return found


@dataclass(frozen=True)
class LostStarts:
    """What was found of dead workers, kept from others by their locks until it is closed."""

    starts: list[LostStart]
    folders: list[Path]
    locks: list[int]

    def close(self, *, forget: bool) -> None:
        """Lets others look, unless all was told: then the notes are removed."""
        if forget:
            for folder in self.folders:
                shutil.rmtree(folder, ignore_errors=True)
        for lock in self.locks:
            os.close(lock)


def _taken(folder: Path) -> int | None:
    """The lock of *folder*, taken; None where its worker, or somebody who looks after what it has left, has it."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # it is being made, or removed
        return None
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _read(note: Path) -> LostStart | None:
    """None for a note that was not written to its end: its work had not begun."""
    try:
        content = json.loads(note.read_text())
        user = RunAs(*content["user"]) if content["user"] is not None else None
        path = Path(content["folder"])
        return LostStart(b64decode(content["token"]), AttemptFolder(path, path, user))
    except (OSError, ValueError, KeyError, TypeError):
        return None
