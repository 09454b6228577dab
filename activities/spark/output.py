"""Output that is safe from attempts that were given up: each writes to a folder of its own, one is published.

The run's workflow decides which attempt counts, and has its folder take the target's place. A
zombie, that is a driver that nobody waits for any more, writes to a folder that nobody reads.
"""

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path

import fsspec
from temporalio import activity

from ...model.run.task_instances import StagedOutput
from ..attempts.supervision import beating, infrastructure_error
from ..processes.users import acting_as
from ..worker_context import WorkerContext
from .place import invalid
from .staging import check_publishable, local, remove_starts

MARK = "_PUBLISHED"
"""Within a published folder: which attempt made it."""
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class OutputActivities:
    def __init__(self, worker_context: WorkerContext) -> None:
        self._worker_context = worker_context

    @activity.defn(name="tidemill.publish", no_thread_cancel_exception=True)
    def publish(self, output: StagedOutput) -> str:
        """Has the attempt's folder take the target's place; asked again for the same folder, changes nothing.

        On a local or shared file system a reader sees the old folder or the new one, never a mixture.
        An object store has no such step: there the old objects are removed before the new ones appear. Once begun, it
        goes on to its end, whoever asks it to stop.
        """
        for place in (output.staged, output.target):
            check_publishable(place)
        with beating():
            staged, target = local(output.staged), local(output.target)
            if staged is not None and target is not None:
                with acting_as(self._worker_context.user_of(output.bundle)):
                    _publish_folder(staged, target)
            else:
                _publish_objects(output.staged, output.target)
        remove_starts(
            self._worker_context, output
        )  # what was there before, and what starts wrote whose workers were lost
        return output.target


def _publish_folder(staged: Path, target: Path) -> None:
    if _made_by((target / MARK).read_bytes) != staged.name:
        if not staged.is_dir():
            raise nothing_written(staged)
        (staged / MARK).write_text(staged.name)
        if target.exists():
            _exchange(staged, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            staged.rename(target)


def _publish_objects(staged: str, target: str) -> None:
    files, source = fsspec.core.url_to_fs(staged)
    _, place = fsspec.core.url_to_fs(target)
    name = staged.rpartition("/")[2]
    if _made_by(lambda: files.cat_file(f"{place}/{MARK}")) != name:
        if not files.exists(source):
            raise nothing_written(staged)
        if files.exists(place):
            files.rm(place, recursive=True)
        files.copy(f"{source}/", f"{place}/", recursive=True)
        files.pipe_file(f"{place}/{MARK}", name.encode())


def _made_by(read: Callable[[], bytes]) -> str | None:
    """The attempt that made what is at the target now."""
    try:
        return read().decode()
    except OSError:
        return None


def nothing_written(staged: Path | str) -> Exception:
    return invalid(
        f"the application succeeded and wrote nothing to {staged}. "
        "Have it write to the path that conf spark.tidemill.output gives; if its driver has no disk in common with "
        "the worker, as on YARN and Kubernetes, name the output by a URL, such as s3a://bucket/folder"
    )


def _exchange(one: Path, other: Path) -> None:
    """Each takes the other's name, in one step where the system has it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "renameat2"):
        if not libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
            return
        if ctypes.get_errno() not in (errno.EINVAL, errno.ENOSYS):
            raise infrastructure_error(f"{other} cannot be replaced: {os.strerror(ctypes.get_errno())}")
    old = one.with_name(one.name + ".old")
    other.rename(old)
    one.rename(other)
    old.rename(one)
