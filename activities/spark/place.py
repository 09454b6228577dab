"""Where a Spark attempt runs: what the task, its connection and the worker's settings come to."""

from typing import Any

from ...model.attempts import TaskAttempt
from ...model.task_instances import Failure
from ...model.tasks import SparkOptions, SparkSqlTask, SparkSubmitTask, SparkWork
from ..bash import rendered
from ..supervision import task_failed
from ..workplace import Workplace

DEFAULT_CONNECTION = "default"


def spark_task(attempt: TaskAttempt) -> SparkWork:
    assert isinstance(attempt.task, SparkWork)  # noqa: S101 - the activity is registered for these
    return attempt.task


def options_of(attempt: TaskAttempt, workplace: Workplace) -> SparkOptions:
    """The options that hold, with templates filled in. Fails the task where they make no sense."""
    mine = spark_task(attempt).spark
    try:
        options = mine.over(_connection(mine, workplace))
    except ValueError as error:
        told = f"the task's options do not fit its Spark connection: {error}"
        raise invalid(told) from None
    [conf] = rendered(attempt, [options.conf])
    whole = options.model_copy(update={"conf": conf})
    try:
        _ = whole.driver_megabytes
    except ValueError as error:
        raise invalid(f"conf spark.driver.memory: {error}") from None
    return whole


def _connection(options: SparkOptions, workplace: Workplace) -> SparkOptions:
    known = workplace.spark_connections
    defaults = SparkOptions(conf=dict(workplace.spark_conf))
    if options.conn_id is not None and options.conn_id not in known:
        raise invalid(
            f"no Spark connection {options.conn_id!r} is known to this worker, only {', '.join(known) or 'none'}. "
            "Set TIDEMILL_SPARK_CONNECTIONS, or name the master in the task"
        )
    if options.conn_id is None and (options.master is not None or DEFAULT_CONNECTION not in known):
        master = SparkOptions(master=workplace.spark_master) if workplace.spark_master else SparkOptions()
        return (master if options.master is None else SparkOptions()).over(defaults)
    return known[options.conn_id or DEFAULT_CONNECTION].over(defaults)


def invalid(message: str) -> Exception:
    """The failure of a task that cannot be run as it is written, however often it is tried."""
    return task_failed(Failure(error_type="InvalidInput", message=message, retryable=False))


def filled(attempt: TaskAttempt) -> dict[str, Any]:
    """The templated fields of the task, filled in; conf is among the options."""
    task = spark_task(attempt)
    fields: dict[str, Any] = {"env": task.env, "output": task.output}
    if isinstance(task, SparkSubmitTask):
        fields |= {"application": task.application, "application_args": task.application_args}
    if isinstance(task, SparkSqlTask):
        fields["sql"] = task.sql
    return dict(zip(fields, rendered(attempt, list(fields.values())), strict=True))
