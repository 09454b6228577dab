"""Where a Spark attempt runs: what the task, its connection and the worker's settings come to."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...model.run.attempts import TaskAttempt
from ...model.run.task_instances import Failure
from ...model.spec.tasks import SparkOptions, SparkWork
from ...model.spec.tasks.spark import SQL_FILES
from ..attempts.lifecycle import rendered
from ..attempts.supervision import AttemptSupervisor, task_failure
from ..masking import PROCESS_MASKER
from ..processes.users import acting_as
from ..secrets import Connection, look_up
from ..worker_context import WorkerContext

DEFAULT_CONNECTION = "default"
AIRFLOWS_DEFAULT = "spark_default"
"""Where no connection is called so, it means the default one."""


def spark_task(attempt: TaskAttempt) -> SparkWork:
    assert isinstance(attempt.task, SparkWork)  # noqa: S101 - the activity is registered for these
    return attempt.task


def place_of(
    attempt: TaskAttempt, worker_context: WorkerContext, supervisor: AttemptSupervisor, file: Callable[[str], Path]
) -> tuple[SparkOptions, dict[str, Any]]:
    """The options that hold and the templated fields of the task, templates filled in by a child.

    *file* finds what a relative path means. Fails the task where they make no sense.
    """
    options = written_options(attempt, worker_context)
    written = {"options": options.templated(), **spark_task(attempt).written()}
    fields = rendered(worker_context, attempt, written, for_history=False, supervisor=supervisor)
    if str(fields.get("sql", "")).endswith(SQL_FILES):
        with acting_as(worker_context.user_of(attempt.source.bundle if attempt.source is not None else None)):
            text = _text_of(file(fields["sql"]), fields["sql"])
        fields["sql"] = rendered(worker_context, attempt, text, for_history=False, supervisor=supervisor)
    try:
        whole = options.filled(fields.pop("options"))
    except ValueError as error:
        raise invalid(f"the task's options, templates filled in: {error}") from None
    try:
        _ = whole.driver_megabytes
    except ValueError as error:
        raise invalid(f"conf spark.driver.memory: {error}") from None
    if (problem := whole.without_operator) is not None:
        raise invalid(problem)
    PROCESS_MASKER.add(token_of(whole.master))
    return whole, fields


def written_options(attempt: TaskAttempt, worker_context: WorkerContext) -> SparkOptions:
    """Return the task's options over those of its connection and of the worker, with the templates as they are.

    Fails the task where they do not fit.
    """
    mine = spark_task(attempt).spark
    if mine.conn_id is not None and attempt.owns is not None:
        refused = attempt.owns.problem("connection", mine.conn_id)
        if refused is not None:
            worker_context.refused_of(attempt)("look_up", refused)
            raise invalid(refused)
    try:
        return mine.over(_connection(mine, worker_context))
    except ValueError as error:
        message = f"the task's options do not fit its Spark connection: {error}"
        raise invalid(message) from None


def is_url(name: str) -> bool:
    """Return whether *name* is a URL, and no path: also `local:`, which is a file of the image."""
    return re.match(r"[a-zA-Z][\w+.-]*:", name) is not None


def path_of_script(name: str) -> str:
    """Return the path that the Python application *name* means. Fails the task for a URL of anything but files."""
    path = re.sub(r"^(?:file|local):(?://)?(?=/)", "", name)
    if is_url(path):
        reason = "is not on a disk, and Python is given a file. Put it beside the DAG file, or where the driver runs"
        raise invalid(f"application {name!r} {reason}, as local:///path/there.py")
    return path


def _text_of(path: Path, name: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise invalid(f"sql file {name!r} cannot be read: {error}. Put it beside the DAG file, in UTF-8") from None


def token_of(master: str | None) -> str | None:
    """The token in the URL of a Spark Connect server; None if there is none."""
    found = re.search(r";token=([^;]+)", master or "")
    return found[1] if found else None


def shown(master: str | None) -> str:
    """*master* as everybody may read it."""
    return re.sub(r";token=[^;]+", ";token=***", master or "")


def _connection(options: SparkOptions, worker_context: WorkerContext) -> SparkOptions:
    known = worker_context.spark_connections
    defaults = SparkOptions(conf=dict(worker_context.spark_conf))
    is_default = options.conn_id == AIRFLOWS_DEFAULT and AIRFLOWS_DEFAULT not in known
    if is_default and look_up("connection", AIRFLOWS_DEFAULT) is None:
        options = options.model_copy(update={"conn_id": None})
    if options.conn_id is not None and options.conn_id not in known:
        if (text := look_up("connection", options.conn_id)) is not None:
            found = Connection.read(options.conn_id, text)
            if options.keytab is None and found.extra_dejson.get("keytab"):
                raise ValueError(
                    "keytab in the connection's extra is a key itself. Name its file as keytab of the task"
                )
            return of_connection(found).over(defaults)
        raise invalid(
            f"no Spark connection {options.conn_id!r} is known to this worker, only {', '.join(known) or 'none'}. "
            "Set TIDEMILL_SPARK_CONNECTIONS or an Airflow connection, or name the master in the task. "
            "`tidemill dev` has 'connect' where Spark is: pip install 'tidemill[spark]'"
        )
    if options.conn_id is None and (options.master is not None or DEFAULT_CONNECTION not in known):
        master = SparkOptions(master=worker_context.spark_master) if worker_context.spark_master else SparkOptions()
        return (master if options.master is None else SparkOptions()).over(defaults)
    return known[options.conn_id or DEFAULT_CONNECTION].over(defaults)


def of_connection(connection: Connection) -> SparkOptions:
    """A Spark connection as Airflow's provider reads it. Raises ValueError for what is no option of Spark."""
    host = connection.host or ""
    whole = connection.conn_type == "spark" and host and ("://" in host or not connection.port)
    master = host if whole else f"{connection.conn_type}://{host}" if host else connection.conn_type
    extra = connection.extra_dejson
    wanted = {
        "master": f"{master}:{connection.port}" if connection.port else master,
        "deploy_mode": extra.get("deploy-mode"),
        "yarn_queue": extra.get("queue"),
        "namespace": extra.get("namespace"),
        "principal": extra.get("principal"),
        "properties_file": extra.get("properties-file"),
        "rest_url": _rest_url(host, extra) if master.startswith("spark://") else None,
    }
    return SparkOptions(**{name: value for name, value in wanted.items() if value is not None})


def _rest_url(host: str, extra: dict[str, Any]) -> str | None:
    """Where the extra says that masters take applications; None where it says nothing of it."""
    if not {"rest-scheme", "rest-port"} & extra.keys():
        return None
    hosts = host.rpartition("://")[2].split(",")
    names = [one if one.endswith("]") else one.rpartition(":")[0] or one for one in hosts]
    return ",".join(f"{extra.get('rest-scheme', 'http')}://{name}:{extra.get('rest-port', 6066)}" for name in names)


def invalid(message: str) -> Exception:
    """The failure of a task that cannot be run as it is written, however often it is tried."""
    return task_failure(Failure(error_type="InvalidInput", message=message, retryable=False))
