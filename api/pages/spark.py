"""A Spark application in words."""

from typing import Any

from ...model.spec.tasks.spark import SparkWork

OF_TASKS = {"java_class", "full_refresh_all", "pipeline_command"}
"""What is shown beside the fields that are templates; of the environment nothing is."""
SECRET = {"conf", "keytab", "principal", "properties_file"}
"""Options that may hold secrets, or lead to them."""


def spark_options(task: SparkWork) -> list[tuple[str, Any]]:
    """What the DAG file says of the application; of its conf the names alone."""
    of_task = task.model_dump(mode="json", exclude_defaults=True)
    of_spark = task.spark.model_dump(mode="json", exclude_defaults=True, exclude=SECRET)
    shown = {*task.template_fields, *OF_TASKS} - {"env"}
    rows: list[tuple[str, Any]] = [(name, of_task[name]) for name in of_task if name in shown]
    rows += of_spark.items()
    if task.spark.conf:
        rows.append(("conf", ", ".join(sorted(task.spark.conf))))
    return rows


def share_done(progress: dict[str, Any]) -> float | None:
    """How much of its work it says is done; else how much of its stage, from 0 to 1; None where it says neither."""
    if "fraction" in progress:
        return float(progress["fraction"])
    if progress.get("tasks"):
        return float(progress["tasks_done"]) / float(progress["tasks"])
    return None
