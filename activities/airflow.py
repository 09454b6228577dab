"""Tasks of DAG files that are written for Airflow, each try in a process that has imported Airflow and the file."""

from datetime import timedelta

from temporalio import activity

from ..model.run.attempts import TaskAttempt
from ..model.run.task_instances import Outcome
from .attempts.lifecycle import WorkKind, execute_attempt, workplace_watch
from .worker_context import WorkerContext

LATER = timedelta(seconds=50)
"""Airflow's own code raises at execution_timeout, so that `on_kill` is called; one that does not heed it is ended. So
long a file may take to be imported, too."""


AIRFLOW = WorkKind(work="airflow", calls_code=True)


class AirflowActivities:
    def __init__(self, workplace: WorkerContext) -> None:
        self._workplace = workplace

    @activity.defn(name="tidemill.airflow", no_thread_cancel_exception=True)
    def run(self, attempt: TaskAttempt) -> Outcome:
        """Has Airflow's Task SDK run the task.

        Started again for the same try, it returns the result that an earlier start left, if any.
        """
        timeout = attempt.timeout + LATER if attempt.timeout is not None else None
        return execute_attempt(self._workplace, attempt, AIRFLOW, workplace_watch(self._workplace, timeout))
