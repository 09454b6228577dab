"""A file that is written as far as that can be: a task is worth more than its lines."""

from contextlib import suppress
from io import FileIO
from pathlib import Path


class LossyFile:
    """Appends to the file *path*, made with its folder. What cannot be written is counted, and never raises."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: FileIO | None = None
        self._waiting = bytearray()
        self.lost = 0
        """How many bytes could not be written since that was last said."""
        self.problem = ""
        """Why."""
        self.size = self._opened_size()

    def _opened_size(self) -> int:
        try:
            return self._open().tell()
        except OSError as error:
            self.problem = error.strerror or str(error)
            return 0

    def _open(self) -> FileIO:
        if self._file is None:
            try:
                self._file = FileIO(self._path, "ab")
            except FileNotFoundError:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = FileIO(self._path, "ab")
            self._file.seek(0, 2)
        return self._file

    def write(self, data: bytes) -> None:
        """Take *data*, to be written with the next `flush`."""
        self._waiting += data

    def flush(self) -> bool:
        """Write what waits. Whether all of it was written."""
        data, self._waiting = bytes(self._waiting), bytearray()
        try:
            file = self._open() if data else None
            while data and file is not None:
                data = data[file.write(data) :]
        except OSError as error:
            self.problem = error.strerror or str(error)
            self._forget_file()  # it may be another one by the next time, as after a mount has come back
        self.lost += len(data)
        return not data

    def _forget_file(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.flush()
        self._forget_file()
