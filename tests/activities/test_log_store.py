"""Logs in a store that refuses ranges: of an empty object, and of what begins at its end."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from tidemill.activities.attempts.log_store import LogStore


class Strict(MemoryFileSystem):  # type: ignore[misc]
    """As S3 answers: 416 where a range is asked for that the object has not, whatever it has else."""

    protocol = "strict"
    store: dict[str, Any] = {}
    pseudo_dirs = [""]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **more: Any) -> bytes:
        if start is not None and start >= self.size(path):
            raise OSError(errno.EINVAL, "The requested range is not satisfiable")
        found: bytes = super().cat_file(path, start, end, **more)
        return found


@pytest.fixture
def store(tmp_path: Path) -> LogStore:
    fsspec.register_implementation("strict", Strict, clobber=True)
    return LogStore("strict://logs", tmp_path)


@pytest.mark.parametrize(("content", "offset", "read"), [
    (b"", 0, b""), (b"", 5, b""), (b"one\ntwo\n", 0, b"one\ntwo\n"), (b"one\ntwo\n", 4, b"two\n"),
    (b"one\ntwo\n", 8, b""), (b"one\ntwo\n", 99, b""), (None, 0, b""), (None, 3, b""),
])  # fmt: skip
def test_what_has_come_since_is_read(store: LogStore, content: bytes | None, offset: int, read: bytes) -> None:
    Strict.store.clear()
    if content is not None:
        files, path = fsspec.core.url_to_fs("strict://logs/a.log")
        files.pipe_file(path, content)
    assert store.read("a.log", offset) == read
