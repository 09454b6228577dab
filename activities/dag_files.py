"""Reads DAG files once, as a command or a program asks for them; bundles look after theirs by themselves."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from ..model.errors import InvalidInputError
from ..model.run.attempts import TaskAttempt
from ..model.spec.dag import DagSpec, read_dag
from .attempts.lifecycle import rendered
from .attempts.supervision import Unattended
from .bundles.listing import IGNORE_FILE, Tree
from .bundles.parsing import PARSE_TIMEOUT, FileToParse, parsed
from .worker_context import WorkerContext

ALL = ("*",)
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


def read_dag_files(
    path: Path,
    *,
    paused_at_creation: bool = False,
    airflow_python: str | None = None,
    environment: tuple[str, ...] = ALL,
) -> list[ParsedFile]:
    """The DAGs at *path*: a DAG file, a folder of them, or one DAG as .json. Errors are those of their files.

    *airflow_python* reads those that import Airflow; None: this Python, if it has Airflow. *environment*: patterns of
    the caller's variables that files find, beside the usual ones.
    """
    root = path.resolve() if path.is_dir() else root_of(path)
    with own_workplace(
        paused_at_creation=paused_at_creation, airflow_python=airflow_python, environment=environment
    ) as workplace:
        return [
            _read_json(file) if file.suffix == ".json" else _parse(workplace, root, file)
            for file in find_dag_files(path)
        ]


def parse_dag_file(path: Path, timeout: timedelta = PARSE_TIMEOUT) -> ParsedFile:
    """The DAGs of the file at *path*. Never raises for what the file does: that is its error."""
    with own_workplace() as workplace:
        return _parse(workplace, root_of(path), path.resolve(), timeout)


@contextmanager
def own_workplace(
    *,
    paused_at_creation: bool = False,
    results_url: str | None = None,
    airflow_python: str | None = None,
    environment: tuple[str, ...] = ALL,
) -> Iterator[WorkerContext]:
    """A workplace without a worker, as long as the block. Its children find what *environment* has of the caller's."""
    with tempfile.TemporaryDirectory() as home:
        workplace = WorkerContext(
            home=Path(home),
            environment=environment,
            dags_are_paused_at_creation=paused_at_creation,
            xcom_url=results_url,
            airflow_python=airflow_python,
        )
        try:
            yield workplace
        finally:
            workplace.close()


def _parse(workplace: WorkerContext, root: Path, path: Path, timeout: timedelta = PARSE_TIMEOUT) -> ParsedFile:
    name = path.relative_to(root).as_posix()
    paused = workplace.dags_are_paused_at_creation
    kept = workplace.key_values
    file = FileToParse(root, name, str(path), timeout, paused_at_creation=paused, key_values=kept)
    watch = Unattended(timeout, too_long=TimeoutError)
    answer = parsed(workplace.forks(), workplace.airflow_forks_of(None), file, watch)
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
    with own_workplace(results_url=results_url) as workplace:
        values = list(attempt.task.templated())
        watch = Unattended(None)
        return list(rendered(workplace, attempt, values, for_history=False, watch=watch))
