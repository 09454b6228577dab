"""Where attempts write before one of them is published, and how what is not published goes."""

import logging
import os
import re
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from ...model.run.attempts import TaskAttempt
from ...model.run.task_instances import StagedOutput
from ..attempts.supervision import beating
from ..processes.users import acting_as
from ..worker_context import WorkerContext
from .place import invalid

STAGING = "_tidemill"
"""Beside the target. Spark passes over names that begin with an underscore when it reads a folder."""
PUBLISHED = frozenset(
    ("file", "s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "az", "adl", "hdfs", "viewfs", "webhdfs")
)
"""What an output's URL may begin with."""
REMOVAL_TIMEOUT = 120.0
"""Seconds that the end of a try waits for a removal: a store may be slow, or away."""
_OF_AN_ATTEMPT = re.compile(r".+\.[0-9a-f]{16}-\d+")
"""How the folder of a start is called: its target, its attempt, its number."""

log = logging.getLogger(__name__)


def stage(attempt: TaskAttempt, target: str | None, start: int, directory: Path, home: Path) -> StagedOutput | None:
    """Return where start *start* of the attempt writes, so that it may become *target*; None without a target.

    *directory*: what a relative target is below, the folder of the DAG file. *home*: the worker's own.
    """
    if target is None:
        return None
    target = _target(target, directory, home)
    parent, _, name = target.rpartition("/")
    staged = f"{parent}/{STAGING}/{name}.{attempt.uuid.hex[:16]}-{start}"
    bundle = attempt.source.bundle if attempt.source is not None else None
    return StagedOutput(staged=staged, target=target, bundle=bundle)


def _target(output: str, directory: Path, home: Path) -> str:
    """Return the folder that *output* means, a relative one below *directory*: whatever is there will be replaced.

    Fails the task where it is no folder of its own, or has the task's DAG file or the worker's home in it.
    """

    def refused(reason: str) -> Exception:
        return invalid(f"output {output!r}{reason}")

    if not output.strip():
        raise refused(": it is empty, templates filled in. Leave `output` out, or have it name a folder")
    if output.startswith("~"):
        raise refused(": Spark knows no home in `~`. Write the whole path")
    place = re.sub(r"^file:(?=/(?!/))", "file://", output)  # as Hadoop writes it
    check_publishable(place)
    if _is_url(place):
        scheme, _, rest = place.partition("://")
        host, _, path = rest.partition("/")
        if {".", ".."} & {*path.split("/")}:
            raise refused(": write its path without `.` and `..`")
        target = f"{scheme}://{host}/{path.strip('/')}"
        if not path.strip("/"):
            raise refused(" is no folder of its own. Name one below it")
    else:
        target = os.path.normpath(directory / place)
    folder = local(target)
    if folder is not None:
        if folder == folder.parent:
            raise refused(" is no folder of its own. Name one below it")
        whole = os.path.realpath(folder)
        if any(Path(os.path.realpath(kept)).is_relative_to(whole) for kept in (directory, home)):
            raise refused(" has the DAG file or TIDEMILL_HOME in it, and would be replaced. Name a folder of its own")
    return target


def _is_url(place: str) -> bool:
    """Whether *place* is no path: names of folders may have a colon, as run_ids have."""
    return "://" in place or re.match(r"[a-zA-Z][\w+.-]*:/", place) is not None


def check_publishable(place: str) -> None:
    """Fail the task for a URL of anything but folders, and stores that know by themselves whose files are whose."""
    if not _is_url(place):
        return
    scheme, mark, _ = place.partition("://")
    if not mark or scheme not in PUBLISHED or "::" in place:
        known = ", ".join(sorted(PUBLISHED))
        raise invalid(
            f"output {place!r}: nothing is published to {place.partition(':')[0]} as it is written there. "
            f"Give a folder, or a URL such as s3a://bucket/folder, of {known}"
        )


def local(place: str) -> Path | None:
    """Return *place* as a path; None for one of another kind than files."""
    if "://" in place and not place.startswith("file:"):
        return None
    return Path(re.sub(r"^file:(//[^/]*)?", "", place))  # whatever follows is a name: Spark decodes nothing


def store_of(place: str) -> tuple[Any, str]:
    """Return the file system of fsspec that *place* is on, and its name there."""
    path = local(place)
    return fsspec.core.url_to_fs(place) if path is None else (LocalFileSystem(), str(path))


def remove_starts(worker_context: WorkerContext, output: StagedOutput, *, until: int | None = None) -> None:
    """Remove what the starts of an attempt have staged, of which *output* is one; with *until* none of later ones.

    A removal that fails, or takes long, is logged, and changes nothing of how the attempt ends: `tidemill cleanup
    --lake` finds what is left.
    """

    def remove() -> None:
        try:
            _remove_starts(worker_context, output, until)
        except Exception as error:  # a store, and what it needs, may raise anything
            log.warning("what a try has staged at %s cannot be removed: %s", output.staged, error)

    removing = threading.Thread(target=remove, name="remove staged output", daemon=True)
    with beating():
        removing.start()
        removing.join(REMOVAL_TIMEOUT)
    if removing.is_alive():
        log.warning("what a try has staged at %s takes long to be removed, and is not waited for", output.staged)


def remove_unpublished(worker_context: WorkerContext, output: StagedOutput | None, *, until: int | None = None) -> None:
    """As `remove_starts`, for an attempt that ends without anything to publish, unless the worker keeps its output."""
    if output is not None and not worker_context.keeps_failed_output:
        remove_starts(worker_context, output, until=until)


def _remove_starts(worker_context: WorkerContext, output: StagedOutput, until: int | None) -> None:
    files, place = store_of(output.staged)
    user = worker_context.user_of(output.bundle) if isinstance(files, LocalFileSystem) else None
    folder, _, name = place.rpartition("/")
    attempt = name.rpartition("-")[0]
    with acting_as(user):
        for each in _names(files, folder):
            whose, _, number = each.rpartition("/")[2].rpartition("-")
            if whose == attempt and (until is None or not number.isdecimal() or int(number) <= until):
                files.rm(each, recursive=True)
        if isinstance(files, LocalFileSystem):
            _remove_if_empty(Path(folder))


def _names(files: Any, folder: str) -> list[str]:
    try:
        files.invalidate_cache()  # others write there, too
        return [str(name) for name in files.ls(folder, detail=False)]
    except FileNotFoundError:
        return []


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # other attempts may be at work there
        return


def old_staging(lake: str, before: datetime) -> Iterator[tuple[str, int]]:
    """Find the folders of attempts below *lake* in which nothing was written since *before*; with bytes.

    Raises OSError where *lake* cannot be read. No link is followed: what is in there, tasks have made.
    """
    if local(lake) == Path():
        raise FileNotFoundError("it names no place. Give a folder or a URL")
    files, root = store_of(lake)
    if not files.exists(root):
        raise FileNotFoundError(f"{lake} is not there")
    found = _in_folders(root) if isinstance(files, LocalFileSystem) else _in_objects(files, root)
    for folder, infos in sorted(found.items()):
        if infos and max(map(changed, infos)) < before:
            yield folder, sum(int(info.get("size") or 0) for info in infos)


def _in_folders(root: str) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for folder, names, _ in os.walk(root):
        if Path(folder).name == STAGING:
            for path in (Path(folder, name) for name in names if _OF_AN_ATTEMPT.fullmatch(name)):
                if not path.is_symlink():
                    infos = map(_info, (path, *path.rglob("*")))
                    found[str(path)] = [info for info in infos if info is not None]
            names.clear()
    return found


def _info(path: Path) -> dict[str, Any] | None:
    """What is known of a file; None for one that is gone: Spark gives its files other names as it goes."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return {"mtime": status.st_mtime, "size": status.st_size if stat.S_ISREG(status.st_mode) else 0}


def _in_objects(files: Any, root: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for name, info in files.find(root, detail=True).items():
        parts = str(name).split("/")
        for at, part in enumerate(parts[:-2], 1):
            if part == STAGING and _OF_AN_ATTEMPT.fullmatch(parts[at]):
                found.setdefault("/".join(parts[: at + 1]), []).append(info)
                break
    return found


def changed(info: dict[str, Any]) -> datetime:
    """Return when an object was written, by whatever name its store has for that; now where it does not say."""
    for name in ("LastModified", "last_modified", "mtime", "created", "updated"):
        value = info.get(name)
        if isinstance(value, datetime):
            return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
    return datetime.now(UTC)
