"""The spark-submit command of an attempt: flags, conf and environment."""

import os
import sys
from pathlib import Path
from typing import Any

import pyspark

from ..model.attempts import TaskAttempt
from ..model.base import iso
from ..model.tasks import PySparkTask, SparkOptions, SparkSubmitTask

BOOTSTRAP = Path(__file__).with_name("spark_bootstrap.py")
SPARK_HOME = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
DEFAULT_MASTER = "local[*]"


def spark_submit(
    attempt: TaskAttempt,
    filled: dict[str, Any],
    folder: Path,
    directory: Path,
    defaults: dict[str, str],
    java_options: str,
) -> list[str]:
    """The command line. *filled* are the templated fields, *defaults* conf that the task may override."""
    task = attempt.task
    assert isinstance(task, SparkSubmitTask | PySparkTask)  # noqa: S101
    options = task.spark
    master = options.master or defaults.get("spark.master") or DEFAULT_MASTER
    conf = {**local_conf(master, java_options), **defaults, **contract(attempt, folder), **plain(filled["conf"])}
    conf.pop("spark.master", None)
    argv = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, "--name", options.name or attempt.name]
    argv += flags(options, directory)
    for key, value in conf.items():
        argv += ["--conf", f"{key}={value}"]
    if isinstance(task, PySparkTask):
        return [*argv, str(BOOTSTRAP), str(folder), "--function"]
    application = str(directory / filled["application"])
    arguments = [str(argument) for argument in filled["application_args"]]
    if task.java_class is not None:
        return [*argv, "--class", task.java_class, application, *arguments]
    if application.endswith(".jar"):
        return [*argv, application, *arguments]
    return [*argv, str(BOOTSTRAP), str(folder), application, *arguments]


def flags(options: SparkOptions, directory: Path) -> list[str]:
    argv = []
    for flag, value in (
        ("--driver-memory", options.driver_memory),
        ("--executor-memory", options.executor_memory),
        ("--executor-cores", options.executor_cores),
        ("--num-executors", options.num_executors),
        ("--packages", ",".join(options.packages)),
        ("--jars", ",".join(str(directory / path) for path in options.jars)),
        ("--py-files", ",".join(str(directory / path) for path in options.py_files)),
        ("--files", ",".join(str(directory / path) for path in options.files)),
    ):
        if value:
            argv += [flag, str(value)]
    return argv


def local_conf(master: str, java_options: str) -> dict[str, str]:
    """Defaults for a driver that is the whole cluster: loopback only, its own UI port, a quick start."""
    if not master.startswith("local"):
        return {"spark.ui.port": "0"}
    return {
        "spark.ui.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        **({"spark.driver.extraJavaOptions": java_options} if java_options else {}),
    }


def contract(attempt: TaskAttempt, folder: Path) -> dict[str, str]:
    """What every application is told of its run, as `spark.tidemill.*` conf."""
    run = attempt.run
    told = {
        "dag_id": run.dag_id,
        "run_id": run.run_id,
        "task_id": attempt.task.task_id,
        "try_number": str(attempt.try_number),
        "result": str(folder / "xcom.json"),
    }
    if run.logical_date is not None:
        told["logical_date"] = iso(run.logical_date)
    if run.data_interval is not None:
        told["data_interval_start"] = iso(run.data_interval.start)
        told["data_interval_end"] = iso(run.data_interval.end)
    return {f"spark.tidemill.{name}": value for name, value in told.items()}


def environment(env: dict[str, str], java: Path | None) -> dict[str, str]:
    """What spark-submit needs to find itself, Java and Python, whatever the worker was started with."""
    found = {
        "SPARK_HOME": str(SPARK_HOME),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONSAFEPATH": "1",
        **({"JAVA_HOME": str(java.parent.parent)} if java is not None else {}),
    }
    return {**os.environ, **found, **env}


def plain(conf: dict[str, Any]) -> dict[str, str]:
    """Conf values as Spark writes them: `true`, not `True`."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in conf.items()}
