"""Imports a DAG file that may be written for Airflow. Only ever called in a child process: the file may do anything."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .dag_code import Code, import_dags, module_name


def import_code(path: Path, roots: Iterable[Path], *, shortens: bool = True) -> Code:
    """Imports the DAG file at *path*. Whatever it raises passes through. *shortens*: as `import_dags` has it."""
    if "airflow.sdk" not in sys.modules:
        return Code(path, import_dags(path, [*roots], shortens=shortens))
    from .airflow.dag_conversion import FoundDags

    found = FoundDags(module_name(path))
    with answering_imports():
        return Code(path, import_dags(path, [*roots], shortens=shortens), found.all(), found.notices)


@contextmanager
def answering_imports() -> Iterator[None]:
    """Has a file's variables and connections answered that it asks for at its top, unless somebody does already."""
    from airflow.sdk.execution_time import task_runner

    if hasattr(task_runner, "SUPERVISOR_COMMS"):
        yield
        return
    from .airflow.answers.importing import answer_of_file
    from .airflow.supervisor_socket import answered

    with answered(answer_of_file):
        yield
