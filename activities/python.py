"""Python functions as tasks, each call in a process of its own."""

from temporalio import activity

from ..model.run.attempts import TaskAttempt
from ..model.run.task_instances import Outcome
from .attempts.outcomes import outcome_of
from .attempts.way import Ended, Kind, carried_out
from .workplace import Workplace


def _outcome(_: TaskAttempt, ended: Ended) -> Outcome:
    return outcome_of(ended.result)


FUNCTION = Kind(work="function", calls_code=True, outcome=_outcome)


class PythonActivities:
    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace

    @activity.defn(name="tidemill.python", no_thread_cancel_exception=True)
    def run(self, attempt: TaskAttempt) -> Outcome:
        """Calls the task's function.

        Started again for the same try, it returns the result that an earlier start left, if any.
        """
        return carried_out(self._workplace, attempt, FUNCTION)
