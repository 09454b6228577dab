"""Checks DAG files without a server, as for a CI job: each by itself, then all of them together."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ..activities.bundles.listing import Tree
from ..activities.dag_files import parse_dag_file
from ..model.base import Model
from ..model.dag import read_dag
from ..model.errors import InvalidInputError
from .porting import Port, ports_of


class FoundDag(Model):
    """A DAG that can be registered."""

    dag_id: str
    version: str
    path: str


class FileError(Model):
    """What is wrong with a file."""

    path: str
    error: str


class FilePort(Model):
    """A name of Airflow's in a file."""

    path: str
    port: Port


class Validation(Model):
    """What came of checking files."""

    dags: tuple[FoundDag, ...] = ()
    errors: tuple[FileError, ...] = ()
    ports: tuple[FilePort, ...] = ()


def check_path(path: Path) -> Validation:
    """Checks the file at *path*, or the DAG files of the folder, as a bundle would find them."""
    if path.suffix == ".json":
        return _check_json(path)
    files = [path.resolve()] if path.is_file() else [path.resolve() / name for name in Tree(path.resolve()).dag_files()]
    dags: list[FoundDag] = []
    errors: list[FileError] = []
    for file in files:
        parsed = parse_dag_file(file)
        if parsed.error is not None:
            errors.append(FileError(path=str(file), error=parsed.error))
        dags += [FoundDag(dag_id=spec.dag_id, version=spec.version, path=str(file)) for spec in parsed.dags]
    ports = tuple(FilePort(path=str(file), port=port) for file in files for port in ports_of(file))
    return Validation(dags=tuple(dags), errors=(*errors, *_twice(dags)), ports=ports)


def _twice(dags: list[FoundDag]) -> Iterator[FileError]:
    counts = Counter(dag.dag_id for dag in dags)
    for dag_id in (dag_id for dag_id, count in counts.items() if count > 1):
        paths = [dag.path for dag in dags if dag.dag_id == dag_id]
        told = f"dag_id {dag_id!r} is defined by {' and by '.join(paths)}. Rename or remove one of them"
        yield FileError(path=paths[-1], error=told)


def _check_json(path: Path) -> Validation:
    try:
        spec = read_dag(json.loads(path.read_text()))
    except (InvalidInputError, json.JSONDecodeError) as error:
        return Validation(errors=(FileError(path=str(path), error=str(error)),))
    return Validation(dags=(FoundDag(dag_id=spec.dag_id, version=spec.version, path=str(path)),))
