"""DAG files brought to Temporal: once, or looked after for as long as a bundle exists."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from temporalio.service import RPCError
from watchfiles import awatch

from ...activities.dag_files import each_dag_file
from ...model.bundle.data import BundleSettings, FileView
from ...model.dag.views import Registration
from ...model.errors import InvalidInputError
from ..client import Tidemill
from ..service.connection import NotFoundError, NoWorkerError

SOON = 1.0
LOOKS_EVERY = 60.0
T = TypeVar("T")

log = logging.getLogger(__name__)


async def register_folder(tidemill: Tidemill, path: Path) -> list[Registration]:
    """Registers every DAG at *path*, a file or a folder, once. Raises InvalidInputError for what cannot be read."""
    done = []
    for parsed in await asyncio.to_thread(lambda: list(each_dag_file(path))):
        if parsed.error is not None:
            raise InvalidInputError(f"{parsed.path}: {parsed.error}")
        done += [await tidemill.dags.register(spec) for spec in parsed.dags]
    return done


async def look_after(tidemill: Tidemill, folder: Path, name: str) -> None:
    """Makes sure that *folder* is the bundle *name*. One that somebody has configured already stays as it is.

    Raises InvalidInputError if the bundle has another folder: its DAGs would be taken from whoever that belongs to.
    """

    async def ensure() -> None:
        if not await _is_ours(tidemill, folder, name):
            await tidemill.bundles.configure(BundleSettings(name=name, path=str(folder)))

    await _until_answered(ensure)


async def keep_looking_after(tidemill: Tidemill, folder: Path, name: str) -> None:
    """Makes sure of the same every minute, until cancelled: somebody may have ended the bundle's workflow."""
    while True:
        await asyncio.sleep(LOOKS_EVERY)
        try:
            await look_after(tidemill, folder, name)
        except Exception as error:  # whatever it is may have passed in a minute
            log.error("bundle %r could not be looked after: %s", name, error)


async def _is_ours(tidemill: Tidemill, folder: Path, name: str) -> bool:
    """Whether the bundle *name* has *folder*. False if there is no such bundle yet."""
    try:
        there = (await tidemill.bundles.describe(name)).settings
    except NotFoundError:
        return False
    if there.kind != "folder" or there.path != str(folder):
        raise InvalidInputError(
            f"bundle {name!r} is {there.path} already, and this worker has {folder}. Give this folder a bundle of its "
            f"own (TIDEMILL_BUNDLE=another-name), or change the bundle: tidemill bundles set {name} {folder}"
        )
    return True


async def watch_folder(tidemill: Tidemill, folder: Path, name: str) -> None:
    """Has the folder looked at whenever something in it changes, and logs what came of it, until cancelled.

    Raises InvalidInputError if the bundle *name* has another folder.
    """
    settings = BundleSettings(name=name, path=str(folder), min_file_process_interval=timedelta(0))
    await _until_answered(lambda: _is_ours(tidemill, folder, name))
    await _until_answered(lambda: tidemill.bundles.configure(settings))
    seen: dict[str, FileView] = {}
    while True:
        watching = False
        try:
            # Its first answer, mostly an empty one, says that it watches now: what comes later is not missed.
            async for changes in awatch(folder, step=100, debounce=300, rust_timeout=500, yield_on_timeout=True):
                if changes or not watching:
                    seen = await _look(tidemill, name, seen)
                watching = True
        except NotFoundError:  # somebody has ended the bundle's workflow
            await _until_answered(lambda: tidemill.bundles.configure(settings))
        except Exception as error:  # the folder was moved away, say: it may come back
            log.error("%s cannot be watched: %s; trying again", folder, error)
            await asyncio.sleep(SOON)


async def _look(tidemill: Tidemill, name: str, seen: dict[str, FileView]) -> dict[str, FileView]:
    files = await _until_answered(lambda: tidemill.bundles.look(name))
    tell_changes(seen, files, log.info, log.error)
    return {file.path: file for file in files}


async def _until_answered(ask: Callable[[], Awaitable[T]]) -> T:
    """Asks until Temporal and a worker are there to answer."""
    while True:
        try:
            return await ask()
        except (NoWorkerError, RPCError) as error:
            log.warning("%s; asking again", error)
            await asyncio.sleep(SOON)


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
