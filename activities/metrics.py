"""What operators measure of a worker: attempts, parses, drivers. Times are in milliseconds, as Temporal's are."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from temporalio import activity

from ..model.run.spark_figures import COUNTED, SparkFigures

_lock = threading.Lock()
_running: Counter[str] = Counter()


@contextmanager
def running(kind: str) -> Iterator[None]:
    """Counts one more attempt of *kind* as running on this worker, as long as the block."""
    _count(kind, 1)
    try:
        yield
    finally:
        _count(kind, -1)


def _count(kind: str, more: int) -> None:
    with _lock:
        _running[kind] += more
        now = _running[kind]
    meter = activity.metric_meter().with_additional_attributes({"kind": kind})
    meter.create_gauge("tidemill_running_attempts", "Attempts that run on this worker").set(now)


def handed_over() -> None:
    """That an attempt was given to another worker, because this one stops."""
    activity.metric_meter().create_counter("tidemill_handed_over_attempts", "Attempts given to another worker").add(1)


def parsed(bundle: str, took: timedelta, *, failed: bool) -> None:
    """That a DAG file was parsed (Airflow: dag_processing.*)."""
    meter = activity.metric_meter().with_additional_attributes({"bundle": bundle})
    meter.create_histogram_timedelta("tidemill_dag_file_parse_duration", "Parsing one DAG file", "ms").record(took)
    if failed:
        meter.create_counter("tidemill_dag_file_import_errors", "Parses that ended in an import error").add(1)


def of_application(figures: SparkFigures, dag_id: str, task_id: str) -> None:
    """What a Spark application has read, written, shuffled, spilled and lost, added to that of the task's others."""
    meter = activity.metric_meter().with_additional_attributes({"dag_id": dag_id, "task_id": task_id})
    for name in COUNTED:
        if value := getattr(figures, name):
            meter.create_counter(f"tidemill_spark_{name}", "Of Spark applications, by their own record").add(value)
