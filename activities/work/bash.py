"""Runs commands, and lets nothing of them live longer than they or their worker do."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ...model.run.attempts import TaskAttempt
from ...model.run.context import context
from ...model.run.task_instances import Failure
from ...model.spec.references import RETURN_VALUE
from ...model.spec.tasks import BashSensorTask, BashTask
from ...model.states import TaskState
from ..processes.answers import CommandEnded, Failed, Performed, as_left
from ..processes.memory import ended_for_memory
from ..processes.supervisor import PR_SET_CHILD_SUBREAPER, die_with_parent, kill_descendants, prctl, write_json
from . import function
from .failures import describe_failure
from .rendered import shown
from .templates import filled, settings_for

if TYPE_CHECKING:
    from .job import Job


def run(job: Job) -> CommandEnded | Failed:
    """Runs the command of the attempt's task, templates filled in."""
    attempt = TaskAttempt.model_validate(job.request["attempt"])
    task = attempt.task
    assert isinstance(task, BashTask | BashSensorTask)  # noqa: S101
    try:
        settings = settings_for(job, attempt)
        values = filled(attempt, task.written(), context(attempt, job), settings)
    except Exception as error:  # also what its DAG file raises, where that is needed
        return Failed(failure=describe_failure(error))
    job.tell(rendered=shown({"bash_command": values["command"], "env": values["env"], "cwd": values["cwd"]}))
    return _bash(job, values["command"], values["env"], values["cwd"])


def run_function(job: Job) -> CommandEnded | Performed | Failed:
    """Asks the attempt's function for a command, and runs that."""
    result = function.run(job)
    if isinstance(result, Failed) or result.outcome.state == TaskState.SKIPPED:
        return result
    command = result.outcome.xcom.get(RETURN_VALUE)
    if not isinstance(command, str):
        message = f"@task.bash returned {command!r}. Return the command as text"
        return Failed(failure=Failure(error_type="TypeError", message=message))
    attempt = TaskAttempt.model_validate(job.request["attempt"])
    try:
        command = filled(attempt, command, context(attempt, job), settings_for(job, attempt))
    except Exception as error:  # also what its DAG file raises, where that is needed
        return Failed(failure=describe_failure(error))
    job.tell(rendered=shown({"bash_command": command}))
    return _bash(job, command, {}, None).model_copy(update={"asset_events": result.outcome.asset_events})


def run_command(job: Job) -> CommandEnded:
    """Runs the command of the request as it is."""
    request = job.request
    environment = {**os.environ, **request["variables"]}
    return _supervised(job, request["argv"], environment, Path(request["directory"]))


def _bash(job: Job, command: str, env: Mapping[str, str], cwd: str | None) -> CommandEnded:
    logging.getLogger("task").info("command: %s", command)
    argv = [shutil.which("bash") or "/bin/bash", "-c", command]
    environment = {**os.environ, **env, **job.request["variables"]}
    return _supervised(job, argv, environment, Path(job.request["directory"], cwd or ""))


class _Stopped(BaseException):
    """The worker has asked for the end."""


def _stop(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Stopped


def _supervised(job: Job, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> CommandEnded:
    """Runs *argv* to its end, and ends whatever it leaves. `exit.json` tells another worker how it ended by itself."""
    folder, grace = job.request.get("folder"), float(job.request["grace"])

    def left(end: CommandEnded) -> CommandEnded:
        if folder is not None and end.code is not None:
            with suppress(OSError):  # full, or gone: it matters only where the answer is lost, too
                write_json(Path(folder, "exit.json"), as_left(end))
        return end

    prctl(PR_SET_CHILD_SUBREAPER, 1)
    started, ended_before = time.time(), ended_for_memory()
    signal.signal(signal.SIGTERM, _stop)
    code = None
    try:
        try:
            command = subprocess.Popen(
                [*argv],
                stdin=subprocess.DEVNULL,
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        except OSError as error:
            return left(CommandEnded(code=127, error=str(error), started=started, ended=started))
        code = command.wait()
    except _Stopped:
        pass
    kill_descendants(max(grace - 1, 1))  # before its own end comes
    memory = ended_for_memory() > ended_before
    return left(CommandEnded(code=code, started=started, ended=time.time(), memory=memory))
