"""A DAG file as Python code. It is only imported in a child process: the file may do anything."""

import importlib.util
import os
import sys
import zipimport
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ...model.authoring.dags import DAG, collect
from ...model.errors import InvalidInputError
from ...model.run.attempts import TaskAttempt


class HasId(Protocol):
    """A DAG, as tidemill's or as Airflow's."""

    dag_id: str


D = TypeVar("D", bound=HasId)


@dataclass(frozen=True)
class Code:
    """An imported DAG file, and the DAGs that it has made."""

    path: Path
    dags: list[DAG]
    airflow_dags: list[Any] = field(default_factory=list)
    """Those that are written for Airflow; only where Airflow is imported there are any."""
    notices: list[str] = field(default_factory=list)
    """What is said of the file as a whole."""


_roots: list[str] = []
"""Where the files that were imported here are from: a folder of DAG files, or a copy of one."""


def shown_path(path: str) -> str:
    """The file *path* as its author knows it: from the root of its bundle, wherever the copy is that was imported."""
    return next((path[len(root) :] for root in _roots if path.startswith(root)), path)


def dag_of(dags: Iterable[D], attempt: TaskAttempt) -> D:
    """The DAG of *attempt* among those that its file makes. Raises InvalidInputError if it is none of them."""
    for dag in dags:
        if dag.dag_id == attempt.run.dag_id:
            return dag
    raise InvalidInputError(
        f"DAG {attempt.run.dag_id!r} is no longer in {file_of(attempt)}. Put it back, or register the DAG again"
    )


def file_of(attempt: TaskAttempt) -> str:
    """The file that *attempt*'s DAG is written in, in words."""
    return attempt.source.path if attempt.source is not None else "its file"


def import_dags(path: Path, roots: Iterable[Path] = (), *, shortens: bool = True) -> list[DAG]:
    """The DAGs that the file at *path* makes. Whatever the file raises passes through.

    Modules are looked up beside the file, then in *roots*, and then where packages are installed; for files of
    Airflow's packages go first, as in Airflow. A file in a zip archive is `archive.zip/file.py`, as in Airflow.
    *shortens*: whether paths are shown from the roots, and not as they are here.
    """
    if any(part.name == "snapshots" for part in path.parents):  # what is kept stays as it was kept
        sys.dont_write_bytecode = True
    _roots[:] = [f"{root}{os.sep}" for root in roots] if shortens else []
    _look_in([path.parent, *roots], last="airflow.sdk" in sys.modules)
    return collect(lambda: _execute(path))


def _look_in(places: list[Path], *, last: bool) -> None:
    """Have modules looked up in *places*: before all others, or after them, roots first."""
    texts = list(dict.fromkeys(map(str, reversed(places) if last else places)))
    others = [place for place in sys.path if place not in texts]
    sys.path[:] = [*others, *texts] if last else [*texts, *others]


def module_name(path: Path) -> str:
    """What the file at *path* is called among the imported modules."""
    return f"tidemill_dag_file_{path.stem}"


def archive_of(path: Path) -> Path | None:
    """The zip archive that *path* is in; None for a plain file."""
    return path.parent if path.parent.suffix == ".zip" else None


def _execute(path: Path) -> None:
    name, archive = module_name(path), archive_of(path)
    if archive is not None:
        spec = zipimport.zipimporter(str(archive)).find_spec(path.stem)
    else:
        spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def digest_of(path: Path) -> str:
    """The hash of the file at *path*, or of the archive that it is in."""
    return sha256((archive_of(path) or path).read_bytes()).hexdigest()
