"""Where the files of a bundle are on this host: a folder as it is, or a commit of a repository, laid out."""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Protocol

from dulwich.errors import NotGitRepository
from dulwich.object_store import iter_tree_contents
from dulwich.objects import S_ISGITLINK, Commit
from dulwich.objectspec import parse_commit
from dulwich.repo import Repo

from ...model.bundle.data import BundleSettings
from ...model.errors import InvalidInputError
from ..processes.users import RunAs, acting_as

KEPT_COMMITS = 5
MAX_FILES = 100_000
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
    """A repository on this host, at a branch, tag or commit. Nothing is checked out in it, and no `git` is needed."""

    def __init__(self, settings: BundleSettings, home: Path, run_as: RunAs | None = None) -> None:
        self._settings = settings
        self._home = home / "bundles" / settings.name
        self._user = run_as
        """Who reads it: what a repository of theirs leads to is no further than they can go themselves."""

    def newest(self) -> str | None:
        with self._repository() as repository:
            return self._commit(repository, self._settings.ref or "HEAD").id.decode()

    def root(self, revision: str | None) -> Path:
        assert revision is not None  # noqa: S101
        laid_out = self._home / revision
        if not laid_out.is_dir():
            self._home.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._home) as folder, self._repository() as repository:
                whole = Path(folder, "files")
                whole.mkdir()
                self._lay_out(repository, revision, whole)
                try:
                    whole.rename(laid_out)
                except OSError:  # somebody else was faster
                    if not laid_out.is_dir():
                        raise
            self._forget_old()
        return laid_out / self._settings.subdir

    def _lay_out(self, repository: Repo, revision: str, whole: Path) -> None:
        """Writes the files of the commit. Links that lead out of it are refused, submodules are left empty."""
        tree = self._commit(repository, revision).tree
        links: list[tuple[str, str]] = []
        with acting_as(self._user):
            entries = [*islice(iter_tree_contents(repository.object_store, tree), MAX_FILES + 1)]
        if len(entries) > MAX_FILES:
            raise self._problem(f"commit {revision} has more than {MAX_FILES:,} files")
        for entry in entries:
            name = os.fsdecode(entry.path)
            if any(part in ("", ".", "..") for part in name.split("/")):
                raise self._problem(f"commit {revision}: an entry is called {name}, which leads out of the repository")
            path, mode = whole / name, entry.mode
            path.parent.mkdir(parents=True, exist_ok=True)
            if S_ISGITLINK(mode):
                path.mkdir()
                continue
            with acting_as(self._user):
                content = repository[entry.sha].as_raw_string()
            if not stat.S_ISLNK(mode):
                path.write_bytes(content)
                path.chmod(0o755 if mode & 0o111 else 0o644)
                continue
            links.append((name, os.fsdecode(content)))
        for name, target in links:  # last, so that nothing is written through one
            try:
                (whole / name).symlink_to(target)
            except OSError as error:
                raise self._problem(f"commit {revision}: link {name} cannot be made: {error.strerror}") from None
        for name, target in links:  # when all are there: one may lead over another
            if not Path(os.path.realpath(whole / name)).is_relative_to(whole.resolve()):
                raise self._problem(f"commit {revision}: link {name} leads to {target}, out of the repository")

    def _forget_old(self) -> None:
        """Removes commits that were laid out long ago. One that is still parsed is laid out again."""
        commits = [path for path in self._home.iterdir() if COMMIT.match(path.name)]
        for old in sorted(commits, key=lambda path: path.stat().st_mtime)[:-KEPT_COMMITS]:
            shutil.rmtree(old, ignore_errors=True)

    def lasting(self, name: str) -> str:
        return str(Path(self._settings.path, self._settings.subdir, name))

    @contextmanager
    def _repository(self) -> Iterator[Repo]:
        try:
            with acting_as(self._user):
                repository = Repo.discover(self._settings.path)
        except (NotGitRepository, OSError) as error:
            raise self._problem(str(error) or "is no Git repository on this worker") from None
        with closing(repository):
            yield repository

    def _commit(self, repository: Repo, name: str) -> Commit:
        try:
            with acting_as(self._user):
                return parse_commit(repository, name)
        except (KeyError, ValueError, OSError) as error:
            raise self._problem(f"there is no such branch, tag or commit ({error})") from None

    def _problem(self, what: str) -> InvalidInputError:
        settings = self._settings
        return InvalidInputError(f"repository {settings.path}, ref {settings.ref or 'HEAD'}: {what}")


def source_for(settings: BundleSettings, home: Path, run_as: RunAs | None = None) -> BundleSource:
    """Where the files of a bundle are; a repository is read as *user* would."""
    return GitSource(settings, home, run_as) if settings.kind == "git" else FolderSource(settings)
