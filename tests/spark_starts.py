"""Starts of Spark attempts for tests that ask no cluster."""

from pathlib import Path
from typing import Any, cast

from temporalio.testing import ActivityEnvironment
from tidemill.activities.spark.modes import MODES
from tidemill.activities.spark.starts import SparkStart
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.run.attempts import TaskAttempt

YARN = {"master": "yarn", "deploy_mode": "cluster", "yarn_queue": "etl", "num_executors": 4, "executor_memory": "2g"}
KUBERNETES = {
    "master": "k8s://https://10.0.0.1:6443",
    "deploy_mode": "cluster",
    "namespace": "pipelines",
    "conf": {"spark.kubernetes.container.image": "registry.example/tidemill:1"},
}


def start(home: Path, spark: dict[str, Any], **fields: Any) -> SparkStart:
    """The first start of an attempt."""
    run = {
        "dag_id": "sales",
        "run_id": "scheduled__2024-01-01T00:00:00+00:00",
        "run_type": "scheduled",
        "triggered_by": "timetable",
        "run_after": "2024-01-02T00:00:00Z",
        "logical_date": "2024-01-01T00:00:00Z",
        "data_interval": {"start": "2024-01-01T00:00:00Z", "end": "2024-01-02T00:00:00Z"},
    }
    task = {"kind": "spark_submit", "task_id": "load", "application": "load.py", "application_args": ["{{ ds }}"]}
    attempt = TaskAttempt.model_validate({"run": run, "task": {**task, "spark": spark, **fields}, "try_number": 2})
    worker_context = WorkerContext(home=home, dags_folder=Path("/dags"))
    try:
        return cast(SparkStart, ActivityEnvironment().run(SparkStart.of, attempt, worker_context, MODES))
    finally:
        worker_context.close()


def conf_of(argv: list[str]) -> dict[str, str]:
    """What the properties file of the command line says; nobody else may read that file."""
    path = Path(argv[argv.index("--properties-file") + 1])
    assert path.stat().st_mode & 0o777 == 0o600
    assert "--conf" not in argv
    pairs = [line.replace("\\:", ":").replace("\\=", "\0").partition("=") for line in path.read_text().splitlines()]
    return {key: value.replace("\0", "=") for key, _, value in pairs}
