"""Keeps the DAGs of a folder registered, as long as a process watches it."""

import asyncio
import logging
from pathlib import Path

from temporalio.service import RPCError

from ..activities.dag_files import find_dag_files, parse_dag_file
from ..model.errors import InvalidInputError
from ..model.views import Change, Registration
from .client import Tidemill
from .connection import NoWorkerError

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


async def register_and_tell(tidemill: Tidemill, file: Path) -> None:
    for registration in await register_file(tidemill, file):
        if registration.change is not Change.UNCHANGED:
            log.info("%s: DAG %s %s", file.name, registration.dag_id, registration.change)


async def watch_folder(tidemill: Tidemill, folder: Path) -> None:
    """Registers the folder's DAGs, and again each file that changes, until cancelled."""
    seen: dict[Path, int] = {}
    while True:
        for file in find_dag_files(folder):
            try:
                changed = file.stat().st_mtime_ns
                if seen.get(file) != changed:
                    await register_and_tell(tidemill, file)
                    seen[file] = changed
            except InvalidInputError as error:
                seen[file] = changed  # until it is mended
                log.error("%s", error)
            except (NoWorkerError, RPCError, OSError) as error:
                log.warning("%s: %s; trying again", file.name, error)
        await asyncio.sleep(LIST_EVERY_SECONDS)
