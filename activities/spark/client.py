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

    def run(self, work: SparkStart) -> Outcome:
        """Run the application to its end."""
        return run_client(work)

    def end(self, work: SparkStart, _: str | None) -> None:
        """End an earlier driver on this host."""
        work.folder.end_earlier_start()


def run_client(work: SparkStart) -> Outcome:
    """Submits the application and follows it to its end.

    Started again for the same try, it returns the result of an earlier start if there is one, and
    makes sure that an earlier driver on this host is gone before it submits.
    """
    # A failure counts only if the driver ended by itself: one that was being stopped may have told of one, too.
    earlier = work.folder.left(RESULT)
    if earlier is not None and ("outcome" in earlier or work.folder.left(EXIT) is not None):
        return work.ended(earlier)
    if work.is_java and (end := read_exit(work.folder.left(EXIT))) is not None:
        return _by_exit_code(work, end)
    work.folder.end_earlier_start()
    work.folder.forget()
    watch = work.watch()
    with work.workplace.driver_room.reserved(work.options.driver_megabytes, watch), metrics.running("spark"):
        return _submit(work, watch)


def _submit(work: SparkStart, watch: AttemptSupervisor) -> Outcome:
    java = find_java()
    if java is None:
        raise task_failure(
            Failure(error_type="JavaNotFound", message="Spark needs Java 17 or later. Install it, or set JAVA_HOME")
        )
    work.leave_plan()
    small = (work.options.master or DEFAULT_MASTER).startswith("local")
    argv = spark_submit(work, fast_start(work.workplace.home, java, small=small))
    ended = launched(work, argv, watch)
    end = ended_of(ended)
    result = work.folder.left(RESULT)
    if result is not None:
        if "outcome" in result:
            result["outcome"].setdefault("started_at", end.started_at.isoformat())
        return work.ended(result)
    return _by_exit_code(work, end, ended.tail)


def _by_exit_code(work: SparkStart, end: CommandEnded, tail: tuple[str, ...] = ()) -> Outcome:
    """What spark-submit's own end says, where nobody else has told anything."""
    if end.code == 0:
        return work.ended({"outcome": {"started_at": end.started_at.isoformat()}})
    raise task_failure(unexplained(end, tail or last_lines(work.folder.log)))


def ended_of(ended: ChildResult) -> CommandEnded:
    """How the command has ended. Raises the task's failure where its child has answered something else."""
    if not isinstance(ended.answer, CommandEnded):
        raise task_failure(unanswered(0))
    return ended.answer


def launched(work: SparkStart, argv: list[str], watch: AttemptSupervisor) -> ChildResult:
    """Runs spark-submit to its end, below a process that ends whatever it leaves."""
    return run_in_child(
        work.workplace,
        work.attempt,
        work.folder,
        "command",
        watch,
        whole,
        argv=argv,
        variables=driver_environment(work),
        directory=str(work.folder.work),
    )


def driver_environment(work: SparkStart) -> dict[str, str]:
    """What spark-submit and the driver below it find in their environment."""
    elsewhere = work.mode.has_own_python
    known = environment(work.filled["env"], find_java(), work.workplace.environment, has_own_python=elsewhere)
    if (work.options.master or DEFAULT_MASTER).startswith("local"):
        known = {"SPARK_LOCAL_IP": "127.0.0.1", **known}  # its UI listens there and nowhere else
    looked_up = for_drivers(os.environ, work.attempt.owns) if work.calls_code else {}
    known = {"PYTHONFAULTHANDLER": "1", **known}  # a crash in native code says where it was called
    return {**known, **looked_up, **attempt_variables(work.attempt)}


def unexplained(end: CommandEnded, tail: tuple[str, ...]) -> Failure:
    """A failure of which only the log can tell: the JVM ended, or never started."""
    hint = EXIT_CODES.get(end.code or 0) or cause_of(tail)
    message = f"spark-submit {describe_end(end)}: {hint}"
    return Failure(error_type="SparkSubmitFailed", message=message, traceback=tail[-15:])
