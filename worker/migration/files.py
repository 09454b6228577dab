"""What each DAG file of an Airflow needs to be run here."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path

from pydantic import Field

from ...activities.dag_files import ALL, ParsedFile, each_dag_file, passed_over
from ...model.base import Model

PLUGINS = "plugins"
"""Airflow's folder of plugins, beside that of its DAG files."""
MISSING = re.compile(r"No module named '([\w.]+)'")
PROVIDER = "airflow.providers."
GONE = {
    "airflow.operators.dummy": "airflow.providers.standard.operators.empty.EmptyOperator",
    "airflow.operators.dummy_operator": "airflow.providers.standard.operators.empty.EmptyOperator",
    "airflow.operators.bash_operator": "airflow.providers.standard.operators.bash.BashOperator",
    "airflow.operators.python_operator": "airflow.providers.standard.operators.python.PythonOperator",
    "airflow.operators.subdag": "airflow.sdk.TaskGroup",
    "airflow.utils.dates": "pendulum, such as pendulum.today('UTC').add(days=-1)",
    "airflow.utils.weekday": "airflow.providers.standard.utils.weekday",
    "airflow.utils.helpers": "airflow.sdk, which has chain and cross_downstream",
    "airflow.datasets": "airflow.sdk.Asset",
    "airflow.timetables.datasets": "airflow.timetables.assets",
    "airflow.hooks.base_hook": "airflow.sdk.BaseHook",
    "airflow.contrib": "it from the provider that has taken it over (`ruff check --select AIR3` names it)",
    "airflow.lineage.entities": "airflow.sdk.Asset",
}
"""What Airflow itself has no more since its release 3, and where it is now."""


ADVICE = (
    (
        re.compile(r"unexpected keyword argument '(schedule_interval|timetable)'"),
        "{0}= is gone since Airflow 3: write schedule=...",
    ),
    (
        re.compile(
            r"unexpected keyword argument '(sla_miss_callback|sla|provide_context|concurrency|task_concurrency)'"
        ),
        "{0}= is gone since Airflow 3: leave it out, or see its upgrade guide for what has taken its place",
    ),
    (
        re.compile(r"VARIABLE_NOT_FOUND.*?Variable (\S+) not found", re.DOTALL),
        "a variable: `tidemill migrate import` brings it, or set AIRFLOW_VAR_... for {0!r}, its name in capitals",
    ),
    (re.compile(r"variable '([^']+)' is not set", re.IGNORECASE), "a variable: `tidemill migrate import` brings {0!r}"),
    (
        re.compile(r"(?:CONNECTION_NOT_FOUND.*?'conn_id': '|[Cc]onn_id `|connection ')([^'`]+)['`]", re.DOTALL),
        "a connection: `tidemill migrate import` brings it, or set AIRFLOW_CONN_... for {0!r}, its name in capitals",
    ),
    (
        re.compile(r"Add it: (TIDEMILL_TASK_ENVIRONMENT=.*)"),
        "a variable of the environment: {0}",
    ),
)
"""What of errors that are no missing modules has a remedy."""


class Verdict(StrEnum):
    """Whether a file can be run as it is."""

    RUNS = "runs as is"
    NO_DAG = "no DAG in it"
    NOT_READ = "not read"
    NEEDS = "needs something"
    CANNOT = "cannot be read"


class CheckedFile(Model):
    """What came of one file."""

    path: str
    verdict: Verdict
    dags: tuple[str, ...] = ()
    written_for: str | None = None
    notices: tuple[str, ...] = Field((), alias="told")
    """What is needed, or what changes nothing here; with the line where there is one."""
    needs: int = 0
    """How many of them, from the first, say what is needed."""


def check_files(folder: Path, airflow_python: str | None, environment: tuple[str, ...] = ALL) -> Iterator[CheckedFile]:
    """Read every DAG file of *folder*, as a worker would; yield each as soon as it is read.

    Then those that a worker would pass over, and what plugins beside the folder import that Airflow has no more.
    """
    for file in each_dag_file(folder, airflow_python=airflow_python, environment=environment):
        yield _checked(file, folder)
    root = folder.resolve()
    for path in passed_over(folder):
        yield CheckedFile(path=path.relative_to(root).as_posix(), verdict=Verdict.NOT_READ)
    for path in sorted((root.parent / PLUGINS).rglob("*.py")) if folder.is_dir() else ():
        if gone := tuple(gone_imports(path)):
            name = f"../{path.relative_to(root.parent)}"
            yield CheckedFile(path=name, verdict=Verdict.NEEDS, notices=gone, needs=len(gone))


def causes(files: Iterable[CheckedFile]) -> list[tuple[str, int]]:
    """Return what files need, with how many of them: what most need comes first."""
    needs = (need for file in files if file.verdict is Verdict.NEEDS for need in {*file.notices[: file.needs]})
    return Counter(needs).most_common()


def gone_imports(path: Path) -> Iterator[str]:
    """Yield what the file at *path* imports that Airflow has no more, and where that is now, by reading it alone."""
    try:
        tree = ast.parse(path.read_text(errors="replace"))
    except (OSError, SyntaxError, ValueError, RecursionError):  # that it cannot be read is said where it is run
        return
    names = [
        name
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and not node.level
            else []
        )
    ]
    yield from (need for name in dict.fromkeys(names) if (need := _moved(name)) is not None)


def _checked(file: ParsedFile, folder: Path) -> CheckedFile:
    path = file.path.relative_to(folder.resolve()).as_posix() if folder.is_dir() else file.path.name
    if file.error is not None:
        # An import ends at the first that is not there: all the others are met by reading.
        needs = tuple(dict.fromkeys(need for need in (_need(file.error), *gone_imports(file.path)) if need is not None))
        verdict = Verdict.NEEDS if needs else Verdict.CANNOT
        return CheckedFile(path=path, verdict=verdict, notices=(*needs, file.error), needs=len(needs))
    return CheckedFile(
        path=path,
        verdict=Verdict.RUNS if file.dags else Verdict.NO_DAG,
        dags=tuple(spec.dag_id for spec in file.dags),
        written_for=next((spec.written_for for spec in file.dags), None),
        notices=file.notices,
    )


def _moved(module: str) -> str | None:
    """Where something of *module* is now, if Airflow has no such module any more."""
    now = next((now for gone, now in GONE.items() if module == gone or module.startswith(f"{gone}.")), None)
    return None if now is None else f"Airflow 3 has no {module}: import {now}"


def _need(error: str) -> str | None:
    """What would mend *error*, if that can be told from it."""
    if (found := MISSING.search(error)) is None:
        return next(
            (advice.format(*match.groups()) for pattern, advice in ADVICE if (match := pattern.search(error))), None
        )
    module = found[1]
    if (moved := _moved(module)) is not None:
        return moved
    if module.startswith(PROVIDER):
        name = module.removeprefix(PROVIDER).split(".hooks")[0].split(".operators")[0].split(".sensors")[0]
        return f"a provider: pip install apache-airflow-providers-{name.split('.')[0]} (or a longer name of it: {name})"
    if module.startswith("airflow."):
        return f"Airflow 3 has no {module}: see its upgrade guide"
    return f"a package: the module {module}"
