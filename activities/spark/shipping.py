"""What a driver in a container of its own needs, as one archive: nothing of the worker's disk is there."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from ...model.spec.tasks import PySparkTask, SparkSubmitTask
from ..processes.users import acting_as
from .driver import FIGURES, TABLES
from .place import invalid, path_of_script, spark_task
from .starts import SparkStart

LARGEST_FILE = 50_000_000
"""In bytes, before it is zipped."""
ARCHIVE = "attempt.zip"
"""What the driver's side finds it as."""
APPLICATION, CODE = "application", "code"
FIXED = (1980, 1, 1, 0, 0, 0)
"""When every file is from, so that equal archives have equal bytes."""


def is_shipped(start: SparkStart) -> bool:
    """Return whether the application is a file of the worker's, and not one of the image (`local:`)."""
    return isinstance(start.attempt.task, SparkSubmitTask) and not str(start.filled["application"]).startswith("local:")


def archive(start: SparkStart, largest: int, **more: Any) -> bytes:
    """Return the attempt's plan, with *more*, and its code, zipped. Fails the task if it has over *largest* bytes."""
    plan = start.plan(ships=start.attempt.uuid.hex, folder=start.driver_folder, **more)
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as made:
        if isinstance(start.attempt.task, PySparkTask):
            plan["function"] = _add_code(made, start)
        elif is_shipped(start):
            with acting_as(start.folder.user):
                place = start.file(path_of_script(start.filled["application"]))
                _add(made, f"{APPLICATION}/{place.name}", _bytes_of(place))
        side = spark_task(start.attempt).driver_side
        for name in (FIGURES, *([TABLES] if start.staged_table is not None else []), *([side] if side else [])):
            _add(made, name, Path(__file__).with_name(name).read_bytes())
        _add(made, "attempt.json", start.attempt.model_dump_json().encode())
        _add(made, "plan.json", json.dumps(plan).encode())
    found = kept.getvalue()
    if len(found) > largest:
        message = (
            f"what the driver needs has {len(found):,} bytes zipped, and {largest:,} can be sent to its cluster. "
            "Put the code where the driver runs, and name it local:///path/there.py"
        )
        raise invalid(message)
    return found


def application_there(start: SparkStart) -> list[str]:
    """Return what the driver's side is given after its archive: the application as it finds it, and its arguments."""
    if not isinstance(start.attempt.task, SparkSubmitTask):
        return []
    name = path_of_script(str(start.filled["application"]))
    if is_shipped(start):
        name = f"{start.driver_folder}/{APPLICATION}/{start.file(name).name}"
    return [name, *(str(argument) for argument in start.filled["application_args"])]


def _add_code(made: zipfile.ZipFile, start: SparkStart) -> dict[str, Any]:
    """Add the DAG file with all that was kept with it; return where the driver finds it."""
    place = start.worker_context.code_of(start.attempt)
    root = place.roots[0] if place.roots else place.path.parent
    with acting_as(start.folder.user):
        inside = place.path.is_relative_to(root)
        files = [path for path in sorted(root.rglob("*")) if path.is_file()] if inside else [place.path]
        for path in files:
            if "__pycache__" not in path.parts:
                _add(made, f"{CODE}/{path.relative_to(root) if inside else path.name}", _bytes_of(path))
    name = place.path.relative_to(root) if inside else place.path.name
    return {"path": f"{start.driver_folder}/{CODE}/{name}", "roots": [f"{start.driver_folder}/{CODE}"]}


def _bytes_of(place: Path) -> bytes:
    try:
        if place.stat().st_size > LARGEST_FILE:
            raise invalid(f"{place.name} is too large to be sent to a cluster. Put it where the driver runs")
        return place.read_bytes()
    except OSError as error:
        raise invalid(
            f"{place} cannot be read: {error.strerror}. Put it beside the DAG file, or where the driver runs"
        ) from None


def _add(made: zipfile.ZipFile, name: str, content: bytes) -> None:
    made.writestr(zipfile.ZipInfo(name, FIXED), content, zipfile.ZIP_DEFLATED)
