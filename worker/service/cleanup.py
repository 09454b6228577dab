"""Removes what nobody needs any more: logs, attempts, results and kept code of runs that Temporal has forgotten.

What may still be needed stays: whatever is younger than asked for, the attempts of running processes, results and
code of every run that Temporal still knows, code of every registered DAG.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import fsspec
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError

from ...activities.attempts.folder import HOST, AttemptFolder, find_process
from ...activities.calling import query
from ...activities.spark.staging import changed, old_staging, store_of
from ...activities.worker_context import WorkerContext
from ...model.base import Model
from ...model.interfaces.dag import DagInterface
from ...model.interfaces.run import RunInterface
from .connection import QUERY_TIMEOUT

RUNS = RunInterface.listed()
DAGS = DagInterface.running()


class Removed(Model):
    """One thing that was removed, or would be."""

    kind: str
    name: str
    size: int
    """In bytes."""


@dataclass
class Known:
    """What Temporal still knows."""

    run_ids: set[str] = field(default_factory=set)
    snapshots: set[str] = field(default_factory=set)
    unsure_until: datetime | None = None
    """When the youngest run or DAG began of which is not known which code it needs."""

    def needs_code(self, snapshot: str, kept_at: datetime) -> bool:
        return snapshot in self.snapshots or (self.unsure_until is not None and kept_at <= self.unsure_until)


async def known_to_temporal(client: Client) -> Known:
    """The runs that Temporal still knows, running or ended, with the code that they and the registered DAGs need."""
    known = Known()
    async for run in client.list_workflows(RUNS):
        memo = await run.memo()
        known.run_ids.add(str(memo.get("run_id")))
        if "snapshot" not in memo:
            known.unsure_until = max(known.unsure_until or run.start_time, run.start_time)
        elif memo["snapshot"] is not None:
            known.snapshots.add(str(memo["snapshot"]))
    async for dag in client.list_workflows(DAGS):
        try:
            spec = await query(client.get_workflow_handle(dag.id), DagInterface.spec(), rpc_timeout=QUERY_TIMEOUT)
        except (RPCError, WorkflowQueryFailedError):  # it may need any of the code
            known.unsure_until = datetime.now(UTC)
            continue
        if spec.source is not None and spec.source.snapshot is not None:
            known.snapshots.add(spec.source.snapshot)
    return known


def cleanup(
    worker_context: WorkerContext, known: Known, older_than: timedelta, *, dry_run: bool = False
) -> list[Removed]:
    """Removes what is older than *older_than* and not needed; what that was, largest kinds of things first to last.

    With *dry_run* nothing is removed.
    """
    before = datetime.now(UTC) - older_than
    found = [*_old_logs(worker_context.home / "logs", before), *_old_attempts(worker_context.home / "attempts", before)]
    found += [*_old_snapshots(worker_context.home / "snapshots", known, before)]
    if not dry_run:
        for thing in found:
            _remove(Path(thing.name))
        emptied = {Path(thing.name).parent for thing in found}
        for place in ("logs", "attempts"):
            _remove_empty(worker_context.home / place, emptied, before)
    return [*found, *_old_objects(worker_context, known, before, dry_run=dry_run)]


def clean_lake(place: str, older_than: timedelta, *, dry_run: bool = False) -> list[Removed]:
    """Remove below *place*, a folder or a URL, what tries have written that were never published.

    These are folders of tries in which nothing was written for as long as *older_than*. Raises OSError where *place*
    cannot be read.
    """
    found = [
        Removed(kind="output of a try", name=name, size=size)
        for name, size in old_staging(place, datetime.now(UTC) - older_than)
    ]
    if not dry_run:
        files, _ = store_of(place)
        for each in found:
            files.rm(each.name, recursive=True)
    return found


def _old_logs(logs: Path, before: datetime) -> Iterator[Removed]:
    for path in logs.glob("dag_id=*/**/*.log*"):
        if path.is_file() and _modified(path) < before:
            yield Removed(kind="log", name=str(path), size=path.stat().st_size)


def _old_attempts(attempts: Path, before: datetime) -> Iterator[Removed]:
    """Folders of executions of a try in which nothing has changed since, and nothing runs."""
    for path in _executions(attempts):
        files = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
        if max(map(_modified, [path, *files])) < before and not _runs(path):
            yield Removed(kind="attempt", name=str(path), size=sum(each.lstat().st_size for each in files))


def _executions(folder: Path) -> Iterator[Path]:
    """The folders of executions of tries below *folder*. No link is followed: what is in theirs, tasks have made."""
    try:
        found = sorted(folder.iterdir())
    except OSError:  # it is not there, or goes at this moment
        return
    for path in found:
        if path.is_dir() and not path.is_symlink():
            if folder.name.startswith("attempt="):
                yield path
            else:
                yield from _executions(path)


def _runs(path: Path) -> bool:
    for claim in [*path.glob("claim.json"), *path.glob("poke=*/claim.json")]:  # not those that a task has made
        content = AttemptFolder(claim.parent, claim).read(claim.name) or {}
        if content.get("host", HOST) != HOST:
            return True  # only that host knows
        if "supervisor" in content and find_process(content["supervisor"], content["supervisor_started"]) is not None:
            return True
    return False


def _old_snapshots(snapshots: Path, known: Known, before: datetime) -> Iterator[Removed]:
    """Code that this host has laid out; it can be laid out again as long as it is kept."""
    for path in snapshots.glob("*") if snapshots.is_dir() else ():
        if path.is_dir() and _modified(path) < before and path.name not in known.snapshots:
            size = sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
            yield Removed(kind="code laid out", name=str(path), size=size)


def _old_objects(worker_context: WorkerContext, known: Known, before: datetime, *, dry_run: bool) -> Iterator[Removed]:
    """Results and kept code in the store that workers share."""
    files, root = fsspec.core.url_to_fs(worker_context.results.url)
    if not files.exists(root):
        return
    found = {name: info for name, info in files.find(root, detail=True).items() if changed(info) < before}
    code = f"{root.rstrip('/')}/_code/"
    needed = worker_context.snapshots.blobs_of(
        name
        for name in worker_context.snapshots.names()
        if known.needs_code(name, _kept_at(files, code, name)) or f"{code}manifests/{name}.json" not in found
    )
    newest_specs = _newest_of_each_folder(found, f"{code}specs/")
    for name, info in found.items():
        if name not in newest_specs and not _is_needed(
            name.removeprefix(root).lstrip("/"), known, needed, changed(info)
        ):
            if not dry_run:
                files.rm_file(name)
            kind = "kept code" if name.startswith(code) else "result"
            yield Removed(kind=kind, name=name, size=int(info.get("size") or 0))


def _kept_at(files: Any, code: str, name: str) -> datetime:
    return changed(files.info(f"{code}manifests/{name}.json"))


def _is_needed(name: str, known: Known, blobs: set[str], kept_at: datetime) -> bool:
    """Whether the object *name* of the store may be asked for again."""
    kind, _, rest = name.removeprefix("_code/").partition("/")
    if not name.startswith("_code/"):
        parts = (part.removeprefix("run_id=") for part in name.split("/") if part.startswith("run_id="))
        run_id = next(parts, None)
        return run_id is None or not known.run_ids.isdisjoint((run_id, unquote(run_id)))
    if kind == "manifests":
        return known.needs_code(rest.removesuffix(".json"), kept_at)
    return rest in blobs if kind == "blobs" else kind != "specs"


def _newest_of_each_folder(found: dict[str, Any], prefix: str) -> set[str]:
    """The names of the specs that bundles may register again."""
    newest: dict[str, str] = {}
    for name in sorted((name for name in found if name.startswith(prefix)), key=lambda name: changed(found[name])):
        newest[name.rpartition("/")[0]] = name
    return {*newest.values()}


def _modified(path: Path) -> datetime:
    try:
        return datetime.fromtimestamp(path.lstat().st_mtime, UTC)
    except FileNotFoundError:
        return datetime.now(UTC)


def _remove(path: Path) -> None:
    if path.is_dir():
        if path.parent.name == "snapshots":  # kept code is laid out for nobody to write to
            for folder, _, _ in os.walk(path):
                Path(folder).chmod(0o755)
        AttemptFolder(path, path).remove()  # what belongs to a task's user goes with that user's rights
    else:
        path.unlink(missing_ok=True)


def _remove_empty(root: Path, emptied: set[Path], before: datetime) -> None:
    """Removes the folders below *root* in which nothing is left, or ever was: a young one may be about to be used."""
    for name, _, _ in os.walk(root, topdown=False):
        folder = Path(name)
        if folder != root and (folder in emptied or _modified(folder) < before) and not any(folder.iterdir()):
            folder.rmdir()
            emptied.add(folder.parent)
