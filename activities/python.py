"""Python functions as tasks, each call in a process of its own."""

from temporalio import activity

from ..model.run.attempts import TaskAttempt
from ..model.run.task_instances import Outcome
from .attempts.lifecycle import WorkKind, execute_attempt
from .worker_context import WorkerContext

FUNCTION = WorkKind(work="function", calls_code=True)


class PythonActivities:
    def __init__(self, workplace: WorkerContext) -> None:
        self._workplace = workplace

    @activity.defn(name="tidemill.python", no_thread_cancel_exception=True)
    def run(self, attempt: TaskAttempt) -> Outcome:
        """Calls the task's function.

        Started again for the same try, it returns the result that an earlier start left, if any.
        """
        return execute_attempt(self._workplace, attempt, FUNCTION)
