"""Bash commands as tasks."""

import os
import shutil
from pathlib import Path
from typing import Any

from temporalio import activity

from ..model.attempts import TaskAttempt
from ..model.context import context, resolve
from ..model.errors import InvalidInputError
from ..model.poking import poked
from ..model.references import RETURN_VALUE
from ..model.states import TaskState
from ..model.task_instances import Failure, Outcome
from ..model.tasks import BashSensorTask, BashTask
from .attempt_folder import AttemptFolder
from .isolated_call import describe_failure
from .outcomes import describe_exit, instant, last_line, log_size, log_tail
from .python import result_of_function
from .rendering import render
from .secrets import masked
from .supervision import Watch, run_command, stopping_cleanly, task_failed
from .workplace import Workplace

SKIP_EXIT_CODE = 99


class BashActivities:
    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace

    @activity.defn(name="tidemill.bash", no_thread_cancel_exception=True)
    def run(self, attempt: TaskAttempt) -> Outcome:
        """Runs the command below a supervisor.

        Started again for the same try, it returns what an earlier start's command ended with, and
        ends a command that still runs here before it starts a new one.
        """
        task = attempt.task
        assert isinstance(task, BashTask | BashSensorTask)  # noqa: S101
        with stopping_cleanly():
            attempt = self._workplace.results.fill(attempt)
            command, env, cwd = rendered(attempt, [task.command, task.env, task.cwd])
            directory = self._workplace.directory(attempt) / (cwd or "")
            return run_bash(self._workplace, attempt, command, env, directory, Watch(attempt.timeout))

    @activity.defn(name="tidemill.bash_function", no_thread_cancel_exception=True)
    def run_function(self, attempt: TaskAttempt) -> Outcome:
        """Asks the task's function for a command, and runs that."""
        with stopping_cleanly():
            watch = Watch(attempt.timeout)
            asked = result_of_function(self._workplace, attempt, watch)
            command = asked.xcom.get(RETURN_VALUE)
            if asked.state is TaskState.SKIPPED:
                return asked
            if not isinstance(command, str):
                raise task_failed(
                    Failure(
                        error_type="TypeError", message=f"@task.bash returned {command!r}. Return the command as text"
                    )
                )
            [command] = rendered(attempt, [command])
            return run_bash(self._workplace, attempt, command, {}, self._workplace.directory(attempt), watch)


def rendered(attempt: TaskAttempt, values: list[Any]) -> list[Any]:
    """*values* with results and templates filled in. Fails the task where that cannot be done."""
    try:
        filled: list[Any] = resolve(render(values, context(attempt)), attempt.xcom)
    except InvalidInputError as error:
        raise task_failed(describe_failure(error)) from None
    return filled


def run_bash(
    workplace: Workplace, attempt: TaskAttempt, command: str, env: dict[str, str], cwd: Path, watch: Watch
) -> Outcome:
    folder = AttemptFolder.of(workplace.home, attempt)
    end = folder.read("exit.json")
    start = 0
    if end is None:
        folder.end_earlier_start()
        start = log_size(folder)
        argv = [shutil.which("bash") or "/bin/bash", "-c", command]
        end = run_command(folder, argv, {**os.environ, **env, **airflow_variables(attempt)}, cwd, watch)
    started_at = instant(end["started"])
    if isinstance(attempt.task, BashSensorTask):
        return poked(attempt, end["code"] == 0, started_at, f"the command {describe_exit(end['code'])}")
    if end["code"] == SKIP_EXIT_CODE:
        return Outcome(state=TaskState.SKIPPED, started_at=started_at, note=f"exit code {SKIP_EXIT_CODE}")
    if end["code"] != 0:
        message = end.get("error") or f"the command {describe_exit(end['code'])}"
        tail = tuple(map(masked, log_tail(folder, start))) if folder.log.exists() else ()
        raise task_failed(Failure(error_type="BashFailed", message=message, traceback=tail))
    line = last_line(folder, start)
    found = Outcome(xcom={} if line is None else {RETURN_VALUE: line}, started_at=started_at)
    return workplace.results.put(attempt, found)


def airflow_variables(attempt: TaskAttempt) -> dict[str, str]:
    """The variables by which Airflow tells a process what it runs for."""
    run = attempt.run
    values = {
        "AIRFLOW_CTX_DAG_ID": run.dag_id,
        "AIRFLOW_CTX_TASK_ID": attempt.task.task_id,
        "AIRFLOW_CTX_DAG_RUN_ID": run.run_id,
        "AIRFLOW_CTX_TRY_NUMBER": str(attempt.try_number),
    }
    if run.logical_date is not None:
        values["AIRFLOW_CTX_LOGICAL_DATE"] = run.logical_date.isoformat()
    return values
