"""Checks DAG files without a server, as for a CI job: each by itself, then all of them together."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ...activities.dag_files import ALL, each_dag_file, passed_over
from ...model.base import Model
from .porting import Port, ports_of

NO_DAG = "makes no DAG. A function with @dag makes one when it is called: add that call below it"

NOT_READ = "is not read, as it does not have 'dag' and 'airflow' or 'tidemill' in it. Check it by its own path"


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


class FileNotice(Model):
    """Something in a file that changes nothing here."""

    path: str
    notice: str


class Validation(Model):
    """What came of checking files."""

    dags: tuple[FoundDag, ...] = ()
    errors: tuple[FileError, ...] = ()
    ports: tuple[FilePort, ...] = ()
    notices: tuple[FileNotice, ...] = ()


def check_path(path: Path, airflow_python: str | None = None, environment: tuple[str, ...] = ALL) -> Validation:
    """Checks the file at *path*, or the DAG files of the folder, as a bundle would find them.

    *airflow_python* reads those that import Airflow; None: this Python, if it has Airflow. *environment*: patterns of
    variables that a worker would pass on, beside the usual ones.
    """
    files = list(each_dag_file(path, airflow_python=airflow_python, environment=environment))
    dags = [FoundDag(dag_id=s.dag_id, version=s.version, path=str(file.path)) for file in files for s in file.dags]
    errors = [FileError(path=str(file.path), error=file.error) for file in files if file.error is not None]
    unread = [file.path for file in files if file.error is not None]
    ports = tuple(FilePort(path=str(path), port=port) for path in unread for port in ports_of(path))
    notices = [FileNotice(path=str(file.path), notice=NO_DAG) for file in files if not (file.dags or file.error)]
    notices += (FileNotice(path=str(file.path), notice=notice) for file in files for notice in file.notices)
    notices += (FileNotice(path=str(file), notice=NOT_READ) for file in passed_over(path))
    return Validation(dags=tuple(dags), errors=(*errors, *_twice(dags)), ports=ports, notices=tuple(notices))


def _twice(dags: list[FoundDag]) -> Iterator[FileError]:
    counts = Counter(dag.dag_id for dag in dags)
    for dag_id in (dag_id for dag_id, count in counts.items() if count > 1):
        paths = [dag.path for dag in dags if dag.dag_id == dag_id]
        message = f"dag_id {dag_id!r} is defined by {' and by '.join(paths)}. Rename or remove one of them"
        yield FileError(path=paths[-1], error=message)
