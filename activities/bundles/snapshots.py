"""The code that a version of a DAG was made with: files kept by their content, laid out again where a task runs.

Content-addressed: a file that many versions share is kept once, and what is kept never changes.
"""

import json
import os
import re
import tempfile
import threading
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import fsspec

from ..processes.users import RunAs, acting_as

SNAPSHOT = re.compile("[0-9a-f]{20}")
LINKS = ".tidemill_links.json"
"""The file of a snapshot that says where each of its links leads to, by its name. Release 0.3 makes none of them."""
LARGEST = 64 * 1024 * 1024
"""Larger files, such as jars, are not kept: they are used where they are."""


def is_inside(name: str) -> bool:
    """Whether the path *name* stays below the folder that it is relative to."""
    path = Path(os.path.normpath(name))
    return not path.is_absolute() and path.parts[:1] != (os.pardir,)


READ_ONLY = 0o555
CHANGED = ".changed"
"""How the name of a folder ends that somebody has changed, and that nobody uses any more."""
_laying_out = threading.Lock()
"""One at a time: tasks of a version that begin together would put each other's copy away."""
_checked: dict[Path, frozenset[tuple[str, int]]] = {}
"""By folder of a snapshot, the files and times by which it was seen to be as it was kept. Of this process."""


def _signature(folder: Path) -> frozenset[tuple[str, int]] | None:
    """Which files there are, and when anything of them was changed last: a time that nobody can set."""
    try:
        return frozenset((str(path), path.lstat().st_ctime_ns) for path in (folder, *folder.rglob("*")))
    except OSError:
        return None


def _is_as_kept(folder: Path, files: Mapping[str, str]) -> bool:
    """Whether the files in *folder* are those of the manifest *files*, and nothing beside them."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    there = {path.relative_to(folder).as_posix(): path for path in found}
    linked = {name: str(path.readlink()) for name, path in there.items() if path.is_symlink()}
    there = {name: path for name, path in there.items() if name not in linked}
    if os.geteuid() == 0:  # whose tasks may write everywhere, unless they run as others: they compile what they import
        there = {name: path for name, path in there.items() if path.parent.name != "__pycache__"}
    if there.keys() != files.keys():
        return False
    try:
        same = all(sha256(path.read_bytes()).hexdigest() == files[name] for name, path in there.items())
        return same and linked == _links_in(folder)
    except FileNotFoundError:  # another worker puts it in place at this moment
        return False


def _links_in(folder: Path) -> dict[str, str]:
    """Where the links lead to that a snapshot in *folder* has, by their names."""
    try:
        found: dict[str, str] = json.loads((folder / LINKS).read_text())
    except FileNotFoundError:
        return {}
    return found


def _content(path: Path) -> bytes | None:
    """What is in a file that is to be kept; None if there is none, it is too large, or not to be read."""
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size <= LARGEST else None
    except PermissionError:
        return None


class SnapshotDamagedError(Exception):
    """What is kept is not what was put there."""


@dataclass(frozen=True)
class Snapshots:
    """Kept files at a URL that fsspec knows, and those that this host has laid out below *local_folder*."""

    url: str
    local_folder: Path

    def keep(self, root: Path, names: Iterable[str], run_as: RunAs | None = None, links: Collection[str] = ()) -> str:
        """Keeps the files *names* below *root* that *user* can read, who the tasks run as; of *links* where they are.

        Returns the id of the snapshot, which their content determines.
        """
        files: dict[str, str] = {}
        for name in sorted({name for name in names if is_inside(name) and name not in links and name != LINKS}):
            with acting_as(run_as):
                content = _content(root / name)
            if content is not None:
                files[name] = self._put_blob(content)
        if links:
            leads_to = {name: str(root / name) for name in sorted(links) if is_inside(name)}
            files[LINKS] = self._put_blob(json.dumps(leads_to).encode())
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
        folder = self.local_folder / snapshot
        known = _checked.get(folder)
        if known is not None and known == _signature(folder):
            return folder
        manifest = self._get(f"manifests/{snapshot}.json")
        if sha256(manifest).hexdigest()[:20] != snapshot:
            raise SnapshotDamagedError(f"version {snapshot} at {self.url}: its list of files is not what was kept")
        files = json.loads(manifest)
        with _laying_out:
            found = _signature(folder)
            if not _is_as_kept(folder, files):
                self._lay_out(snapshot, folder, files)
                found = _signature(folder)
        if found is not None:
            _checked[folder] = found
        return folder

    def _lay_out(self, snapshot: str, folder: Path, files: dict[str, str]) -> None:
        """Makes *folder*, for nobody to write to; what is there has been changed by somebody, and goes."""
        self.local_folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.local_folder) as making:
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
                path.chmod(0o444)
            for name, target in _links_in(whole).items():
                if not is_inside(name):
                    raise SnapshotDamagedError(f"version {snapshot} at {self.url} is damaged: it has a link {name}")
                (whole / name).parent.mkdir(parents=True, exist_ok=True)
                (whole / name).symlink_to(target)
            for path in whole.rglob("*"):
                if path.is_dir() and not path.is_symlink():
                    path.chmod(READ_ONLY)
            if _is_as_kept(folder, files):  # another worker was faster
                return
            with suppress(FileNotFoundError):  # tasks may be at work in it: they find the same names in the new one
                folder.rename(folder.with_name(f"{snapshot}.{os.urandom(4).hex()}{CHANGED}"))
            try:
                whole.rename(folder)
                folder.chmod(READ_ONLY)
            except OSError:  # another task was faster
                if not folder.is_dir():
                    raise

    def names(self) -> list[str]:
        """The ids of all snapshots that are kept."""
        return [name.removesuffix(".json") for name in self._names_in("manifests")]

    def has(self, snapshot: str) -> bool:
        """Whether *snapshot* is kept, as far as its list of files says."""
        files, path = fsspec.core.url_to_fs(f"{self.url.rstrip('/')}/manifests/{snapshot}.json")
        return bool(files.exists(path))

    def dag_ids(self) -> set[str]:
        """The DAGs of which a version is kept; none where the snapshots that they are made of are gone."""
        files, manifests = fsspec.core.url_to_fs(f"{self.url.rstrip('/')}/manifests")
        return set(self._names_in("specs")) if files.exists(manifests) else set()

    def _names_in(self, folder: str) -> list[str]:
        files, path = fsspec.core.url_to_fs(f"{self.url.rstrip('/')}/{folder}")
        if not files.exists(path):
            return []
        return [name.rstrip("/").rpartition("/")[2] for name in files.ls(path, detail=False)]

    def blobs_of(self, snapshots: Iterable[str]) -> set[str]:
        """The digests of the files that *snapshots* are made of."""
        found: set[str] = set()
        for snapshot in snapshots:
            found.update(json.loads(self._get(f"manifests/{snapshot}.json")).values())
        return found

    def _put_blob(self, content: bytes) -> str:
        """Keeps *content*, and returns its digest."""
        digest = sha256(content).hexdigest()
        self._put(f"blobs/{digest}", content)
        return digest

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
