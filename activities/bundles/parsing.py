"""Parses one DAG file in a fork of a warm process, limited in time and memory: what it does hurts only itself."""

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from ...model.spec.owned import OwnedNames
from ..attempts.key_values import KeyValues
from ..attempts.last_words import LastWords
from ..attempts.lifecycle import ChildListener
from ..attempts.outcomes import describe_exit
from ..attempts.supervision import AttemptSupervisor, infrastructure_error
from ..processes.answers import FileParsed
from ..processes.call import ServerGone
from ..processes.forks import Forks, ImportFailed
from ..secrets import new_masker

LACKS_VARIABLE = re.compile(r"KeyError: '?([A-Za-z_]\w*)'?")
PARSE_TIMEOUT = timedelta(seconds=50)  # Airflow's dag_file_processor_timeout
MEMORY_MB = 2048


@dataclass(frozen=True)
class FileToParse:
    """A file *name* below *root*, the path that its DAGs shall know it by, and its limits."""

    root: Path
    name: str
    lasting: str
    timeout: timedelta = PARSE_TIMEOUT
    memory_mb: int = MEMORY_MB
    paused_at_creation: bool = False
    """What holds for DAGs that say nothing of it."""
    airflow_is_offered: bool = False
    """Whether it can be read elsewhere if it imports Airflow."""
    key_values: KeyValues | None = None
    """Where variables are that tasks have set: they are read at the top of files, too."""
    owns: OwnedNames | None = None
    """What the file may look up."""
    refused: Callable[[str, str], None] | None = None
    """Keeps what the file is refused: an operation, and why."""


def parsed(forks: Forks, airflow_forks: Forks | None, file: FileToParse, supervisor: AttemptSupervisor) -> FileParsed:
    """The file's DAGs as JSON or its error, and which files below the root it read, as far as that is known.

    A file that imports Airflow is read below *airflow*, if there is one.

    *supervisor* raises TimeoutError when the file has had its time. Raises what makes Temporal ask again
    if the trouble is not the file's.
    """
    if not file.root.is_dir():
        raise infrastructure_error(f"{file.root} is not there on this worker")
    answer = _parsed(forks, file, supervisor, airflow_is_offered=airflow_forks is not None)
    if airflow_forks is not None:
        if answer.needs_airflow:
            answer = _parsed(airflow_forks, file, supervisor)
        elif answer.lacks_a_module:  # there may be other packages where Airflow is
            there = _parsed(airflow_forks, file, supervisor)
            answer = there if there.error is None or speaks_of_airflow(file) else answer
    return advised(answer)


def speaks_of_airflow(file: FileToParse) -> bool:
    """Return whether the text of the file names Airflow: it would have come to that, had it come so far."""
    try:
        return b"airflow" in (file.root / file.name).read_bytes()
    except OSError:  # one in an archive, say
        return True


def advised(answer: FileParsed) -> FileParsed:
    """Return *answer* with the remedy where the file lacks a variable of the environment that this process has."""
    missing = LACKS_VARIABLE.match(answer.error or "")
    if missing is None or missing[1] not in os.environ:
        return answer
    setting = f"TIDEMILL_TASK_ENVIRONMENT='[\"{missing[1]}\"]'"
    remedy = f"this process has {missing[1]}, and passes it on to no DAG file. Add it: {setting}"
    return answer.model_copy(update={"error": f"{answer.error}\n  {remedy}"})


def _parsed(
    forks: Forks, file: FileToParse, supervisor: AttemptSupervisor, *, airflow_is_offered: bool = False
) -> FileParsed:
    file = replace(file, airflow_is_offered=airflow_is_offered)
    try:
        return _ask(forks, file, supervisor, "files")
    except ServerGone:
        pass  # perhaps another file has ended it, perhaps this one
    try:
        return _ask(forks, file, supervisor, f"file {file.name}")
    except ServerGone:
        return FileParsed(error="importing the file ends the process that imports it, and the one above that")


def _ask(forks: Forks, file: FileToParse, supervisor: AttemptSupervisor, separate: str) -> FileParsed:
    request: dict[str, Any] = {
        "root": str(file.root),
        "name": file.name,
        "lasting": file.lasting,
        "memory_mb": file.memory_mb,
        "paused_at_creation": file.paused_at_creation,
        "airflow_is_offered": file.airflow_is_offered,
    }
    listener = ChildListener(None, new_masker(), key_values=file.key_values, owns=file.owns, refused=file.refused)
    printed = LastWords(listener)
    supervisor.restart()
    try:
        with tempfile.TemporaryDirectory() as folder:
            request |= {"folder": folder}
            end = forks.call("parse", request, listener=printed, checks=supervisor, separate=separate)
    except ImportFailed as error:
        raise infrastructure_error(
            f"the process that parses DAG files did not start: {error.args[0].message}"
        ) from None
    except TimeoutError:
        limit = file.timeout.total_seconds()
        return FileParsed(error=f"importing the file took more than {limit:g} s. Move slow work into tasks")
    if isinstance(end.answer, FileParsed):
        return end.answer
    why = f"importing the file ended its process: it {describe_exit(end.code)}.{printed.sentence()}"
    return FileParsed(error=why)
