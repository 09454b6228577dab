"""Spark applications as tasks: submitted, followed, and ended with their task."""

from typing import Any

from temporalio import activity

from ..model.attempts import TaskAttempt
from ..model.task_instances import Failure, Outcome
from ..model.tasks import PySparkTask, SparkSubmitTask
from .attempt_folder import AttemptFolder
from .bash import airflow_variables, rendered
from .outcomes import describe_exit, instant, log_size, log_tail, outcome_of
from .spark_archive import fast_start
from .spark_command import environment, spark_submit
from .supervision import Watch, run_command, stopping_cleanly, task_failed
from .workplace import Workplace, find_java

# What spark-submit itself says of how a JVM ended, where nobody else was left to say it.
EXIT_CODES = {
    52: "an executor or the driver ran out of memory",
    137: "the process was killed, often for want of memory",
}


class SparkActivities:
    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace

    @activity.defn(name="tidemill.spark", no_thread_cancel_exception=True)
    def run(self, attempt: TaskAttempt) -> Outcome:
        """Submits the application and follows it to its end.

        The driver lives below a supervisor and ends with this worker. Started again for the same
        try, it returns the result of an earlier start if there is one, and makes sure that an
        earlier driver on this host is gone before it submits.
        """
        folder = AttemptFolder.of(self._workplace.home, attempt)
        with stopping_cleanly():
            earlier = folder.read("result.json")
            # A failure counts only if the driver ended by itself: one that was being stopped may have told of one, too.
            if earlier is not None and ("outcome" in earlier or folder.read("exit.json") is not None):
                return self._workplace.results.put(attempt, outcome_of(earlier))
            folder.end_earlier_start()
            folder.forget()
            return self._workplace.results.put(attempt, self._submit(self._workplace.results.fill(attempt), folder))

    def _submit(self, attempt: TaskAttempt, folder: AttemptFolder) -> Outcome:
        watch = Watch(attempt.timeout, lambda: folder.read("progress.json"))
        java = find_java()
        if java is None:
            raise task_failed(
                Failure(error_type="JavaNotFound", message="Spark needs Java 17 or later. Install it, or set JAVA_HOME")
            )
        filled = fill(attempt)
        directory = self._workplace.directory(attempt)
        if isinstance(attempt.task, PySparkTask):
            self._workplace.dag_file(attempt)
        folder.write("attempt.json", attempt.model_dump(mode="json"))
        defaults = dict(self._workplace.spark_conf)
        if self._workplace.spark_master is not None:
            defaults["spark.master"] = self._workplace.spark_master
        start = log_size(folder)
        argv = spark_submit(attempt, filled, folder.path, directory, defaults, fast_start(self._workplace.home, java))
        env = {**environment(filled["env"], java), **airflow_variables(attempt)}
        end = run_command(folder, argv, env, folder.path, watch)
        result = folder.read("result.json")
        if result is not None:
            if "outcome" in result:
                result["outcome"].setdefault("started_at", instant(end["started"]).isoformat())
            return outcome_of(result)
        if end["code"] == 0:
            return Outcome(started_at=instant(end["started"]))
        raise task_failed(unexplained(end, log_tail(folder, start)))


def fill(attempt: TaskAttempt) -> dict[str, Any]:
    """The templated fields of the task, filled in."""
    task = attempt.task
    assert isinstance(task, SparkSubmitTask | PySparkTask)  # noqa: S101
    fields: dict[str, Any] = {"conf": task.spark.conf, "env": task.env}
    if isinstance(task, SparkSubmitTask):
        fields |= {"application": task.application, "application_args": task.application_args}
    return dict(zip(fields, rendered(attempt, list(fields.values())), strict=True))


def unexplained(end: dict[str, Any], tail: tuple[str, ...]) -> Failure:
    """A failure of which only the log can tell: the JVM ended, or never started."""
    told = [line for line in tail if "Exception" in line or "Error" in line]
    hint = EXIT_CODES.get(end["code"], told[0].strip() if told else "the last lines of the log follow")
    return Failure(
        error_type="SparkSubmitFailed", message=f"spark-submit {describe_exit(end['code'])}: {hint}", traceback=tail
    )
