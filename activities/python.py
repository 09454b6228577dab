"""Python functions as tasks, each call in a process of its own."""

from temporalio import activity

from ..model.attempts import TaskAttempt
from ..model.task_instances import Failure, Outcome
from .attempt_folder import AttemptFolder
from .fork_servers import ServerGone
from .outcomes import describe_exit, outcome_of
from .supervision import Watch, handed_over, stopping_cleanly, task_failed
from .workplace import Workplace


class PythonActivities:
    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace

    @activity.defn(name="tidemill.python", no_thread_cancel_exception=True)
    def run(self, attempt: TaskAttempt) -> Outcome:
        """Calls the task's function.

        Started again for the same try, it returns the result that an earlier start left, if any.
        """
        with stopping_cleanly():
            return self._workplace.results.put(
                attempt, result_of_function(self._workplace, attempt, Watch(attempt.timeout))
            )


def result_of_function(
    workplace: Workplace, attempt: TaskAttempt, watch: Watch, folder: AttemptFolder | None = None
) -> Outcome:
    """Calls *attempt*'s function in a child of its DAG file's server, and waits for its result, of whatever size."""
    folder = folder or AttemptFolder.of(workplace.home, attempt)
    if (earlier := folder.read("result.json")) is not None:
        return outcome_of(earlier)
    attempt = workplace.results.fill(attempt)
    with workplace.servers.for_code(workplace.code_of(attempt)) as server:
        server.ready(watch)
        try:
            code = server.call(attempt, folder, watch)
        except ServerGone:
            raise handed_over("the process that holds the DAG file ended while the task ran") from None
    result = folder.read("result.json")
    if result is None:
        raise task_failed(Failure(error_type="ProcessEnded", message=f"the task's process {describe_exit(code)}"))
    return outcome_of(result)
