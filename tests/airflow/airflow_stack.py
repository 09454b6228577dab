"""Airflow beside tidemill, for tests: the Python of an environment that has both."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support import Stack, sharing, stack
from tidemill.activities.attempts.supervision import Unattended
from tidemill.activities.bundles.parsing import PARSE_TIMEOUT, FileToParse, parsed
from tidemill.activities.processes.answers import FileParsed
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.spec.dag import DagSpec, read_dag

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("AIRFLOW_PYTHON", ROOT / ".venv-airflow" / "bin" / "python"))
DAGS = Path(__file__).with_name("dags")
needs_airflow = pytest.mark.skipif(
    not PYTHON.exists(), reason=f"Airflow is not there: `make .venv-airflow/.ready` makes {PYTHON.parents[1].name}"
)


def airflow_place(home: Path, *, shared: bool = True, **more: object) -> WorkerContext:
    """The surroundings of a worker that reads DAG files that import Airflow.

    Not *shared* where Airflow is to read its settings anew.
    """
    place = WorkerContext(home=home, airflow_python=str(PYTHON), environment=("TEST_*",), **more)  # type: ignore[arg-type]
    return sharing(place) if shared and not more else place


def emptied_out() -> Path:
    """A folder for what tasks write, emptied: one for all tests, as DAG files read its name at import."""
    out = Path(tempfile.gettempdir(), f"tidemill-out-{os.getpid()}")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    atexit.register(shutil.rmtree, out, ignore_errors=True)
    return out


def read_file(place: WorkerContext, path: Path) -> dict[str, DagSpec]:
    """The DAGs of a file, by dag_id. Fails if it cannot be read."""
    answer = answer_of(place, path)
    assert answer.error is None, answer.error
    return {dag["dag_id"]: read_dag(dag) for dag in answer.dags}


def answer_of(place: WorkerContext, path: Path) -> FileParsed:
    """What reading a file comes to."""
    file = FileToParse(path.parent, path.name, str(path))
    watch = Unattended(PARSE_TIMEOUT, too_long=TimeoutError)
    return parsed(place.forks(), place.airflow_forks_of(None), file, watch)


async def register(stack: Stack, specs: Iterable[DagSpec]) -> None:
    """Makes the DAGs known, none of them paused."""
    for spec in specs:
        await stack.tidemill.dags.register(spec.model_copy(update={"is_paused_upon_creation": False}))


@asynccontextmanager
async def stack_with(server: str, home: Path, file: Path) -> AsyncIterator[Stack]:
    """A worker that knows the DAGs of *file*."""
    place = airflow_place(home)
    async with stack(server, home, place=place) as made:
        await register(made, (await asyncio.to_thread(read_file, place, file)).values())
        yield made
