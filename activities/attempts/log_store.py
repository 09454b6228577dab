"""Where logs go beside the worker's own disk, so that they can be read from anywhere and outlive the host."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import fsspec

UPLOAD_EVERY_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass
class _Followed:
    path: Path
    uploaded: int = -1
    not_before: float = 0.0


@dataclass(frozen=True)
class LogStore:
    """Copies of logs below a URL that fsspec knows. What cannot be uploaded now is tried again, and fails no task."""

    url: str
    root: Path
    """The folder whose layout the copies have."""
    _followed: dict[Path, _Followed] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)
    _uploading: tuple[threading.Lock, ...] = field(default_factory=lambda: tuple(threading.Lock() for _ in range(64)))
    """Which of them a log takes follows from its path: a slow upload holds up its own log, and hardly another."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def following(self, path: Path) -> Iterator[None]:
        """Uploads the log at *path* every few seconds as long as the block."""
        with self._lock:
            self._followed[path] = _Followed(path)
            if not self._threads:
                self._threads.append(threading.Thread(target=self._upload_for_ever, daemon=True, name="tidemill-logs"))
                self._threads[0].start()
        try:
            yield
        finally:
            with self._lock:
                self._followed.pop(path, None)

    def upload(self, path: Path) -> bool:
        """Uploads the log as it is now. False if that failed."""
        try:
            files, target = fsspec.core.url_to_fs(self.place_of(path))
            # One at a time of each log: an earlier state never takes the place of a later one.
            with self._uploading[hash(path) % len(self._uploading)]:
                files.makedirs(target.rpartition("/")[0], exist_ok=True)
                files.put_file(str(path), target)
        except Exception as error:  # whatever the store's client raises
            log.warning("the log %s cannot be uploaded to %s: %s", path.name, self.url, error)
            return False
        return True

    def read(self, name: str, offset: int = 0) -> bytes:
        """The log *name* (its path below the root) from byte *offset* on; nothing for one that is not there."""
        files, target = fsspec.core.url_to_fs(f"{self.url.rstrip('/')}/{name}")
        content: bytes
        try:
            if not offset:
                content = files.cat_file(target)
                return content
            try:
                content = files.cat_file(target, start=offset)
            except FileNotFoundError:
                raise
            except Exception:  # stores refuse a range that begins at the end, each in a way of its own
                files.invalidate_cache()
                if files.size(target) > offset:
                    raise
                return b""
        except FileNotFoundError:
            return b""
        return content

    def place_of(self, path: Path) -> str:
        """The URL of the copy of *path*."""
        return f"{self.url.rstrip('/')}/{path.relative_to(self.root).as_posix()}"

    def _upload_for_ever(self) -> None:
        while True:
            time.sleep(UPLOAD_EVERY_SECONDS)
            with self._lock:
                followed = [*self._followed.values()]
            for each in followed:
                self._upload_again(each)

    def _upload_again(self, each: _Followed) -> None:
        try:
            size = each.path.stat().st_size
        except OSError:
            return
        if size == each.uploaded or time.monotonic() < each.not_before:
            return
        start = time.monotonic()
        if self.upload(each.path):
            each.uploaded = size
        # Stores cannot append: a log that takes long to upload is uploaded less often.
        each.not_before = time.monotonic() + 10 * (time.monotonic() - start)
