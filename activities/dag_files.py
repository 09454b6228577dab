"""Reads DAG files once, as a command or a program asks for them; bundles look after theirs by themselves."""

import json
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from ..model.errors import InvalidInputError
from ..model.run.attempts import TaskAttempt
from ..model.spec.dag import DagSpec, read_dag
from . import host
from .attempts.lifecycle import rendered
from .attempts.supervision import Unattended
from .bundles.listing import IGNORE_FILE, Tree
from .bundles.parsing import PARSE_TIMEOUT, FileToParse, parsed
from .worker_context import WorkerContext

ALL = ("*",)
MAX_AT_ONCE = 8
"""Files that are read at once at most: each has a process of its own."""
DAGS = "dags"
"""What the folder of DAG files is called as a rule."""


@dataclass(frozen=True)
class ParsedFile:
    """What came of reading one file: its DAGs, or why there are none."""

    path: Path
    dags: tuple[DagSpec, ...] = ()
    error: str | None = None
    notices: tuple[str, ...] = ()
    """What is written in it and changes nothing."""


def find_dag_files(path: Path) -> list[Path]:
    """The file *path*, or the DAG files of the folder *path* as a bundle would find them, in order."""
    if path.is_file():
        return [path.resolve()]
    root = path.resolve()
    tree = Tree(root)
    return [root / name for name in tree.dag_files() if tree.may_define_dags(name)]


def root_of(path: Path) -> Path:
    """Return the folder of DAG files that the file at *path* is in: modules are looked up there, as for a bundle.

    That which the settings name, else the nearest above that is called `dags`, else the uppermost that has a
    `.airflowignore` (folders below may have their own), else its own.
    """
    own = path.resolve().parent
    for name in ("TIDEMILL_DAGS_FOLDER", "AIRFLOW__CORE__DAGS_FOLDER"):
        if (named := os.environ.get(name)) and own.is_relative_to(Path(named).resolve()):
            return Path(named).resolve()
    above = (own, *own.parents)
    if (named_so := next((place for place in above if place.name == DAGS), None)) is not None:
        return named_so
    return next((place for place in reversed(above) if (place / IGNORE_FILE).is_file()), own)


def passed_over(path: Path) -> list[Path]:
    """The Python files of the folder *path* that are not read, as they do not speak of DAGs."""
    if path.is_file():
        return []
    root = path.resolve()
    tree = Tree(root)
    return [root / name for name in tree.dag_files() if not tree.may_define_dags(name)]


def each_dag_file(
    path: Path,
    *,
    paused_at_creation: bool = False,
    airflow_python: str | None = None,
    environment: tuple[str, ...] = ALL,
) -> Iterator[ParsedFile]:
    """Yield the DAGs at *path*: a DAG file, a folder of them, or one DAG as .json. Errors are those of their files.

    In the order of their paths, each as soon as it is known: as many are read at once as there are processors.
    *airflow_python* reads those that import Airflow; None: this Python, if it has Airflow. *environment*: patterns of
    the caller's variables that files find, beside the usual ones.
    """
    root = path.resolve() if path.is_dir() else root_of(path)
    with own_worker_context(
        paused_at_creation=paused_at_creation, airflow_python=airflow_python, environment=environment
    ) as worker_context:

        def read(file: Path) -> ParsedFile:
            return _read_json(file) if file.suffix == ".json" else _parse(worker_context, root, file)

        with ThreadPoolExecutor(min(MAX_AT_ONCE, max(1, round(host.cores())))) as threads:
            yield from threads.map(read, find_dag_files(path))


def parse_dag_file(path: Path, timeout: timedelta = PARSE_TIMEOUT) -> ParsedFile:
    """The DAGs of the file at *path*. Never raises for what the file does: that is its error."""
    with own_worker_context() as worker_context:
        return _parse(worker_context, root_of(path), path.resolve(), timeout)


@contextmanager
def own_worker_context(
    *,
    paused_at_creation: bool = False,
    results_url: str | None = None,
    airflow_python: str | None = None,
    environment: tuple[str, ...] = ALL,
) -> Iterator[WorkerContext]:
    """The context of a worker that is none, as long as the block. Its children find what *environment* names."""
    with tempfile.TemporaryDirectory() as home:
        worker_context = WorkerContext(
            home=Path(home),
            environment=environment,
            dags_are_paused_at_creation=paused_at_creation,
            xcom_url=results_url,
            airflow_python=airflow_python,
        )
        try:
            yield worker_context
        finally:
            worker_context.close()


def _parse(worker_context: WorkerContext, root: Path, path: Path, timeout: timedelta = PARSE_TIMEOUT) -> ParsedFile:
    name = path.relative_to(root).as_posix()
    paused = worker_context.dags_are_paused_at_creation
    kept = worker_context.key_values
    file = FileToParse(root, name, str(path), timeout, paused_at_creation=paused, key_values=kept)
    supervisor = Unattended(timeout, too_long=TimeoutError)
    answer = parsed(worker_context.forks(), worker_context.airflow_forks_of(None), file, supervisor)
    if answer.error is not None:
        return ParsedFile(path, error=answer.error)
    dags = (read_dag(dag) for dag in answer.dags)
    return ParsedFile(path, tuple(_found_from(root, dag) for dag in dags), notices=answer.notices)


def _found_from(root: Path, dag: DagSpec) -> DagSpec:
    """*dag*, whose tasks look up modules in *root* as well as beside their file."""
    if dag.source is None or Path(dag.source.path).parent == root:
        return dag
    return dag.model_copy(update={"source": dag.source.model_copy(update={"root": str(root)})})


def _read_json(path: Path) -> ParsedFile:
    try:
        return ParsedFile(path, dags=(read_dag(json.loads(path.read_text())),))
    except (InvalidInputError, json.JSONDecodeError) as error:
        return ParsedFile(path, error=str(error))


def rendered_locally(attempt: TaskAttempt, results_url: str | None = None) -> list[Any]:
    """The templated values of the attempt's task, filled in. Raises ApplicationError where that cannot be done.

    *results_url* is where the worker keeps results, and the code of DAGs.
    """
    with own_worker_context(results_url=results_url) as worker_context:
        values = list(attempt.task.templated())
        supervisor = Unattended(None)
        return list(rendered(worker_context, attempt, values, for_history=False, supervisor=supervisor))
