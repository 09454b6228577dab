"""Imports a DAG file. Only ever called in a child process: the file may do anything."""

import importlib.util
import sys
import zipimport
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ...model.authoring.dags import DAG, collect


@dataclass(frozen=True)
class Code:
    """An imported DAG file, and the DAGs that it has made."""

    path: Path
    dags: list[DAG]


def import_code(path: Path, roots: Iterable[Path]) -> Code:
    """Imports the DAG file at *path*. Whatever it raises passes through."""
    return Code(path, import_dags(path, [*roots]))


def import_dags(path: Path, roots: Iterable[Path] = ()) -> list[DAG]:
    """The DAGs that the file at *path* makes. Whatever the file raises passes through.

    Modules are looked up beside the file, then in *roots*. A file in a zip archive is
    `archive.zip/file.py`, as in Airflow.
    """
    for place in reversed([path.parent, *roots]):
        if str(place) in sys.path:
            sys.path.remove(str(place))
        sys.path.insert(0, str(place))
    return collect(lambda: _execute(path))


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
