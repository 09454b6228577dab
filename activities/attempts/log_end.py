"""The newest lines of a log that outgrows its limit: they rotate beside it, until they are put behind its beginning."""

from pathlib import Path
from typing import BinaryIO


class LogEnd:
    """Keeps between half and all of *limit* bytes: the lines that were written last, in two files that take turns."""

    def __init__(self, path: Path, limit: int) -> None:
        self._newer, self._older = path.with_suffix(".log.1"), path.with_suffix(".log.2")
        self._half = limit // 2
        self._file: BinaryIO | None = None
        self.left_out = 0
        """How many bytes have been written and are not kept."""

    @property
    def is_begun(self) -> bool:
        return self._newer.exists() or self._older.exists()

    def write(self, line: bytes) -> None:
        if self._file is None:
            self._file = self._newer.open("ab")
        if self._file.tell() + len(line) > self._half:
            self._file.close()
            if self._older.exists():
                self.left_out += self._older.stat().st_size
            self._newer.replace(self._older)
            self._file = self._newer.open("ab")
        self._file.write(line)

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def take(self) -> bytes:
        """The lines that are kept, oldest first; the files are gone."""
        if self._file is not None:
            self._file.close()
            self._file = None
        kept = b""
        for path in (self._older, self._newer):
            if path.exists():
                kept += path.read_bytes()
                path.unlink()
        return kept
