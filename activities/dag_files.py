"""Reads DAG files, each in a process that may do anything without hurting anyone."""

import json
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO

from ..model.dag import DagSpec, read_dag
from ..model.errors import InvalidInputError
from .bundles.listing import Tree
from .outcomes import describe_exit

PARSE_TIMEOUT = timedelta(seconds=50)  # Airflow's dag_file_processor_timeout


@dataclass(frozen=True)
class ParsedFile:
    """What came of reading one file: its DAGs, or why there are none."""

    path: Path
    dags: tuple[DagSpec, ...] = ()
    error: str | None = None


def find_dag_files(path: Path) -> list[Path]:
    """The file *path*, or the DAG files of the folder *path* as a bundle would find them, in order."""
    if path.is_file():
        return [path.resolve()]
    root = path.resolve()
    return [root / name for name in Tree(root).dag_files()]


def read_dag_files(path: Path) -> list[ParsedFile]:
    """The DAGs at *path*: a DAG file, a folder of them, or one DAG as .json. Errors are those of their files."""
    return [_read_json(file) if file.suffix == ".json" else parse_dag_file(file) for file in find_dag_files(path)]


def _read_json(path: Path) -> ParsedFile:
    try:
        return ParsedFile(path, dags=(read_dag(json.loads(path.read_text())),))
    except (InvalidInputError, json.JSONDecodeError) as error:
        return ParsedFile(path, error=str(error))


def parse_dag_file(path: Path, timeout: timedelta = PARSE_TIMEOUT) -> ParsedFile:
    """The DAGs of the file at *path*. Never raises for what the file does: that is its error."""
    read, write = os.pipe()
    with tempfile.TemporaryFile() as printed:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "tidemill.activities.parse_child", str(path), str(write)],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            pass_fds=[write],
            start_new_session=True,
        )
        os.close(write)
        ended = threading.Timer(timeout.total_seconds(), _kill_group, [child.pid])
        ended.start()
        try:
            with os.fdopen(read) as answers:
                answer = answers.read()
            code = child.wait()
        finally:
            timed_out = not ended.is_alive()
            ended.cancel()
            _kill_group(child.pid)
        return _understand(path, answer, code, timeout if timed_out else None, printed)


def _understand(path: Path, answer: str, code: int, timeout: timedelta | None, printed: IO[bytes]) -> ParsedFile:
    if timeout is not None:
        return ParsedFile(
            path, error=f"importing the file took more than {timeout.total_seconds():g} s. Move slow work into tasks"
        )
    if not answer:
        printed.seek(0)
        last = printed.read()[-500:].decode(errors="replace").strip().split("\n")[-3:]
        told = f" Its last words: {' / '.join(last)}" if any(last) else ""
        return ParsedFile(path, error=f"importing the file ended its process: it {describe_exit(code)}.{told}")
    result = json.loads(answer)
    if "error" in result:
        return ParsedFile(path, error=result["error"])
    return ParsedFile(path, dags=tuple(read_dag(dag) for dag in result["dags"]))


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, 9)
    except (ProcessLookupError, PermissionError):
        return
