"""Imports a DAG file. Only ever called in a child process: the file may do anything."""

import importlib.util
import sys
from hashlib import sha256
from pathlib import Path

from ..model.authoring.dags import DAG, collect
from ..model.dag import DagSource


def import_dags(path: Path) -> list[DAG]:
    """The DAGs that the file at *path* makes. Whatever the file raises passes through."""
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return collect(lambda: _execute(path))


def module_name(path: Path) -> str:
    """What the file at *path* is called among the imported modules."""
    return f"tidemill_dag_file_{path.stem}"


def _execute(path: Path) -> None:
    name = module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def source_of(path: Path) -> DagSource:
    return DagSource(path=str(path), sha256=sha256(path.read_bytes()).hexdigest())
