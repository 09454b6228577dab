"""Parses one DAG file in a fork of a warm process, limited in time and memory: what it does hurts only itself."""

import json
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.exceptions import ApplicationError

from ..fork_servers import ForkServer, ForkServers, ServerGone
from ..outcomes import describe_exit
from ..supervision import Watch, handed_over

PARSE_TIMEOUT = timedelta(seconds=50)  # Airflow's dag_file_processor_timeout
MEMORY_MB = 2048


@dataclass(frozen=True)
class FileToParse:
    """A file *name* below *root*, the path that its DAGs shall know it by, and its limits."""

    root: Path
    name: str
    lasting: str
    timeout: timedelta = PARSE_TIMEOUT
    memory_mb: int = MEMORY_MB


def parsed(servers: ForkServers, file: FileToParse, watch: Watch) -> dict[str, Any]:
    """The file's DAGs as JSON or its `error`, and which `files` below the root it read, as far as that is known.

    *watch* raises TimeoutError when the file has had its time. Raises what makes Temporal ask again
    if the trouble is not the file's.
    """
    if not file.root.is_dir():
        raise handed_over(f"{file.root} is not there on this worker")
    try:
        with servers.for_code(None) as server:
            return _ask(server, file, watch)
    except ServerGone:
        pass  # perhaps another file has ended it, perhaps this one
    try:
        with servers.alone() as server:
            return _ask(server, file, watch)
    except ServerGone:
        return {"error": "importing the file ends the process that imports it, and the one above that"}


def _ask(server: ForkServer, file: FileToParse, watch: Watch) -> dict[str, Any]:
    request = {
        "root": str(file.root),
        "name": file.name,
        "lasting": file.lasting,
        "memory_mb": file.memory_mb,
    }
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "printed")
        try:
            server.ready(watch)
        except ApplicationError as error:
            raise handed_over(f"the process that parses DAG files did not start: {error.message}") from None
        watch.restart()
        try:
            code = server.parse(request, Path(folder), log, watch)
        except TimeoutError:
            limit = file.timeout.total_seconds()
            return {"error": f"importing the file took more than {limit:g} s. Move slow work into tasks"}
        try:
            found: dict[str, Any] = json.loads(Path(folder, "result.json").read_text())
        except FileNotFoundError:
            found = {"error": f"importing the file ended its process: it {describe_exit(code)}.{last_words(log)}"}
        return found


def last_words(log: Path, most: int = 500) -> str:
    try:
        with log.open("rb") as printed:
            printed.seek(max(0, log.stat().st_size - most))
            lines = printed.read().decode(errors="replace").strip().split("\n")[-3:]
    except OSError:
        return ""
    return f" Its last words: {' / '.join(lines)}" if any(lines) else ""
