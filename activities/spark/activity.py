"""Spark applications as tasks: submitted once, followed, published, and ended with their task."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError

from ...model.run.attempts import SubmittedAttempt, TableAttempt, TaskAttempt
from ...model.run.task_instances import Outcome
from ...model.spec.tasks import SparkSqlFunctionTask
from ...model.states import TaskState
from .. import tracing
from ..attempts.beside_log import RENDERED, keep_beside
from ..attempts.folder import RESULT
from ..attempts.lifecycle import logging_early_failure, run_in_child, whole
from ..attempts.outcomes import outcome_of
from ..attempts.supervision import AttemptSupervisor, Closing, Stopped, infrastructure_error, stopping_cleanly
from ..names import DRIVERS_SUFFIX, MAX_STARTS, TASK_FAILED
from ..processes.answers import read_result
from ..secrets import new_masker
from ..work.rendered import shown
from ..worker_context import WorkerContext
from . import cluster
from .figures import keeping_figures
from .modes import MODES, mode_of
from .outlets import with_outlet_events
from .staging import remove_unpublished
from .starts import SparkStart, sql_of
from .table_publication import TablePublication
from .temporal_access import TemporalAccess


class SparkActivities:
    """What a worker does for Spark tasks, on the task queue that they have to themselves."""

    def __init__(self, worker_context: WorkerContext) -> None:
        self._worker_context = worker_context
        self.temporal: TemporalAccess | None = None
        """Set by the worker that these belong to."""

    @activity.defn(name="tidemill.spark", no_thread_cancel_exception=True)
    def run(self, attempt: TaskAttempt) -> Outcome:
        """Runs the application to its end; in cluster mode, has it started and tells where it runs.

        A driver that would run below this worker is left to one that has room for it, where the run knows of that.
        Started again for the same try, it finds what an earlier start left: a result, a running
        driver, a session. No two starts of a try ever work side by side.
        """
        tracing.describe(attempt)
        logged = logging_early_failure(self._worker_context, attempt)
        with stopping_cleanly(), logged, self._noted(attempt), self._worker_context.results.keeping_pushed(attempt):
            if self._hands_over(attempt) and mode_of(attempt, self._worker_context).is_below_worker:
                return Outcome(needs_driver=True)
            filled = self._worker_context.results.fill(attempt)
            if isinstance(filled.task, SparkSqlFunctionTask):
                began = time.monotonic()
                returned = self._ask_for_sql(filled)
                if returned.state is TaskState.SKIPPED:
                    return returned
                filled = sql_of(filled, returned, timedelta(seconds=time.monotonic() - began))
            work = self._start(filled, untried=activity.info().attempt == 1)
            keep_beside(work.folder.log, RENDERED, shown(work.filled), new_masker())
            outcome = self._run(work)
            if outcome.submission is None:
                self._worker_context.leftovers.add(work.folder.path)
            return self._worker_context.results.put(attempt, outcome)

    def _run(self, start: SparkStart) -> Outcome:
        try:
            if start.mode.outlives_worker:
                outcome = with_outlet_events(start.attempt, self._submit(start))
            else:
                with tracing.spark_application(start.attempt.name, start.progress), keeping_figures(start):
                    outcome = with_outlet_events(start.attempt, start.mode.run(start))
        except (Stopped, ApplicationError) as error:
            if _has_failed(error) or self._is_ended_for_good():
                # This one may have a successor that it has not heard of: what that writes is its own.
                self._remove_unpublished(start, until=start.number)
            raise
        if outcome.state is not TaskState.SUCCESS:
            self._remove_unpublished(start, until=start.number)
        return outcome

    @activity.defn(name="tidemill.spark_watch", no_thread_cancel_exception=True)
    def watch(self, submitted: SubmittedAttempt) -> Outcome:
        """Follows an application on a cluster to its end. It never submits, so that any worker may take over."""
        tracing.describe(submitted.attempt)
        kept = self._worker_context.results.keeping_pushed(submitted.attempt)
        with stopping_cleanly(), self._noted(submitted.attempt), kept:
            work = self._start(self._worker_context.results.fill(submitted.attempt))
            with keeping_figures(work):  # also after what is left was ended
                outcome = self._follow(work, submitted)
            self._worker_context.leftovers.add(work.folder.path)
            with_events = with_outlet_events(submitted.attempt, outcome)
            return self._worker_context.results.put(submitted.attempt, with_events)

    def _follow(self, start: SparkStart, submitted: SubmittedAttempt) -> Outcome:
        assert submitted.submission is not None  # noqa: S101
        try:
            with tracing.spark_application(submitted.attempt.name, start.progress):
                outcome = cluster.follow(start, submitted.submission)
        except Stopped:
            if activity.is_cancelled() and not self._run_goes_on():
                cluster.end(start, submitted.submission.application_id, Closing())
            raise
        if outcome.state is not TaskState.SUCCESS:
            self._remove_unpublished(start)
        return outcome

    def _run_goes_on(self) -> bool:
        """Whether the run is there to end what is left, or to have it followed by somebody else. If not, we have to."""
        info = activity.info()
        if self.temporal is None or info.workflow_id is None or info.workflow_run_id is None:
            return True
        return self.temporal.is_open(info.workflow_id, info.workflow_run_id)

    @activity.defn(name="tidemill.publish_table", no_thread_cancel_exception=True)
    def publish_table(self, question: TableAttempt) -> Outcome:
        """Makes the attempt's branch the main one of its table, or keeps it from that. Raises the failure.

        Asked again, changes nothing. A question that *withdraws* fails where the branch has not become the main one.
        What needs a driver below the worker is left to one that has room for it, as in `run`.
        """
        tracing.describe(question.attempt)
        with stopping_cleanly():
            if self._hands_over(question.attempt):
                with _left_to_others():
                    mode = mode_of(question.attempt, self._worker_context)
                if mode.is_below_worker or mode.outlives_worker:
                    return Outcome(needs_driver=True)
            work = self._start(self._worker_context.results.fill(question.attempt))
            publication = TablePublication.of_branch(work, question, MODES)
            with self._worker_context.under_way.noted(activity.info().task_token, publication.folder):
                publication.folder.end_earlier_start()
                publication.folder.forget()  # it is the table that says whether it has been published
                publication.mode.run(publication)
            for ended in (work, publication):
                self._worker_context.leftovers.add(ended.folder.path)
        return Outcome()

    @activity.defn(name="tidemill.spark_end", no_thread_cancel_exception=True)
    def end(self, submitted: SubmittedAttempt) -> None:
        """Ends whatever the attempt has anywhere, and keeps it from beginning. Returns when it is dead."""
        # The last of all starts: any of those before it may have begun something, elsewhere.
        work = replace(self._start(submitted.attempt), number=MAX_STARTS + 1)
        if submitted.submission is None:
            work.mode.end(work, None)
        else:  # what is on a cluster is ended there, whatever the connection has become
            cluster.mode_of(work).end(work, submitted.submission.application_id)
        self._remove_unpublished(work)

    def _hands_over(self, attempt: TaskAttempt) -> bool:
        """Whether this is where drivers do not wait for room, and nothing of the attempt can have begun elsewhere."""
        info = activity.info()
        return attempt.hands_over and info.attempt == 1 and not info.task_queue.endswith(DRIVERS_SUFFIX)

    def _noted(self, attempt: TaskAttempt) -> AbstractContextManager[None]:
        """For when this worker dies under it."""
        return self._worker_context.under_way.noted(
            activity.info().task_token, self._worker_context.attempt_folder(attempt)
        )

    def _start(self, attempt: TaskAttempt, *, untried: bool = False) -> SparkStart:
        """What this worker makes of the attempt. Where it may run already, that we cannot run it fails no task."""
        with nullcontext() if untried else _left_to_others():
            return SparkStart.of(attempt, self._worker_context, MODES, activity.info().attempt)

    def _submit(self, start: SparkStart) -> Outcome:
        try:
            return start.mode.run(start)
        except (Stopped, ApplicationError) as error:
            # Whoever goes on with a sound attempt has to find it as it is; else nothing of it may be left.
            if _has_failed(error) or self._is_ended_for_good():
                try:
                    cluster.end(start, None, Closing())
                except OSError as trouble:
                    raise ApplicationError(f"{error}; nor could it be ended: {trouble}", non_retryable=True) from None
            raise

    def _is_ended_for_good(self) -> bool:
        """Whether this start was cancelled. One that was not heard of for too long has a successor, whose is all."""
        if not activity.is_cancelled() or activity.is_worker_shutdown():
            return False
        details = activity.cancellation_details()
        return (details is not None and details.cancel_requested) or not self._run_goes_on()

    def _remove_unpublished(self, start: SparkStart, *, until: int | None = None) -> None:
        """Remove the output of a try that has ended without anything to publish; with *until* none of later starts.

        Where the run's execution is closed, as after a reset, another may have the same try under way.
        """
        try:
            staged = start.staged
            if staged is None or not self._run_goes_on():
                return
        except (ApplicationError, TimeoutError):  # it was refused and never written; or Temporal cannot be asked
            return
        remove_unpublished(self._worker_context, staged, until=until)

    def _ask_for_sql(self, attempt: TaskAttempt) -> Outcome:
        """What the task's function returns."""
        folder = self._worker_context.attempt_folder(attempt, part="function")
        if (earlier := folder.ending(RESULT)) is None:
            supervisor = AttemptSupervisor(attempt.timeout, drain=self._worker_context.drain)
            ended = run_in_child(self._worker_context, attempt, folder, "function", supervisor, whole, calls_code=True)
            return outcome_of(ended.answer)
        return outcome_of(read_result(earlier))


@contextmanager
def _left_to_others() -> Iterator[None]:
    """Has what this worker finds impossible fail no task: the attempt is under way, or has done its work."""
    try:
        yield
    except ApplicationError as error:
        if error.type != TASK_FAILED:
            raise
        raise infrastructure_error(f"this worker cannot run the attempt: {error.message}") from None


def _has_failed(error: BaseException) -> bool:
    """Return whether the try itself has failed: nobody begins it again."""
    return isinstance(error, ApplicationError) and error.type == TASK_FAILED
