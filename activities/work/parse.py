"""Imports one DAG file and tells of the DAGs that it makes. Runs in a child of its own, one for each parse."""

from __future__ import annotations

import os
import re
import resource
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...model.authoring.dags import DAG, paused_at_creation
from ...model.errors import InvalidInputError, NotAllowedError
from ...model.json_values import no_json_number
from ...model.spec.dag import DagSource, DagSpec
from ..processes.answers import FileParsed
from .airflow_detection import NeedsAirflow, noticing
from .dag_code import Code, digest_of, shown_path
from .dag_import import import_code
from .dynamic_start_dates import moving_start_dates
from .failures import describe_failure, place_of
from .outside import OpenedOutside, leaves_its_folder
from .spark_notices import spark_notices
from .templates import check, settings_of

if TYPE_CHECKING:
    from .job import Job

TASK = re.compile(r"task '([\w.\-]+)'")
"""How messages name a task."""
LARGEST_FILE = 256 * 1024 * 1024


def parse(path: Path, lasting: str, roots: tuple[Path, ...], *, airflow_is_offered: bool = False) -> FileParsed:
    """The file's DAGs as JSON, or what is wrong with it; *lasting* is the path that the DAGs know it by.

    Or that it has to be read where Airflow is imported, if that is offered.
    """
    try:
        source = DagSource(path=lasting, sha256=digest_of(path), imports_airflow="airflow.sdk" in sys.modules)
        with noticing(offered=airflow_is_offered):
            code = import_code(path, roots)
        notices = list(dict.fromkeys([*code.notices, *(notice for dag in code.dags for notice in dag.notices)]))
        notices += moving_start_dates(path) if code.dags or code.airflow_dags else []
        specs = [_spec(dag, source) for dag in code.dags]
        notices += [notice for spec in specs for notice in spark_notices(spec, path)]
        dags = [_as_json(spec) for spec in specs]
        theirs, of_theirs = _of_airflow(code, source)
        return FileParsed(dags=(*dags, *theirs), notices=(*notices, *of_theirs))
    except NeedsAirflow:
        return FileParsed(needs_airflow=True)
    except InvalidInputError as error:
        place = place_of(error)
        message = str(error) + (f"\n  at {place}" if place is not None else "")
        return FileParsed(error=message, not_allowed=isinstance(error, NotAllowedError))
    except BaseException as error:
        failure = describe_failure(error)
        where = "".join(f"\n  {line}" for line in failure.traceback[-5:])
        message = f"{failure.error_type}: {failure.message}{where}"
        return FileParsed(error=message, lacks_a_module=isinstance(error, ImportError))


def _as_json(spec: DagSpec) -> dict[str, Any]:
    """The DAG as it travels. Raises InvalidInputError for a number in it that would be lost on the way."""
    dag = spec.model_dump(mode="json")
    if (found := no_json_number(dag)) is not None:
        raise InvalidInputError(f"DAG {spec.dag_id!r}: {found.removeprefix('.')} is no number that JSON has")
    return dag


def _of_airflow(code: Code, source: DagSource) -> tuple[list[dict[str, Any]], list[str]]:
    """The DAGs of the file that are written for Airflow, and what is to be said of them."""
    dags: list[dict[str, Any]] = []
    notices: list[str] = []
    if code.airflow_dags:
        from .airflow.dag_conversion import spec_of

        for dag in code.airflow_dags:
            spec, of_dag = spec_of(dag, source, paused_at_creation=paused_at_creation.get())
            dags.append(_as_json(spec))
            notices += [*of_dag, *spark_notices(spec, code.path)]
    return dags, notices


def _spec(dag: DAG, source: DagSource) -> DagSpec:
    """The DAG as data. Raises InvalidInputError with the lines of the tasks that are named in it."""
    try:
        spec = dag.spec(source=source)
        check_templates(spec, dag)
    except InvalidInputError as error:
        named = [task_id for task_id in dict.fromkeys(TASK.findall(str(error))) if task_id in dag.tasks]
        places = [f"\n  task {task_id!r} is at {shown_path(dag.tasks[task_id].defined_at)}" for task_id in named[:5]]
        kind = NotAllowedError if isinstance(error, NotAllowedError) else InvalidInputError
        raise kind("".join([str(error), *places])) from None
    return spec


def check_templates(spec: DagSpec, dag: DAG) -> None:
    """Raises InvalidInputError for a template that could never be filled in, or a template file that is nowhere."""
    problems = []
    usual = settings_of(spec.tasks[0].template_ext, dag) if spec.tasks else None
    for task in spec.tasks:
        assert usual is not None  # noqa: S101
        own = getattr(dag.tasks[task.task_id].function, "template_ext", None)
        extensions = task.template_ext if own is None else tuple(own)
        try:
            check(task.templated(), replace(usual, extensions=extensions or getattr(task, "templates_exts", ())))
        except InvalidInputError as error:
            problems.append(f"DAG {spec.dag_id!r}: task {task.task_id!r}: {error}")
    if problems:
        raise InvalidInputError("\n".join(problems))


def reads_outside(path: Path, name: str, opened: OpenedOutside) -> str | None:
    """Return what is to be said of a file that reads what is above its folder; None for one that does not."""
    if opened.names:
        what = f"reads {', '.join(opened.names)} beside its folder"
    elif path.is_file() and leaves_its_folder(path.read_text(errors="replace"), name.count("/")):
        what = "works out paths above its folder from __file__"
    else:
        return None
    return (
        f"{name} {what}: its tasks run the file where it lies, as it is then, and no copy that was kept with a version"
    )


def run(job: Job) -> FileParsed:
    """Parses in this process, which has to be a throw-away one: it is limited from now on.

    Beside the DAGs, tells which files of the bundle were read or imported.
    """
    request = job.request
    memory = request["memory_mb"] * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    root = Path(request["root"])
    opened: set[str] = set()
    prefix, outside = f"{root}{os.sep}", OpenedOutside(root)

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str):
            path = os.path.abspath(arguments[0])  # noqa: PTH100 - called for every file that is opened
            if path.startswith(prefix):
                opened.add(path)
            else:
                outside.hear(path)

    sys.addaudithook(hear)
    path = root / request["name"]
    paused_at_creation.set(request.get("paused_at_creation", False))
    result = parse(path, request["lasting"], (root,), airflow_is_offered=request.get("airflow_is_offered", False))
    if (notice := reads_outside(path, request["name"], outside)) is not None:
        result = result.model_copy(update={"outside": notice, "notices": (*result.notices, notice)})
    modules = [getattr(module, "__file__", None) for module in [*sys.modules.values()]]
    files = opened | {file for file in modules if isinstance(file, str) and file.startswith(prefix)}
    # Also those that are not there: what misses them is parsed again when they come.
    read = sorted(
        os.path.relpath(file, root) for file in files if "__pycache__" not in file and not Path(file).is_dir()
    )
    return result.model_copy(update={"files": tuple(read)})
