"""Client mode: the driver runs below this worker, and ends with it."""

import os
from typing import ClassVar

from ...model.run.task_instances import Failure, Outcome
from ...model.spec.tasks.spark import DEFAULT_MASTER
from .. import metrics
from ..attempts.folder import EXIT, RESULT
from ..attempts.lifecycle import ChildResult, attempt_variables, run_in_child, whole
from ..attempts.log import last_lines
from ..attempts.outcomes import describe_end, unanswered
from ..attempts.supervision import AttemptSupervisor, task_failure
from ..processes.answers import CommandEnded, read_exit
from ..processes.environment import for_drivers
from ..worker_context import find_java
from .archive import fast_start
from .causes import cause_of
from .command import environment, spark_submit
from .starts import Mode, SparkStart

# What spark-submit itself says of how a JVM ended, where nobody else was left to say it.
EXIT_CODES = {
    52: "an executor or the driver ran out of memory",
    137: "the process was killed, often for want of memory",
}


class ClientMode(Mode):
    """The driver is a process below the worker."""

    is_below_worker: ClassVar[bool] = True

    def run(self, start: SparkStart) -> Outcome:
        """Run the application to its end."""
        return run_client(start)

    def end(self, start: SparkStart, _: str | None) -> None:
        """End an earlier driver on this host."""
        start.folder.end_earlier_start()


def run_client(start: SparkStart) -> Outcome:
    """Submits the application and follows it to its end.

    Started again for the same try, it returns the result of an earlier start if there is one, and
    makes sure that an earlier driver on this host is gone before it submits.
    """
    # A failure counts only if the driver ended by itself: one that was being stopped may have told of one, too.
    earlier = start.folder.left(RESULT)
    if earlier is not None and ("outcome" in earlier or start.folder.left(EXIT) is not None):
        return start.ended(earlier)
    if start.is_java and (end := read_exit(start.folder.left(EXIT))) is not None:
        return _by_exit_code(start, end)
    start.folder.end_earlier_start()
    start.folder.forget()
    supervisor = start.watch()
    with (
        start.worker_context.driver_room.reserved(start.options.driver_megabytes, supervisor),
        metrics.running("spark"),
    ):
        return _submit(start, supervisor)


def _submit(start: SparkStart, supervisor: AttemptSupervisor) -> Outcome:
    java = find_java()
    if java is None:
        raise task_failure(
            Failure(error_type="JavaNotFound", message="Spark needs Java 17 or later. Install it, or set JAVA_HOME")
        )
    start.leave_plan()
    small = (start.options.master or DEFAULT_MASTER).startswith("local")
    argv = spark_submit(start, fast_start(start.worker_context.home, java, small=small))
    ended = launched(start, argv, supervisor)
    end = ended_of(ended)
    result = start.folder.left(RESULT)
    if result is not None:
        if "outcome" in result:
            result["outcome"].setdefault("started_at", end.started_at.isoformat())
        return start.ended(result)
    return _by_exit_code(start, end, ended.tail)


def _by_exit_code(start: SparkStart, end: CommandEnded, tail: tuple[str, ...] = ()) -> Outcome:
    """What spark-submit's own end says, where nobody else has told anything."""
    if end.code == 0:
        return start.ended({"outcome": {"started_at": end.started_at.isoformat()}})
    raise task_failure(unexplained(end, tail or last_lines(start.folder.log)))


def ended_of(result: ChildResult) -> CommandEnded:
    """How the command has ended. Raises the task's failure where its child has answered something else."""
    if not isinstance(result.answer, CommandEnded):
        raise task_failure(unanswered(0))
    return result.answer


def launched(start: SparkStart, argv: list[str], supervisor: AttemptSupervisor) -> ChildResult:
    """Runs spark-submit to its end, below a process that ends whatever it leaves."""
    return run_in_child(
        start.worker_context,
        start.attempt,
        start.folder,
        "command",
        supervisor,
        whole,
        argv=argv,
        variables=driver_environment(start),
        directory=str(start.folder.work),
    )


def driver_environment(start: SparkStart) -> dict[str, str]:
    """What spark-submit and the driver below it find in their environment."""
    elsewhere = start.mode.has_own_python
    known = environment(start.filled["env"], find_java(), start.worker_context.environment, has_own_python=elsewhere)
    if (start.options.master or DEFAULT_MASTER).startswith("local"):
        known = {"SPARK_LOCAL_IP": "127.0.0.1", **known}  # its UI listens there and nowhere else
    looked_up = for_drivers(os.environ, start.attempt.owns) if start.calls_code else {}
    known = {"PYTHONFAULTHANDLER": "1", **known}  # a crash in native code says where it was called
    return {**known, **looked_up, **attempt_variables(start.attempt)}


def unexplained(end: CommandEnded, tail: tuple[str, ...]) -> Failure:
    """A failure of which only the log can tell: the JVM ended, or never started."""
    hint = EXIT_CODES.get(end.code or 0) or cause_of(tail)
    message = f"spark-submit {describe_end(end)}: {hint}"
    return Failure(error_type="SparkSubmitFailed", message=message, traceback=tail[-15:])
