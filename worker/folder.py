"""Keeps the DAGs of a folder registered, as long as a process watches it."""

import asyncio
import logging
from pathlib import Path

from ..activities.dag_files import find_dag_files, parse_dag_file
from ..model.errors import InvalidInputError
from ..model.views import Change, Registration
from .client import Tidemill

LIST_EVERY_SECONDS = 1.0

log = logging.getLogger(__name__)


async def register_folder(tidemill: Tidemill, path: Path) -> list[Registration]:
    """Registers every DAG at *path*, a file or a folder. Raises InvalidInputError for what cannot be read."""
    done = []
    for file in find_dag_files(path):
        done += await register_file(tidemill, file)
    return done


async def register_file(tidemill: Tidemill, file: Path) -> list[Registration]:
    parsed = await asyncio.to_thread(parse_dag_file, file)
    if parsed.error is not None:
        raise InvalidInputError(f"{file}: {parsed.error}")
    return [await tidemill.register(spec) for spec in parsed.dags]


async def watch_folder(tidemill: Tidemill, folder: Path) -> None:
    """Registers the folder's DAGs, and again each file that changes, until cancelled."""
    seen: dict[Path, int] = {}
    while True:
        for file in find_dag_files(folder):
            changed = file.stat().st_mtime_ns
            if seen.get(file) == changed:
                continue
            seen[file] = changed
            try:
                for registration in await register_file(tidemill, file):
                    if registration.change is not Change.UNCHANGED:
                        log.info("%s: DAG %s %s", file.name, registration.dag_id, registration.change)
            except InvalidInputError as error:
                log.error("%s", error)
        await asyncio.sleep(LIST_EVERY_SECONDS)
