"""Spark applications as tasks: submitted once, followed, published, and ended with their task."""

from temporalio import activity
from temporalio.exceptions import ApplicationError

from ...model.attempts import SubmittedAttempt, TaskAttempt
from ...model.task_instances import Outcome
from ...model.tasks import SparkMode, SparkSqlFunctionTask
from ..attempt_folder import AttemptFolder
from ..names import MOST_STARTS, TASK_FAILED
from ..python import call_function
from ..supervision import Closing, Stopped, Watch, handed_over, stopping_cleanly
from ..temporal_access import TemporalAccess
from ..workplace import Workplace
from . import client, cluster, connect
from .starts import SparkStart, sql_of


class SparkActivities:
    """What a worker does for Spark tasks, on the task queue that they have to themselves."""

    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace
        self.temporal: TemporalAccess | None = None
        """Set by the worker that these belong to."""

    @activity.defn(name="tidemill.spark", no_thread_cancel_exception=True)
    def run(self, attempt: TaskAttempt) -> Outcome:
        """Runs the application to its end; in cluster mode, has it started and tells where it runs.

        Started again for the same try, it finds what an earlier start left: a result, a running
        driver, a session. No two starts of a try ever work side by side.
        """
        with stopping_cleanly():
            work = self._start(self._with_sql(self._workplace.results.fill(attempt)))
            match work.options.mode:
                case SparkMode.CLIENT:
                    outcome = client.run_client(work)
                case SparkMode.CONNECT:
                    outcome = connect.run_connect(work)
                case _:
                    outcome = self._submit(work)
            return self._workplace.results.put(attempt, outcome)

    @activity.defn(name="tidemill.spark_watch", no_thread_cancel_exception=True)
    def watch(self, submitted: SubmittedAttempt) -> Outcome:
        """Follows an application on a cluster to its end. It never submits, so that any worker may take over."""
        assert submitted.submission is not None  # noqa: S101
        with stopping_cleanly():
            work = self._start(self._workplace.results.fill(submitted.attempt))
            try:
                outcome = cluster.follow(work, submitted.submission)
            except Stopped:
                if activity.is_cancelled() and not self._run_goes_on():
                    cluster.end(work, submitted.submission.application_id, Closing())
                raise
            return self._workplace.results.put(submitted.attempt, outcome)

    def _run_goes_on(self) -> bool:
        """Whether the run is there to end what is left, or to have it followed by somebody else. If not, we have to."""
        info = activity.info()
        if self.temporal is None or info.workflow_id is None or info.workflow_run_id is None:
            return True
        return self.temporal.is_open(info.workflow_id, info.workflow_run_id)

    @activity.defn(name="tidemill.spark_end", no_thread_cancel_exception=True)
    def end(self, submitted: SubmittedAttempt) -> None:
        """Ends whatever the attempt has anywhere, and keeps it from beginning. Returns when it is dead."""
        work = self._start_of_end(submitted.attempt)
        known = submitted.submission.application_id if submitted.submission is not None else None
        match work.options.mode:
            case SparkMode.CLIENT:
                work.folder.end_earlier_start()
            case SparkMode.CONNECT:
                connect.end_sessions(work, [*range(1, MOST_STARTS + 1)], Watch(None))
            case _:
                try:
                    cluster.end(work, known, Watch(None))
                except OSError as error:
                    raise handed_over(str(error)) from None

    def _start(self, attempt: TaskAttempt) -> SparkStart:
        return SparkStart.of(attempt, self._workplace, activity.info().attempt)

    def _start_of_end(self, attempt: TaskAttempt) -> SparkStart:
        """The same for ending it: that this worker cannot run it does not mean that nothing of it runs."""
        try:
            return self._start(attempt)
        except ApplicationError as error:
            if error.type != TASK_FAILED:
                raise
            raise handed_over(f"this worker cannot end the attempt: {error.message}") from None

    def _submit(self, work: SparkStart) -> Outcome:
        try:
            return cluster.submit(work)
        except Stopped:
            if activity.is_cancelled():
                cluster.end(work, None, Closing())
            raise

    def _with_sql(self, attempt: TaskAttempt) -> TaskAttempt:
        """The attempt with the SQL that its function returns, where it is a function."""
        task = attempt.task
        if not isinstance(task, SparkSqlFunctionTask):
            return attempt
        folder = AttemptFolder.of(self._workplace.home, attempt, part="function")
        return sql_of(attempt, call_function(self._workplace, attempt, Watch(attempt.timeout), folder))
