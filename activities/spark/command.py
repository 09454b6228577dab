"""The spark-submit command of an attempt: flags, conf and environment."""

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...model.base import iso
from ...model.run.task_instances import Failure
from ...model.spec.tasks import SparkOptions
from ...model.spec.tasks.spark import DEFAULT_MASTER, megabytes
from .. import lineage, tracing
from ..attempts.supervision import task_failure
from ..processes.environment import for_children
from ..processes.users import RunAs, acting_as
from .place import invalid, is_url, path_of_script
from .starts import SparkStart
from .tables import branch_conf

DRIVER = Path(__file__).with_name("driver.py")
PROPERTIES = "spark.conf"
GLOB = frozenset("*?[{")
PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
TRIMMED = "".join(map(chr, range(33))).replace("\r", "").replace("\n", "")
"""What Spark takes off both ends of a value that it reads in a file."""
SECRET = re.compile(r"(?i)secret|password|token|access[.]?key")
"""Spark's own default for names of secrets (spark.redaction.regex)."""


def spark_home() -> Path:
    """Where Spark is: SPARK_HOME, else pip's pyspark. Raises the task's failure if there is neither."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        message = (
            "Spark is not installed on this worker. Install it with pip install 'tidemill[spark]', or set SPARK_HOME"
        )
        raise task_failure(Failure(error_type="SparkNotFound", message=message, retryable=False))
    return Path(found.origin).parent


@lru_cache
def spark_version(home: Path) -> tuple[int, ...] | None:
    """The version of the Spark at *home*, as its jars say it; None where they say nothing."""
    for jar in home.glob("jars/spark-core_*.jar"):
        if (found := re.match(r"spark-core_[\d.]+-(\d+(?:\.\d+)+)", jar.name)) is not None:
            return tuple(int(part) for part in found[1].split("."))
    return None


def loads_defaults(home: Path) -> bool:
    """Whether spark-submit can be told to read its defaults beside a properties file: Spark 4 can."""
    version = spark_version(home)
    return version is None or version >= (4,)


def defaults(home: Path) -> str:
    """The defaults of the Spark at *home* (spark-defaults.conf), for a release that is not told to read them itself."""
    place = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf", "spark-defaults.conf")
    try:
        return place.read_text()
    except FileNotFoundError:
        return ""


def spark_submit(start: SparkStart, java_options: str = "", shipped: Sequence[str] = ()) -> list[str]:
    """The command line, from the program to the application's last argument. *shipped*: as `flags` has it."""
    options = start.options
    argv = [str(spark_home() / "bin" / "spark-submit"), "--master", options.master or DEFAULT_MASTER]
    # Always said, lest a properties file say something else.
    argv += ["--deploy-mode", options.deploy_mode or "client"]
    argv += ["--name", options.name or start.attempt.name]
    argv += flags(options, start.file, start.folder.user, shipped)
    if (entries := class_path(start)) is not None:
        argv += ["--driver-class-path", entries]
    if options.properties_file is None and loads_defaults(spark_home()):
        argv.append("--load-spark-defaults")
    argv += ["--properties-file", str(leave_properties(start, java_options))]
    return [*argv, *blank_edged(conf_of(start, java_options)), *application(start)]


def blank_edged(conf: Mapping[str, str]) -> list[str]:
    """Flags for the values that begin or end with blanks: Spark takes these off what it reads in a file.

    Fails the task for a secret among them: a command line is everybody's to read.
    """
    found = {key: value for key, value in conf.items() if value.strip(TRIMMED) != value}
    if (secret := next((key for key in found if SECRET.search(key)), None)) is not None:
        message = f"conf {secret!r} begins or ends with blanks, which Spark takes off. Leave them out"
        raise invalid(message)
    return [part for key, value in found.items() for part in ("--conf", f"{key}={value}")]


def leave_properties(start: SparkStart, java_options: str = "") -> Path:
    """Leaves all conf in a file that only this user can read: a command line is everybody's to read."""
    lines = [f"{escaped(key)}={escaped(value)}" for key, value in conf_of(start, java_options).items()]
    if start.options.properties_file is not None:
        lines.insert(0, _properties(start, start.options.properties_file))  # what comes later wins
    elif not loads_defaults(spark_home()):
        lines.insert(0, defaults(spark_home()))
    return start.folder.hand_over(PROPERTIES, "\n".join(lines) + "\n")


def _properties(start: SparkStart, name: str) -> str:
    """Return what the task's own file of properties says. Fails the task where it would say it in vain."""
    place = start.file(name)
    try:
        with acting_as(start.folder.user):
            text = place.read_text()
    except (OSError, UnicodeDecodeError) as error:
        problem = f"properties_file: {name!r} cannot be read at {place}: {error}"
        raise invalid(f"{problem}. Put it beside the DAG file, or correct the path") from None
    for key in start.mode.read_from_conf:
        if re.search(rf"(?m)^[ \t]*{re.escape(key)}[ \t=:]", text):
            raise invalid(f"properties_file: {key} is read from conf only. Set it there, as conf of the task")
    return text


def escaped(text: str) -> str:
    """*text* as a key or value of a Java properties file."""
    quoted = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return "".join(f"\\{char}" if char in "=:#! " else char for char in quoted).replace("\f", "\\f")


def conf_of(start: SparkStart, java_options: str = "") -> dict[str, str]:
    """All conf: defaults for the mode, what the application is told, the attempt's identity, what the task sets."""
    return {
        **driver_conf(start, java_options),
        **dynamic_allocation(start.options),
        **plain(start.options.conf),
        **contract(start),
        **start.mode.identity(start),
    }


def application(start: SparkStart) -> list[str]:
    """What comes after the flags: the driver's own side of tidemill and what it runs, or a Java application."""
    task = start.script
    if not start.is_java and (elsewhere := start.mode.application(start)) is not None:
        return elsewhere
    if task is None:
        return [str(DRIVER), str(start.folder.work)]
    name = application_file(start)
    arguments = [str(argument) for argument in start.filled["application_args"]]
    if task.is_java:
        return [*(["--class", task.java_class] if task.java_class else []), name, *arguments]
    return [str(DRIVER), str(start.folder.work), name, *arguments]


def application_file(start: SparkStart) -> str:
    """Return the script or JAR as spark-submit finds it; a JAR may be a URL. Fails the task for one not there."""
    name, user = str(start.filled["application"]), start.folder.user
    if _is_there(start.file(name), user):
        return str(start.file(name))
    if not start.is_java:
        name = path_of_script(name)
        if start.mode.outlives_worker and Path(name).is_absolute():
            return name  # it may be on the cluster's hosts alone
    return _found("application", name, start.file, user)


def flags(
    options: SparkOptions, file: Callable[[str], Path], run_as: RunAs | None = None, shipped: Sequence[str] = ()
) -> list[str]:
    """The options as flags; *file* finds what a relative path means, *user* has to read what it is.

    *shipped*: files that go with those of the options.
    """

    def paths(option: str, names: tuple[str, ...]) -> str:
        return ",".join(_found(option, name, file, run_as) for name in names)

    argv = []
    for flag, value in (
        ("--driver-memory", in_megabytes(options.driver_memory)),
        ("--driver-cores", options.driver_cores),
        ("--executor-memory", in_megabytes(options.executor_memory)),
        ("--executor-cores", options.executor_cores),
        ("--total-executor-cores", options.total_executor_cores),
        ("--num-executors", options.num_executors),
        ("--packages", ",".join(options.packages)),
        ("--exclude-packages", ",".join(options.exclude_packages)),
        ("--repositories", ",".join(options.repositories)),
        ("--jars", paths("jars", options.jars)),
        ("--py-files", paths("py_files", options.py_files)),
        ("--files", ",".join(filter(None, [paths("files", options.files), *shipped]))),
        ("--archives", paths("archives", options.archives)),
        ("--queue", options.yarn_queue),
        ("--principal", options.principal),
        ("--keytab", _found("keytab", options.keytab, file, run_as) if options.keytab else None),
        ("--proxy-user", options.proxy_user),
    ):
        if value:
            argv += [flag, str(value)]
    return argv


def class_path(start: SparkStart) -> str | None:
    """Return the driver's further class path, of what is beside the DAG file whole paths; None without one.

    Where the driver has a folder of its own, its entries are of that.
    """
    entries = start.options.driver_class_path
    if not entries or start.mode.has_own_python:
        return entries or None
    places = ((entry, start.file(entry)) for entry in entries.split(":"))
    user = start.folder.user
    return ":".join(str(place) if entry and _is_there(place, user) else entry for entry, place in places)


def _is_there(place: Path, run_as: RunAs | None) -> bool:
    """Whether *place* is there for *user*, whose driver has to read it."""
    with acting_as(run_as):
        try:
            return place.exists()
        except OSError:
            return False


def _found(option: str, name: str, file: Callable[[str], Path], run_as: RunAs | None) -> str:
    """What spark-submit is given for the file *name*. Fails the task for one that is not there: Spark only warns."""
    if is_url(name):
        return name
    path, mark, alias = name.partition("#")  # what it is called where it is unpacked
    place = file(path)
    if not _is_there(place, run_as) and GLOB.isdisjoint(path):
        message = f"{option}: {path!r} is not at {place}. Put it beside the DAG file, or correct the path"
        raise invalid(message)
    return f"{place}{mark}{alias}"


def in_megabytes(size: str | None) -> str | None:
    """*size* as Java takes it, too, which knows less ways of writing it than Spark."""
    return None if size is None else f"{megabytes(size)}m"


def dynamic_allocation(options: SparkOptions) -> dict[str, str]:
    conf: dict[str, str] = {}
    if options.dynamic_allocation is not None:
        conf["spark.dynamicAllocation.enabled"] = str(options.dynamic_allocation).lower()
        conf["spark.dynamicAllocation.shuffleTracking.enabled"] = str(options.dynamic_allocation).lower()
    if options.min_executors is not None:
        conf["spark.dynamicAllocation.minExecutors"] = str(options.min_executors)
    if options.max_executors is not None:
        conf["spark.dynamicAllocation.maxExecutors"] = str(options.max_executors)
    return conf


FAULT_HANDLERS = ("spark.python.worker.faulthandler.enabled", "spark.sql.execution.pyspark.udf.faulthandler.enabled")
"""Have Python workers that crash say where."""


def driver_conf(start: SparkStart, java_options: str) -> dict[str, str]:
    """Defaults for drivers: those of the mode, a quick start; one that is the whole cluster stays on loopback."""
    master = start.options.master or DEFAULT_MASTER
    conf = {**dict.fromkeys(FAULT_HANDLERS, "true"), **start.mode.conf}
    if start.options.namespace is not None:
        conf["spark.kubernetes.namespace"] = start.options.namespace
    if java_options:
        conf["spark.driver.extraJavaOptions"] = java_options
    if master.startswith("local"):
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return conf


def whose(start: SparkStart) -> dict[str, str]:
    """Return what names the attempt for people."""
    attempt = start.attempt
    return {
        "dag_id": attempt.run.dag_id,
        "run_id": attempt.run.run_id,
        "task_id": attempt.task.task_id,
        "map_index": str(attempt.map_index),
        "try_number": str(attempt.try_number),
    }


def contract(start: SparkStart) -> dict[str, str]:
    """What every application is told of its run, as `spark.tidemill.*` conf."""
    attempt = start.attempt
    run = attempt.run
    facts = {
        **whose(start),
        "attempt": attempt.uuid.hex,
        "result": f"{start.driver_folder}/xcom.json",
    }
    if run.logical_date is not None:
        facts["logical_date"] = iso(run.logical_date)
    if run.data_interval is not None:
        facts["data_interval_start"] = iso(run.data_interval.start)
        facts["data_interval_end"] = iso(run.data_interval.end)
    if start.staged is not None:
        facts["output"] = start.staged.staged
    facts |= {name.lower(): value for name, value in tracing.environment().items()}
    contract = {f"spark.tidemill.{name}": value for name, value in facts.items()}
    if start.staged_table is not None:
        contract |= branch_conf(attempt, start.staged_table)
    return {**contract, **lineage.spark_conf(attempt)}


def environment(
    env: dict[str, str], java: Path | None, patterns: Sequence[str] = (), *, has_own_python: bool = False
) -> dict[str, str]:
    """What spark-submit needs to find itself, Java and Python, and what children get of the worker's environment.

    PYSPARK_PYTHON is the worker's own setting, else this Python: executors of a cluster need not have it at that path.
    Where the driver runs in a container it is the image's, or the archive's, unless somebody says otherwise.
    """
    given = os.environ.get("PYSPARK_PYTHON")
    interpreters = {} if given is None and has_own_python else dict.fromkeys(PYTHONS, given or sys.executable)
    found = {
        "SPARK_HOME": str(spark_home()),
        **interpreters,
        "PYTHONSAFEPATH": "1",
        **({"JAVA_HOME": str(java.parent.parent)} if java is not None else {}),
    }
    return {**for_children(os.environ, patterns), **found, **env}


def plain(conf: dict[str, Any]) -> dict[str, str]:
    """Conf values as Spark writes them: `true`, not `True`."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in conf.items()}
