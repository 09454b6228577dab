"""Notices that a DAG file imports Airflow while it is read where Airflow is not: it is read anew where it is."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

AIRFLOW = "airflow"
INSTALL = (
    "this file imports Airflow, and there is none here. Install it beside tidemill: pip install 'tidemill[airflow]'; "
    "or name a Python that has both by TIDEMILL_AIRFLOW_PYTHON"
)


class NeedsAirflow(BaseException):
    """The file has begun to import Airflow. No file's own `except` is to stop it on its way."""


class _Finder(MetaPathFinder):
    def __init__(self, *, offered: bool) -> None:
        self._offered = offered

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - as Python calls it
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != AIRFLOW:
            return None
        if self._offered:
            raise NeedsAirflow
        raise ModuleNotFoundError(INSTALL, name=AIRFLOW)


@contextmanager
def noticing(*, offered: bool) -> Iterator[None]:
    """In the block, importing Airflow raises NeedsAirflow; ModuleNotFoundError where no process *offered* has it."""
    if AIRFLOW in sys.modules:  # this is such a process
        yield
        return
    finder = _Finder(offered=offered)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
