"""Whose a child's processes and files are, and how a worker deals with files that somebody else may have made.

A worker that may become other users must not be led by their links: it opens what is there, looks at what it has
opened, and only then reads it or gives it away.
"""

import ctypes
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .unicode import plain_json

LARGEST_FILE = 128 * 2**20
"""No file of a child is read that has more bytes."""
SET_GROUPS = {"x86_64": 116, "aarch64": 159}
"""The number of the system call setgroups, where tasks may run as another user."""


@dataclass(frozen=True)
class RunAs:
    """The user that children run as, where the worker may give up its own."""

    uid: int
    gid: int


@contextmanager
def acting_as(run_as: RunAs | None) -> Iterator[None]:
    """Has this thread reach files as *user* does, as long as the block; None: as it is.

    A name that somebody's code has chosen leads no further then than its owner could go, whatever is linked there.
    """
    if run_as is None or os.geteuid() != 0:
        yield
        return
    libc, groups = ctypes.CDLL(None), os.getgroups()
    _groups_of_thread([])
    libc.setfsgid(run_as.gid)
    libc.setfsuid(run_as.uid)
    try:
        yield
    finally:
        libc.setfsuid(os.geteuid())
        libc.setfsgid(os.getegid())
        _groups_of_thread(groups)


def _groups_of_thread(groups: list[int]) -> None:
    """Sets the groups of this thread alone, which libc would do for all: it has to be the system call itself."""
    given = (ctypes.c_uint32 * len(groups))(*groups)
    if ctypes.CDLL(None, use_errno=True).syscall(SET_GROUPS[os.uname().machine], len(groups), given):
        raise OSError(ctypes.get_errno(), "the groups of a thread cannot be set")


def owner_of(path: Path) -> RunAs | None:
    """Whose *path* is; None: this process's own. Raises OSError where there is nothing."""
    found = path.lstat()
    return None if found.st_uid == os.geteuid() else RunAs(found.st_uid, found.st_gid)


def make_folder(path: Path, run_as: RunAs | None = None) -> None:
    """Makes the folder *path* if it is not there; it is *user*'s then, else this process's own.

    Raises NotADirectoryError where there is something else, such as a link.
    """
    mode = 0o755 if run_as is None else 0o700
    try:
        path.mkdir(mode=mode)
        is_own = run_as is None
    except FileExistsError:
        is_own = run_as is None and os.geteuid() != 0 and path.is_dir()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(exist_ok=True, mode=mode)
        is_own = False
    if is_own:
        return
    uid, gid = (run_as.uid, run_as.gid) if run_as is not None else (os.geteuid(), os.getegid())
    opened = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(opened).st_uid != uid:
            os.chown(f"/proc/self/fd/{opened}", uid, gid)
    finally:
        os.close(opened)


def read_left(path: Path, run_as: RunAs | None) -> dict[str, Any] | None:
    """The JSON object in the file *path* that a child of *user* has left.

    None if there is none: no file, none of *user*'s, a link, one that is not whole, or too large.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(opened, "rb") as file:
        found = os.fstat(file.fileno())
        foreign = run_as is not None and found.st_uid != run_as.uid
        if foreign or not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_FILE:
            return None
        try:
            content = plain_json(file.read(LARGEST_FILE))
        except (ValueError, RecursionError):
            return None
    return content if isinstance(content, dict) else None
