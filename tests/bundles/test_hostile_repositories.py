"""A Git repository that somebody has written with care: nothing is laid out outside of the bundle's folder."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from dulwich.objects import Blob, Commit, Tree
from dulwich.repo import Repo
from tidemill.activities.bundles.sources import GitSource
from tidemill.model.bundle.data import BundleSettings
from tidemill.model.errors import InvalidInputError

LINK, FILE, FOLDER = 0o120000, 0o100644, stat.S_IFDIR


def repository(path: Path, entries: dict[bytes, tuple[int, object]]) -> str:
    """Makes a repository with one commit of these entries, checked by nobody; its commit."""
    repo = Repo.init_bare(str(path), mkdir=True)

    def add(content: dict[bytes, tuple[int, object]]) -> bytes:
        tree = Tree()
        for name, (mode, inner) in content.items():
            made = add(inner) if isinstance(inner, dict) else _blob(repo, inner)
            tree.add(name, mode, made)
        repo.object_store.add_object(tree)
        return bytes(tree.id)

    commit = Commit()
    commit.tree = add(entries)
    commit.author = commit.committer = b"a <a@example.org>"
    commit.commit_time = commit.author_time = 0
    commit.commit_timezone = commit.author_timezone = 0
    commit.message = b"hostile"
    repo.object_store.add_object(commit)
    repo.refs[b"refs/heads/main"] = commit.id
    repo.refs.set_symbolic_ref(b"HEAD", b"refs/heads/main")
    return commit.id.decode()


def _blob(repo: Repo, content: object) -> bytes:
    assert isinstance(content, bytes)
    blob = Blob.from_string(content)
    repo.object_store.add_object(blob)
    return bytes(blob.id)


HOSTILE = {
    "an entry that is called ..": {b"..": (FOLDER, {b"evil.py": (FILE, b"x")})},
    "an entry with a path": {b"../evil.py": (FILE, b"x")},
    "an absolute name": {b"/tmp/evil.py": (FILE, b"x")},
    "a link that leads out": {b"out": (LINK, b"../../..")},
    "a link to elsewhere": {b"out": (LINK, b"/etc/passwd")},
    "a link over a link": {
        b"p": (FOLDER, {b"q": (FOLDER, {b"r": (LINK, b"../..")})}),
        b"e": (LINK, b"p/q/r/../../x"),
    },
    "a file below a link": {b"p": (LINK, b".."), b"p/evil.py": (FILE, b"x")},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_leads_out_of_a_repository_is_refused(tmp_path: Path, kind: str) -> None:
    commit = repository(tmp_path / "hostile.git", HOSTILE[kind])
    settings = BundleSettings(name="b", kind="git", path=str(tmp_path / "hostile.git"), ref="main")
    home = tmp_path / "home" / "inner" / "commits"
    with pytest.raises(InvalidInputError, match=r"out of the repository|cannot be made"):
        GitSource(settings, home).root(commit)
    assert not [path for path in tmp_path.rglob("evil.py") if not path.is_relative_to(home)]
    assert not [*home.rglob(commit)]


def test_links_inside_are_laid_out(tmp_path: Path) -> None:
    entries = {b"a": (FOLDER, {b"f.py": (FILE, b"x = 1")}), b"l": (LINK, b"a/f.py"), b"loop": (LINK, b"loop")}
    commit = repository(tmp_path / "good.git", entries)
    settings = BundleSettings(name="b", kind="git", path=str(tmp_path / "good.git"), ref="main")
    folder = GitSource(settings, tmp_path / "home").root(commit)
    assert (folder / "l").read_text() == "x = 1"
