"""Client mode: the driver runs below this worker, and ends with it."""

from typing import Any

from ...model.task_instances import Failure, Outcome
from ...model.tasks.spark import DEFAULT_MASTER
from ..bash import airflow_variables
from ..outcomes import describe_exit, instant, log_size, log_tail
from ..supervision import Watch, run_command, task_failed
from ..workplace import find_java
from .archive import fast_start
from .command import environment, spark_submit
from .starts import SparkStart

# What spark-submit itself says of how a JVM ended, where nobody else was left to say it.
EXIT_CODES = {
    52: "an executor or the driver ran out of memory",
    137: "the process was killed, often for want of memory",
}


def run_client(work: SparkStart) -> Outcome:
    """Submits the application and follows it to its end.

    Started again for the same try, it returns the result of an earlier start if there is one, and
    makes sure that an earlier driver on this host is gone before it submits.
    """
    # A failure counts only if the driver ended by itself: one that was being stopped may have told of one, too.
    earlier = work.folder.read("result.json")
    if earlier is not None and ("outcome" in earlier or work.folder.read("exit.json") is not None):
        return work.ended(earlier)
    if work.is_java and (end := work.folder.read("exit.json")) is not None:
        return _by_exit_code(work, end)
    work.folder.end_earlier_start()
    work.folder.forget()
    watch = work.watch()
    with work.workplace.memory.reserved(work.options.driver_megabytes, watch):
        return _submit(work, watch)


def _submit(work: SparkStart, watch: Watch) -> Outcome:
    java = find_java()
    if java is None:
        raise task_failed(
            Failure(error_type="JavaNotFound", message="Spark needs Java 17 or later. Install it, or set JAVA_HOME")
        )
    work.leave_plan()
    start = log_size(work.folder)
    small = (work.options.master or DEFAULT_MASTER).startswith("local")
    argv = spark_submit(work, fast_start(work.workplace.home, java, small=small))
    end = run_command(work.folder, argv, driver_environment(work), work.folder.path, watch)
    result = work.folder.read("result.json")
    if result is not None:
        if "outcome" in result:
            result["outcome"].setdefault("started_at", instant(end["started"]).isoformat())
        return work.ended(result)
    return _by_exit_code(work, end, start)


def _by_exit_code(work: SparkStart, end: dict[str, Any], start: int = 0) -> Outcome:
    """What spark-submit's own end says, where nobody else has told anything."""
    if end["code"] == 0:
        return work.ended({"outcome": {"started_at": instant(end["started"]).isoformat()}})
    raise task_failed(unexplained(end, log_tail(work.folder, start)))


def driver_environment(work: SparkStart) -> dict[str, str]:
    return {**environment(work.filled["env"], find_java()), **airflow_variables(work.attempt)}


def unexplained(end: dict[str, Any], tail: tuple[str, ...]) -> Failure:
    """A failure of which only the log can tell: the JVM ended, or never started."""
    told = [line for line in tail if "Exception" in line or "Error" in line]
    hint = EXIT_CODES.get(end["code"], told[0].strip() if told else "the last lines of the log follow")
    return Failure(
        error_type="SparkSubmitFailed", message=f"spark-submit {describe_exit(end['code'])}: {hint}", traceback=tail
    )
