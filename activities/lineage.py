"""Whether OpenLineage is configured, and what Spark applications are told of the task that they belong to."""

import os

from ..model.run.attempts import TaskAttempt

NAMESPACE = "OPENLINEAGE_NAMESPACE"
TRANSPORT = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")


def is_configured() -> bool:
    """Whether the usual OPENLINEAGE_* variables say where events go."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    return any(os.environ.get(name) for name in TRANSPORT) or any(
        name.startswith("OPENLINEAGE__TRANSPORT") for name in os.environ
    )


def namespace() -> str:
    """The namespace of jobs, and of assets that say no place."""
    return os.environ.get(NAMESPACE) or "tidemill"


def spark_conf(attempt: TaskAttempt) -> dict[str, str]:
    """By which openlineage-spark, where the application has it, tells that its runs are below the task's."""
    if not is_configured():
        return {}
    parent = {
        "parentRunId": str(attempt.uuid),
        "parentJobNamespace": namespace(),
        "parentJobName": f"{attempt.run.dag_id}.{attempt.task.task_id}",
    }
    return {f"spark.openlineage.{name}": value for name, value in parent.items()}
