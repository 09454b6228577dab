"""Python functions as tasks, each call in a process of its own."""

from temporalio import activity

from ..model.run.attempts import TaskAttempt
from ..model.run.task_instances import Outcome
from .attempts.way import Kind, carried_out
from .workplace import Workplace

FUNCTION = Kind(work="function", calls_code=True)


class PythonActivities:
    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace

    @activity.defn(name="tidemill.python", no_thread_cancel_exception=True)
    def run(self, attempt: TaskAttempt) -> Outcome:
        """Calls the task's function.

        Started again for the same try, it returns the result that an earlier start left, if any.
        """
        return carried_out(self._workplace, attempt, FUNCTION)
