"""The activities that carry out tasks, each in a process of its own: one for each way of working, by its name.

The model of a kind of task names its activity. What is here is all that differs by it; the rest is the life cycle's.
Spark's are in `spark/activity.py`, and those that only look at other workflows beside the runs.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta

from temporalio import activity

from ..model.run.attempts import TaskAttempt
from ..model.run.poking import poked
from ..model.run.task_instances import Failure, Outcome
from ..model.spec.references import RETURN_VALUE
from ..model.spec.tasks import FOLDERS, BashSensorTask, SparkOptions
from ..model.states import TaskState
from .attempts.lifecycle import ChildResult, WorkKind, execute_attempt
from .attempts.outcomes import describe_end, outcome_of
from .attempts.supervision import AttemptSupervisor, task_failure
from .names import OF_KIND
from .processes.answers import CommandEnded
from .worker_context import WorkerContext


def _of_command(attempt: TaskAttempt, result: ChildResult) -> Outcome:
    """What the command's end means; of a function that was to name the command, perhaps an outcome of its own."""
    end = result.answer
    if not isinstance(end, CommandEnded):
        return outcome_of(end)
    if isinstance(attempt.task, BashSensorTask) and end.code in (0, attempt.task.retry_exit_code or end.code):
        return poked(attempt, end.code == 0, end.started_at, f"the command {describe_end(end)}")
    if end.code in getattr(attempt.task, "skip_on_exit_code", ()):
        return Outcome(state=TaskState.SKIPPED, started_at=end.started_at, note=f"exit code {end.code}")
    if end.code != 0:
        message = end.error or f"the command {describe_end(end)}"
        raise task_failure(Failure(error_type="BashFailed", message=message, traceback=result.tail[-15:]))
    return Outcome(
        asset_events=end.asset_events,
        xcom={} if result.last_line is None else {RETURN_VALUE: result.last_line},
        started_at=end.started_at,
    )


def _driver_room(
    worker_context: WorkerContext, attempt: TaskAttempt, supervisor: AttemptSupervisor
) -> AbstractContextManager[None]:
    """Room for a driver that Airflow's provider starts: a small one, as only the file knows how large it is."""
    if not attempt.task.waits_for_room:
        return nullcontext()
    room = worker_context.driver_room
    return room.reserved(min(SparkOptions().driver_megabytes, room.megabytes), supervisor)


WORK: Mapping[str, WorkKind] = {
    "tidemill.bash": WorkKind(work="bash", calls_code=False, outcome=_of_command),
    "tidemill.bash_function": WorkKind(work="bash_function", calls_code=True, outcome=_of_command),
    "tidemill.python": WorkKind(work="function", calls_code=True),
    # Airflow's own code raises at execution_timeout, so that `on_kill` is called; one that does not heed it is ended.
    # So long a file may take to be imported, too.
    "tidemill.airflow": WorkKind(work="airflow", calls_code=True, grace=timedelta(seconds=50), room=_driver_room),
    **{
        str(model.activity): WorkKind(work=f"{OF_KIND}{kind}", calls_code=model.calls_code)
        for kind, (_, model) in FOLDERS.items()
    },
}
"""How the work of a try is done, by the name of its activity."""


def task_activities(worker_context: WorkerContext) -> list[Callable[[TaskAttempt], Outcome]]:
    """Return the activities of `WORK`, for a worker to register, and for `dags test` to call."""
    return [task_activity(name, worker_context) for name in WORK]


def task_activity(name: str, worker_context: WorkerContext) -> Callable[[TaskAttempt], Outcome]:
    """Return the activity *name* of `WORK`.

    Started again for the same try, it returns what an earlier start's work has come to, and ends work that still goes
    on here before it begins anew. Raises the task's failure.
    """

    @activity.defn(name=name, no_thread_cancel_exception=True)
    def run(attempt: TaskAttempt) -> Outcome:
        return execute_attempt(worker_context, attempt, WORK[name])

    return run
