"""Tasks of DAG files that are written for Airflow, each try in a process that has imported Airflow and the file."""

from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta

from temporalio import activity

from ..model.run.attempts import TaskAttempt
from ..model.run.task_instances import Outcome
from ..model.spec.tasks import AirflowTask, SparkOptions
from .attempts.lifecycle import WorkKind, execute_attempt, workplace_watch
from .attempts.supervision import AttemptSupervisor, stopping_cleanly
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
        watch = workplace_watch(self._workplace, timeout)
        with stopping_cleanly(), self._driver_room(attempt, watch):
            return execute_attempt(self._workplace, attempt, AIRFLOW, watch)

    def _driver_room(self, attempt: TaskAttempt, watch: AttemptSupervisor) -> AbstractContextManager[None]:
        """Room for the driver that Airflow's provider starts: a small one, as only the file knows how large it is."""
        if not isinstance(attempt.task, AirflowTask) or not attempt.task.runs_spark_driver:
            return nullcontext()
        room = self._workplace.driver_room
        return room.reserved(min(SparkOptions().driver_megabytes, room.megabytes), watch)
