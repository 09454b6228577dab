"""The code that a version of a DAG was made with: files kept by their content, laid out again where a task runs.

Content-addressed: a file that many versions share is kept once, and what is kept never changes.
"""

import json
import os
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import fsspec

SNAPSHOT = re.compile("[0-9a-f]{20}")
LARGEST = 64 * 1024 * 1024
"""Larger files, such as jars, are not kept: they are used where they are."""


def is_inside(name: str) -> bool:
    """Whether the path *name* stays below the folder that it is relative to."""
    path = Path(os.path.normpath(name))
    return not path.is_absolute() and path.parts[:1] != (os.pardir,)


class SnapshotDamagedError(Exception):
    """What is kept is not what was put there."""


@dataclass(frozen=True)
class Snapshots:
    """Kept files at a URL that fsspec knows, and those that this host has laid out below *here*."""

    url: str
    here: Path

    def keep(self, root: Path, names: Iterable[str]) -> str:
        """Keeps the files *names* below *root*; returns the id of the snapshot, which their content determines."""
        files: dict[str, str] = {}
        for name in sorted({name for name in names if is_inside(name)}):
            path = root / name
            if path.is_file() and path.stat().st_size <= LARGEST:
                content = path.read_bytes()
                files[name] = sha256(content).hexdigest()
                self._put(f"blobs/{files[name]}", content)
        manifest = json.dumps(files).encode()
        snapshot = sha256(manifest).hexdigest()[:20]
        self._put(f"manifests/{snapshot}.json", manifest)
        return snapshot

    def put_text(self, name: str, text: str) -> None:
        """Keeps *text* under *name*, which must be one that its content determines."""
        self._put(name, text.encode())

    def get_text(self, name: str) -> str:
        """Raises FileNotFoundError for what was never kept."""
        return self._get(name).decode()

    def missing(self, what: str) -> str:
        """Says what to do where *what* was kept by a worker and another cannot find it."""
        return (
            f"{what} is not at {self.url}. Have workers share TIDEMILL_HOME, "
            "or set TIDEMILL_XCOM_URL to a store that all of them reach"
        )

    def lay_out(self, snapshot: str) -> Path:
        """The folder with the files of *snapshot* on this host.

        Raises FileNotFoundError if it was never kept, SnapshotDamagedError if it is not what was kept.
        """
        if not SNAPSHOT.fullmatch(snapshot):
            raise FileNotFoundError(f"{snapshot!r} is no snapshot")
        folder = self.here / snapshot
        if folder.is_dir():
            return folder
        manifest = self._get(f"manifests/{snapshot}.json")
        if sha256(manifest).hexdigest()[:20] != snapshot:
            raise SnapshotDamagedError(f"version {snapshot} at {self.url}: its list of files is not what was kept")
        files = json.loads(manifest)
        self.here.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.here) as making:
            whole = Path(making, "files")
            whole.mkdir()
            for name, digest in files.items():
                content = self._get(f"blobs/{digest}")
                if not is_inside(name) or sha256(content).hexdigest() != digest:
                    raise SnapshotDamagedError(
                        f"version {snapshot} at {self.url} is damaged: {name} is not what it was"
                    )
                path = whole / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            try:
                whole.rename(folder)
            except OSError:  # another task was faster
                if not folder.is_dir():
                    raise
        return folder

    def names(self) -> list[str]:
        """The ids of all snapshots that are kept."""
        files, path = fsspec.core.url_to_fs(f"{self.url.rstrip('/')}/manifests")
        if not files.exists(path):
            return []
        return [name.rpartition("/")[2].removesuffix(".json") for name in files.ls(path, detail=False)]

    def blobs_of(self, snapshots: Iterable[str]) -> set[str]:
        """The digests of the files that *snapshots* are made of."""
        found: set[str] = set()
        for snapshot in snapshots:
            found.update(json.loads(self._get(f"manifests/{snapshot}.json")).values())
        return found

    def _put(self, name: str, content: bytes) -> None:
        files, path = fsspec.core.url_to_fs(f"{self.url.rstrip('/')}/{name}")
        if files.exists(path):
            return
        files.makedirs(path.rpartition("/")[0], exist_ok=True)
        temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
        files.pipe_file(temporary, content)
        files.mv(temporary, path)

    def _get(self, name: str) -> bytes:
        files, path = fsspec.core.url_to_fs(f"{self.url.rstrip('/')}/{name}")
        content: bytes = files.cat_file(path)
        return content
