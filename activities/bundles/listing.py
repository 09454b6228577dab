"""Lists the DAG files of a folder, with a digest of each and of the local code that it imports. Imports none of it.

Run by its path as a program of its own, for every listing, and so made of the standard library and
pathspec only. What it found out about a file is kept in a cache until the file changes.
"""

import ast
import errno
import json
import os
import re
import stat
import sys
import threading
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

IGNORE_FILE = ".airflowignore"
SAVE_EVERY = 10.0
LARGEST_SOURCE = 10 * 1024 * 1024
LARGEST_PARSED = 1024 * 1024
"""What a file imports that is larger, such as one that a program has written, is not looked up."""
SAMPLE = 8 * 1024 * 1024
LARGEST_HASHED = 256 * 1024 * 1024
LARGEST_IGNORE_FILE = 1024 * 1024
MAX_MEMORY = 4 * 2**30
TRIES = 20
COMPANIONS = "./"
"""Among the other files of a DAG file: all of the folder that its tasks may ask for when they run."""
MAX_COMPANIONS, MAX_BYTES = 1000, 16 * 2**20
"""So many files, and bytes of them, are kept with a version beside what it imports."""
LINKED_ABOVE = 8 * 2**20
"""Larger files are not kept: a version has a link to them."""
CODE = (
    ".py", ".sql", ".hql", ".ddl", ".sh", ".bash", ".r", ".scala", ".j2", ".jinja", ".jinja2", ".tmpl", ".html",
    ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".zip",
)  # fmt: skip
"""How the names of files end that people write. Of a live folder all others may be what tasks write: a version has
links to them, and a change of theirs makes none."""
KEYS = (".keytab", ".key", ".pem", ".p12", ".pfx", ".jks")
"""How the names of files end that are not kept, so that no store has them: a version has a link to them, too."""
_parsing = threading.Lock()
NAMED = 5
"""So many of the files that are passed over are named."""


class Tree:
    """The files below a folder as they are now. Symbolic links are followed; loops are reported and passed over."""

    def __init__(
        self,
        root: Path,
        cache: dict[str, Any] | None = None,
        *,
        syntax: str = "glob",
        ignores: bool = True,
        home: str | None = None,
        is_live: bool = False,
    ) -> None:
        """*ignores*: whether ignore files count; *home*: the folder of workers, which is passed over.

        *is_live*: whether tasks may write there.
        """
        self.root = root
        self._ignores, self._home, self._is_live = ignores, home, is_live
        self._together: dict[tuple[str, bool], list[str] | None] = {}
        self._none: list[str] = []
        self._watched: dict[int, set[str]] = {}
        """By the identity of a list in `_together`, which lives as long: what is `watched` of it, for all DAG files."""
        self.warnings: list[str] = []
        self.unreadable: list[str] = []
        """Folders and archives whose files are not known now."""
        self.facts: dict[str, Any] = {}
        self._cache = cache or {}
        self._files: dict[str, bool] = {}
        self._syntax = syntax

    def dag_files(self) -> list[str]:
        """Python files and those at the top of zip files, from the root, in order; without what is ignored."""
        found = []
        for path in sorted(self._walk(self.root, (), {os.path.realpath(self.root)})):
            if path.suffix == ".py":
                found.append(self._relative(path))
            elif path.suffix == ".zip":
                try:
                    found += [f"{self._relative(path)}/{name}" for name in _modules_of(path)]
                except (OSError, zipfile.BadZipFile) as error:
                    self.warnings.append(f"{self._relative(path)} cannot be read: {error}")
                    self.unreadable.append(self._relative(path))
        return found

    def digest(self, name: str, extras: list[str] | tuple[str, ...] = ()) -> str:
        """Of the file *name*, of the local modules that it imports, and of the other files *extras*."""
        names = {*self.closure(name), *extras}
        if COMPANIONS in names:
            names |= self.watched(name)
        parts = [(part, self.fact(part)[0]) for part in sorted(names)]
        return sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def closure(self, name: str) -> set[str]:
        """*name* and the files of the folder that it imports, and that those import; from the text alone."""
        if ".zip/" in name:
            return {name[: name.index(".zip/") + 4]}
        found, open_ends = {name}, [name]
        while open_ends:
            for imported in self.fact(open_ends.pop())[1]:
                if imported not in found and self._is_file(imported):
                    found.add(imported)
                    open_ends.append(imported)
        return found

    def companions(self, name: str) -> list[str]:
        """The files of the folder that tasks of the file *name* may ask for when they run: all of them.

        Where they are too many, without what ignore files name; else those of the file's own folder, if they are few.
        """
        own = Path(name[: name.index(".zip/")] if ".zip/" in name else name).parent.as_posix()
        for place, ignores in ((".", False), (".", True), (own, True)):
            if (found := self._few_below(place, ignores=ignores)) is not None:
                return found
        return self._none

    def watched(self, name: str) -> set[str]:
        """Those of the `companions` whose change is one of the file *name*: a change of another DAG file is not."""
        found = self.companions(name)
        if id(found) not in self._watched:
            kept = {part for part in found if not self._has_own_dags(part) and not self.is_linked(part)}
            self._watched[id(found)] = kept
        return self._watched[id(found)]

    def is_linked(self, name: str) -> bool:
        """Whether a version has a link to the file *name*, and not its content."""
        if name.lower().endswith(KEYS) or (self._is_live and not name.lower().endswith(CODE)):
            return True
        try:
            return (self.root / name).stat().st_size > LINKED_ABOVE
        except OSError:
            return False

    def _few_below(self, place: str, *, ignores: bool) -> list[str] | None:
        """The files below the folder *place*; None if they are too many, or too large."""
        if (place, ignores) not in self._together:
            self._together[place, ignores] = self._looked_below(place, ignores=ignores)
        return self._together[place, ignores]

    def _looked_below(self, place: str, *, ignores: bool) -> list[str] | None:
        quiet = Tree(self.root, syntax=self._syntax, ignores=ignores, home=self._home)
        folder = self.root / place
        found, size = [], 0
        for path in quiet._walk(folder, (), {os.path.realpath(folder)}):
            name = self._relative(path)
            try:
                size += 0 if self.is_linked(name) else path.stat().st_size
            except OSError:
                continue
            found.append(name)
            if len(found) > MAX_COMPANIONS or size > MAX_BYTES:
                return None
        return found

    def _has_own_dags(self, name: str) -> bool:
        return name.endswith((".py", ".zip")) and self.may_define_dags(name)

    def changed_since(self, name: str, moment: float) -> bool:
        """Whether a file was written at *moment* or later (seconds since 1970)."""
        try:
            return (self.root / name).stat().st_mtime >= moment
        except OSError:
            return False

    def fact(self, name: str) -> tuple[str, list[str]]:
        """The hash of a file, and the files that it imports if they are there. One that is gone has the hash ""."""
        _, digest, imported, _ = self._known(name)
        return digest, imported

    def settled_facts(self, seconds: float) -> dict[str, Any]:
        """What was found of files that nobody has written for *seconds*: for the cache of another tree."""
        before = time.time_ns() - int(1e9 * seconds)
        return {name: fact for name, fact in self.facts.items() if all(int(at) < before for at in fact[0].split()[:2])}

    def may_define_dags(self, name: str) -> bool:
        """Whether the text of a file speaks of DAGs (Airflow: might_contain_dag, with safe_mode)."""
        whole = name[: name.index(".zip/") + 4] if ".zip/" in name else name
        return bool(self._known(whole)[3]) or not self._is_file(whole)

    def _known(self, name: str) -> list[Any]:
        if name in self.facts:
            return list(self.facts[name])
        path = self.root / name
        try:
            state = path.stat()
            if not stat.S_ISREG(state.st_mode):
                return NOTHING
            stamp = f"{state.st_mtime_ns} {state.st_ctime_ns} {state.st_size} {state.st_ino}"
            known = self._cache.get(name)
            if known is not None and known[0] == stamp and len(known) == len(NOTHING):
                self.facts[name] = known
            else:
                self.facts[name] = [stamp, *self._look_at(name, path)]
        except OSError:
            return NOTHING
        return list(self.facts[name])

    def _look_at(self, name: str, path: Path) -> tuple[str, list[str], bool]:
        digest, state = sha256(), path.stat()
        if state.st_size > LARGEST_HASHED:  # its ends and its size are the same on every host, and its time is not
            return digest_of_ends(path, state.st_size), [], True
        with open_regular(path) as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
        imported: list[str] = []
        if path.suffix == ".py" and state.st_size <= LARGEST_PARSED:
            imported = sorted(set(self._imports(name, path.read_text(errors="replace"))))
        return digest.hexdigest(), imported, speaks_of_dags(path)

    def _imports(self, name: str, text: str) -> Iterator[str]:
        """What *text* imports if it is in this folder; looked up as Python would, from the file and the root."""
        tree = parsed(text)
        if tree is None:
            return  # its parse will say so
        folder = Path(name).parent
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._modules((folder, Path()), alias.name.split("."))
            elif isinstance(node, ast.ImportFrom):
                start = node.module.split(".") if node.module else []
                places = (folder.joinpath(*[".."] * (node.level - 1)),) if node.level else (folder, Path())
                yield from self._modules(places, start)
                for alias in node.names:
                    yield from self._modules(places, [*start, alias.name])

    def _modules(self, places: tuple[Path, ...], parts: list[str]) -> Iterator[str]:
        for place in places:
            for length in range(1, len(parts) + 1):
                module = place.joinpath(*parts[:length])
                for candidate in (f"{module}.py", f"{module}/__init__.py"):
                    name = os.path.normpath(candidate)
                    if Path(name).parts[0] != os.pardir:
                        yield name

    def _is_file(self, name: str) -> bool:
        if name not in self._files:
            self._files[name] = (self.root / name).is_file()
        return self._files[name]

    def _walk(self, folder: Path, rules: tuple["Rule", ...], seen: set[str]) -> Iterator[Path]:
        rules = (*rules, *self._rules(folder))
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self.warnings.append(f"{self._relative(folder)} cannot be listed: {error.strerror}")
            self.unreadable.append(self._relative(folder))
            return
        for entry in entries:
            path = Path(entry.path)
            if entry.name.startswith(".") or entry.name == "__pycache__":
                continue
            try:
                is_folder, is_file = entry.is_dir(), entry.is_file()
            except OSError as error:  # such as a link to itself
                self.warnings.append(f"{self._relative(path)} is passed over: {error.strerror}")
                continue
            if is_ignored(path, rules, is_folder=is_folder):
                continue
            if is_folder:
                real = os.path.realpath(path)
                if real == self._home:
                    continue
                if real in seen:
                    self.warnings.append(f"{self._relative(path)} is a symbolic link into a loop: it is passed over")
                    continue
                yield from self._walk(path, rules, {*seen, real})
            elif is_file:
                yield path

    def _rules(self, folder: Path) -> list["Rule"]:
        """What the folder's ignore file says, for it and what is below it."""
        if not self._ignores:
            return []
        try:
            lines = read_small(folder / IGNORE_FILE).split("\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            self.warnings.append(f"{self._relative(folder / IGNORE_FILE)} cannot be read: {error.strerror}")
            return []
        found = []
        for line in lines:
            text = re.sub(r"\s*#.*", "", line)
            if not text:
                continue
            try:
                rule = _expression(text, self.root) if self._syntax == "regexp" else _pattern(text, folder)
            except (re.error, ValueError) as error:
                self.warnings.append(f"{self._relative(folder / IGNORE_FILE)}: {text!r} cannot be read: {error}")
                continue
            if rule is not None:
                found.append(rule)
        return found

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def parsed(text: str) -> ast.Module | None:
    """The syntax tree of *text*; None where it has none. One at a time: CPython counts their depth together."""
    with _parsing, warnings.catch_warnings(action="ignore"):  # what is told of the code belongs to its parse
        for _ in range(TRIES):
            try:
                return ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return None
            except SystemError:  # somebody else's parse has come between: cpython#106905
                continue
    return None


Rule = Callable[[Path, bool], bool | None]
"""What a line of an ignore file says of a path that may be a folder: whether it is ignored, or nothing."""


def is_ignored(path: Path, rules: tuple[Rule, ...], *, is_folder: bool) -> bool:
    """Whether the last rule that says something of *path* ignores it: a line may take back one of a folder above."""
    verdicts = [answer for rule in rules if (answer := rule(path, is_folder)) is not None]
    return bool(verdicts) and verdicts[-1]


def _expression(text: str, root: Path) -> Rule:
    """A regular expression that is looked for in the path from the root. Raises re.error."""
    pattern = re.compile(text)
    return lambda path, _: True if pattern.search(path.relative_to(root).as_posix()) else None


def _pattern(text: str, folder: Path) -> Rule | None:
    """A pattern as Git has it: of names, or with a slash of paths from *folder*. Raises ValueError."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    pattern = GitIgnoreSpecPattern(text)
    if text.strip() == "/" or pattern.include is None:
        return None
    of_paths, of_folders = "/" in text.rstrip("/"), text.rstrip().endswith("/")

    def rule(path: Path, is_folder: bool) -> bool | None:
        if of_folders and not is_folder:
            return None
        name = path.relative_to(folder).as_posix() if of_paths else path.name
        found = pattern.match_file(f"{name}/" if is_folder else name)
        return pattern.include if found is not None else None

    return rule


NOTHING: list[Any] = ["", "", [], False]
"""What is known of a file that is gone: its stamp, its hash, what it imports, whether it may define DAGs."""


def speaks_of_dags(path: Path) -> bool:
    """Whether the text of a Python file, or of one at the top of a zip, has the words that one with DAGs has."""
    if path.suffix != ".zip":
        return path.stat().st_size > LARGEST_SOURCE or _has_words(path.read_bytes())
    try:
        with zipfile.ZipFile(path) as opened:
            return any(_speaks(opened, name) for name in _modules_of(path))
    except (OSError, zipfile.BadZipFile):
        return True  # its parse will say so


def _speaks(archive: zipfile.ZipFile, name: str) -> bool:
    with archive.open(name) as file:  # what is packed may be a thousand times as large
        content = file.read(LARGEST_SOURCE + 1)
    return len(content) > LARGEST_SOURCE or _has_words(content)


def digest_of_ends(path: Path, size: int) -> str:
    """What a very large file is known by."""
    with open_regular(path) as file:
        first = file.read(SAMPLE)
        file.seek(size - SAMPLE)
        return sha256(b"%d" % size + first + file.read(SAMPLE)).hexdigest()


def open_regular(path: Path) -> BinaryIO:
    """A file that has an end. Raises OSError for a pipe or a device, without waiting for it."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    file = os.fdopen(opened, "rb")
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no file")
    return file


def read_small(path: Path) -> str:
    """The text of a regular file. Raises OSError for anything else, and where it is too large."""
    with open_regular(path) as file:
        content = file.read(LARGEST_IGNORE_FILE + 1)
    if len(content) > LARGEST_IGNORE_FILE:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST_IGNORE_FILE:,} bytes")
    return content.decode(errors="replace")


def _has_words(content: bytes) -> bool:
    content = content.lower()
    return b"dag" in content and (b"airflow" in content or b"tidemill" in content)


def _not_read(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return (
        f"passed over, as they do not have 'dag' and 'airflow' or 'tidemill' in them: {', '.join(names[:NAMED])}{more} "
        "(dag_discovery_safe_mode)"
    )


def _modules_of(archive: Path) -> list[str]:
    with zipfile.ZipFile(archive) as opened:
        return sorted(name for name in opened.namelist() if name.endswith(".py") and "/" not in name)


def listed(question: dict[str, Any]) -> dict[str, Any]:
    """The answer to *question*.

    It has `root`, `home`, `is_live` and `syntax`, as `Tree`; `extras` by file, `cache`, the path of what is known
    already, `safe_mode`: whether files are passed over that do not speak of DAGs, and `user`, the ids of who reads the
    folder; None: this process's.
    """
    cache = Path(question["cache"])
    try:
        known = json.loads(cache.read_text())
    except (OSError, ValueError):
        known = {}
    with reading_as(question.get("user")):
        return _listed(question, cache, known)


@contextmanager
def reading_as(user: list[int] | None) -> Iterator[None]:
    """Has this process reach files as *user* does as long as the block: an ignore file may be a link."""
    own = (os.geteuid(), os.getegid(), os.getgroups())
    if user is None or own[0] != 0:
        yield
        return
    os.setgroups([])
    os.setegid(user[1])
    os.seteuid(user[0])
    try:
        yield
    finally:
        os.seteuid(own[0])
        os.setegid(own[1])
        os.setgroups(own[2])


def _listed(question: dict[str, Any], cache: Path, known: dict[str, Any]) -> dict[str, Any]:
    home, is_live = question.get("home"), question.get("is_live", False)
    tree = Tree(Path(question["root"]), known, syntax=question["syntax"], home=home, is_live=is_live)
    if not tree.root.is_dir():
        return {"problem": f"{tree.root} is not a folder on this host. Mount it at the same path on every worker"}
    files: dict[str, str] = {}
    passed_over: list[str] = []
    saved_at = time.monotonic()
    for name in tree.dag_files():
        files[name] = tree.digest(name, question["extras"].get(name, ()))
        if question.get("safe_mode") and not tree.may_define_dags(name):
            passed_over.append(name)
        if time.monotonic() - saved_at > SAVE_EVERY:  # whoever ends a listing that takes too long finds it quicker then
            save(cache, {**known, **tree.facts}, question.get("user"))
            saved_at = time.monotonic()
    if "." in tree.unreadable:
        return {"problem": f"{tree.root}: {tree.warnings[-1].removeprefix('. ')}. Let the worker's user read it"}
    save(cache, tree.facts, question.get("user"))
    if passed_over:
        tree.warnings.append(_not_read(passed_over))
    whole = json.dumps([files, tree.warnings, *([passed_over] if passed_over else [])])
    return {
        "digest": sha256(whole.encode()).hexdigest()[:16],
        "files": files,
        "passed_over": passed_over,
        "warnings": tree.warnings,
        "unreadable": tree.unreadable,
    }


def save(cache: Path, facts: dict[str, Any], user: list[int] | None) -> None:
    """Keeps what is known of the files, with the rights that this process began with."""
    if user is not None and os.geteuid() == user[0] and os.getuid() != user[0]:
        os.seteuid(os.getuid())
        try:
            save(cache, facts, None)
        finally:
            os.seteuid(user[0])
        return
    cache.parent.mkdir(parents=True, exist_ok=True)
    temporary = cache.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(facts))
    temporary.replace(cache)


if __name__ == "__main__":
    import resource

    import pathspec.patterns.gitignore.spec  # noqa: F401 - read now: the user of the bundle need not see it

    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    print(json.dumps(listed(json.load(sys.stdin))))
