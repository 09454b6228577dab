"""Tasks of DAG files that are written for Airflow, each try in a process that has imported Airflow and the file."""

from datetime import timedelta

from temporalio import activity

from ..model.run.attempts import TaskAttempt
from ..model.run.task_instances import Outcome
from .attempts.way import Kind, carried_out, workplace_watch
from .workplace import Workplace

LATER = timedelta(seconds=50)
"""Airflow's own code raises at execution_timeout, so that `on_kill` is called; one that does not heed it is ended. So
long a file may take to be imported, too."""


AIRFLOW = Kind(work="airflow", calls_code=True)


class AirflowActivities:
    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace

    @activity.defn(name="tidemill.airflow", no_thread_cancel_exception=True)
    def run(self, attempt: TaskAttempt) -> Outcome:
        """Has Airflow's Task SDK run the task.

        Started again for the same try, it returns the result that an earlier start left, if any.
        """
        timeout = attempt.timeout + LATER if attempt.timeout is not None else None
        return carried_out(self._workplace, attempt, AIRFLOW, workplace_watch(self._workplace, timeout))
