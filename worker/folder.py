"""DAG files brought to Temporal: once, or looked after for as long as a bundle exists."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path

from temporalio.service import RPCError
from watchfiles import awatch

from ..activities.dag_files import read_dag_files
from ..model.bundles import BundleSettings, FileView
from ..model.errors import InvalidInputError
from ..model.views import Registration
from .client import Tidemill
from .connection import NotFoundError, NoWorkerError

DAGS_FOLDER = "dags-folder"
"""The bundle of the worker's own folder (Airflow's name)."""
SOON = timedelta(seconds=1)

log = logging.getLogger(__name__)


async def register_folder(tidemill: Tidemill, path: Path) -> list[Registration]:
    """Registers every DAG at *path*, a file or a folder, once. Raises InvalidInputError for what cannot be read."""
    done = []
    for parsed in await asyncio.to_thread(read_dag_files, path):
        if parsed.error is not None:
            raise InvalidInputError(f"{parsed.path}: {parsed.error}")
        done += [await tidemill.register(spec) for spec in parsed.dags]
    return done


async def look_after(tidemill: Tidemill, folder: Path) -> None:
    """Makes sure that *folder* is a bundle. One that somebody has configured already stays as it is."""
    try:
        if (await tidemill.bundle(DAGS_FOLDER)).settings.path == str(folder):
            return
    except NotFoundError:
        pass
    await tidemill.set_bundle(BundleSettings(name=DAGS_FOLDER, path=str(folder)))


async def watch_folder(tidemill: Tidemill, folder: Path) -> None:
    """Has the folder looked at whenever something in it changes, and logs what came of it, until cancelled."""
    settings = BundleSettings(name=DAGS_FOLDER, path=str(folder), min_file_process_interval=timedelta(0))
    await tidemill.set_bundle(settings)
    seen = await _look(tidemill, {})
    async for _ in awatch(folder, step=100, debounce=300):
        seen = await _look(tidemill, seen)


async def _look(tidemill: Tidemill, seen: dict[str, FileView]) -> dict[str, FileView]:
    while True:
        with contextlib.suppress(NoWorkerError):
            try:
                files = await tidemill.look_at_bundle(DAGS_FOLDER)
                tell_changes(seen, files, log.info, log.error)
                return {file.path: file for file in files}
            except RPCError as error:
                log.warning("the DAG folder cannot be looked at: %s; trying again", error)
        await asyncio.sleep(SOON.total_seconds())


def tell_changes(
    before: dict[str, FileView], now: Iterable[FileView], good: Callable[[str], None], bad: Callable[[str], None]
) -> None:
    """Says of each file that was parsed since then what came of it, and of each that is gone."""
    paths = set()
    for file in now:
        paths.add(file.path)
        known = before.get(file.path)
        if known is not None and (known.parses, known.error) == (file.parses, file.error):
            continue
        if file.error is not None:
            bad(f"{file.path}: {file.error}")
        elif known is None or known.error is not None or known.parses != file.parses:
            good(f"{file.path}: {', '.join(file.dags) or 'no DAG'}")
    for path in before.keys() - paths:
        good(f"{path}: removed")
