"""Bash commands as tasks, each below a process that ends whatever it leaves."""

from temporalio import activity

from ..model.asset.outlets import OutletEvent
from ..model.run.attempts import TaskAttempt
from ..model.run.poking import poked
from ..model.run.task_instances import Failure, Outcome
from ..model.spec.references import RETURN_VALUE
from ..model.spec.tasks import BashSensorTask
from ..model.states import TaskState
from .attempts.lifecycle import ChildResult, WorkKind, execute_attempt
from .attempts.outcomes import describe_end, instant, outcome_of
from .attempts.supervision import task_failure
from .worker_context import WorkerContext


def _outcome(attempt: TaskAttempt, ended: ChildResult) -> Outcome:
    """What the command's end means; of a function that was to name the command, perhaps an outcome of its own."""
    if "outcome" in ended.result:
        return outcome_of(ended.result)
    end = ended.result["ended"]
    said = tuple(OutletEvent.model_validate(event) for event in ended.result.get("asset_events", ()))
    started_at = instant(end["started"])
    if isinstance(attempt.task, BashSensorTask) and end["code"] in (0, attempt.task.retry_exit_code or end["code"]):
        return poked(attempt, end["code"] == 0, started_at, f"the command {describe_end(end)}")
    if end["code"] != 0 and end["code"] in getattr(attempt.task, "skip_on_exit_code", ()):
        return Outcome(state=TaskState.SKIPPED, started_at=started_at, note=f"exit code {end['code']}")
    if end["code"] != 0:
        message = end.get("error") or f"the command {describe_end(end)}"
        raise task_failure(Failure(error_type="BashFailed", message=message, traceback=ended.tail[-15:]))
    return Outcome(
        asset_events=said,
        xcom={} if ended.last_line is None else {RETURN_VALUE: ended.last_line},
        started_at=started_at,
    )


COMMAND = WorkKind(work="bash", calls_code=False, outcome=_outcome)
FUNCTION = WorkKind(work="bash_function", calls_code=True, outcome=_outcome)


class BashActivities:
    def __init__(self, workplace: WorkerContext) -> None:
        self._workplace = workplace

    @activity.defn(name="tidemill.bash", no_thread_cancel_exception=True)
    def run(self, attempt: TaskAttempt) -> Outcome:
        """Runs the command.

        Started again for the same try, it returns what an earlier start's command ended with, and
        ends a command that still runs here before it starts a new one.
        """
        return execute_attempt(self._workplace, attempt, COMMAND)

    @activity.defn(name="tidemill.bash_function", no_thread_cancel_exception=True)
    def run_function(self, attempt: TaskAttempt) -> Outcome:
        """Asks the task's function for a command, and runs that."""
        return execute_attempt(self._workplace, attempt, FUNCTION)
