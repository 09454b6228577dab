"""What is to be said of the Spark tasks of a DAG file before any of them runs."""

import re
from collections.abc import Iterator
from pathlib import Path

from ...model.spec.dag import DagSpec
from ...model.spec.tasks import SparkWork
from .dag_code import archive_of

SOMEWHERE = frozenset({"driver_class_path", "conf"})
"""What names files of the driver's host, too."""
_IS_NO_NAME = re.compile(r"[{}*?\[]|^[a-zA-Z][\w+.-]*:|^/")
"""A template, a pattern or a URL; a whole path may be there on the hosts of Spark alone."""


def spark_notices(spec: DagSpec, path: Path) -> Iterator[str]:
    """Find what is to be said of the Spark tasks of a DAG of the file *path*."""
    folder = (archive_of(path) or path).parent
    for task in (task for task in spec.tasks if isinstance(task, SparkWork)):
        where = f"DAG {spec.dag_id!r}, task {task.task_id!r}"
        if (kind := task.spark.untried) is not None:
            yield (
                f"{where}: master = {task.spark.master!r}: tidemill's tests have had no {kind}, only its commands and "
                "answers. Try the task there before you rely on it (docs/spark.md)"
            )
        for field, name in missing_files(task, [folder, *(folder / path for path in spec.template_searchpath)]):
            yield f"{where}: {field}: {name!r} is not in {folder}. Put it there, or correct the path"


def missing_files(task: SparkWork, folders: list[Path]) -> Iterator[tuple[str, str]]:
    """Find the fields of *task* that name files which are in none of *folders*."""
    for field, names in task.named_files().items():
        for name in names:
            is_sure = field not in SOMEWHERE and not _IS_NO_NAME.search(name)
            if is_sure and not any(_may_be_there(folder / name) for folder in folders):
                yield field, name


def _may_be_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # whoever runs the task may see more than who reads its file
        return True
