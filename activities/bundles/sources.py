"""Where the files of a bundle are on this host: a folder as it is, or a commit of a repository, laid out."""

import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Protocol

from ...model.bundles import BundleSettings
from ...model.errors import InvalidInputError

GIT_WITHIN = 120
KEPT_COMMITS = 5
COMMIT = re.compile("[0-9a-f]{40,64}$")


class BundleSource(Protocol):
    """A place that DAG files come from. Another kind is a class with these, and a `kind` of BundleSettings."""

    def newest(self) -> str | None:
        """The revision that is current; None for a source without revisions. Raises InvalidInputError."""

    def root(self, revision: str | None) -> Path:
        """The folder with the files of *revision*. It is made if this host does not have it yet."""

    def lasting(self, name: str) -> str:
        """The path of the file *name* that stays the same from one revision to the next."""


class FolderSource:
    """A folder that every worker has at the same path."""

    def __init__(self, settings: BundleSettings) -> None:
        self._path = Path(settings.path)

    def newest(self) -> str | None:
        return None

    def root(self, revision: str | None) -> Path:  # noqa: ARG002 - there is only what is there now
        return self._path

    def lasting(self, name: str) -> str:
        return str(self._path / name)


class GitSource:
    """A repository on this host, at a branch, tag or commit. Nothing is checked out in it."""

    def __init__(self, settings: BundleSettings, home: Path) -> None:
        self._settings = settings
        self._home = home / "bundles" / settings.name

    def newest(self) -> str | None:
        return self._git("rev-parse", "--verify", f"{self._settings.ref or 'HEAD'}^{{commit}}").decode().strip()

    def root(self, revision: str | None) -> Path:
        assert revision is not None  # noqa: S101
        laid_out = self._home / revision
        if not laid_out.is_dir():
            self._home.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._home) as folder:
                whole, packed = Path(folder, "files"), Path(folder, "packed.tar")
                self._git("archive", "--format=tar", f"--output={packed}", revision)
                try:
                    with tarfile.open(packed) as archive:
                        archive.extractall(whole, filter="data")
                except tarfile.TarError as error:
                    raise InvalidInputError(f"commit {revision} of {self._settings.path}: {error}") from None
                try:
                    whole.rename(laid_out)
                except OSError:  # somebody else was faster
                    if not laid_out.is_dir():
                        raise
            self._forget_old()
        return laid_out / self._settings.subdir

    def _forget_old(self) -> None:
        """Removes commits that were laid out long ago. One that is still parsed is laid out again."""
        commits = [path for path in self._home.iterdir() if COMMIT.match(path.name)]
        for old in sorted(commits, key=lambda path: path.stat().st_mtime)[:-KEPT_COMMITS]:
            shutil.rmtree(old, ignore_errors=True)

    def lasting(self, name: str) -> str:
        return str(Path(self._settings.path, self._settings.subdir, name))

    def _git(self, *arguments: str) -> bytes:
        argv = ["git", "-C", self._settings.path, *arguments]
        try:
            done = subprocess.run(argv, capture_output=True, timeout=GIT_WITHIN, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InvalidInputError(f"git cannot be run on this worker: {error}") from None
        if done.returncode:
            told = done.stderr.decode(errors="replace").strip()
            raise InvalidInputError(f"repository {self._settings.path}, ref {self._settings.ref or 'HEAD'}: {told}")
        return done.stdout


def source_for(settings: BundleSettings, home: Path) -> BundleSource:
    return GitSource(settings, home) if settings.kind == "git" else FolderSource(settings)
