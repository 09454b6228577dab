"""Spark operators of Airflow's provider that tidemill carries out itself: submitted exactly once, never left behind.

One that asks for what tidemill's own Spark tasks do not have is run by the provider's code, as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from ....model.authoring.dags import DAG
from ....model.authoring.operators import SparkSqlOperator, SparkSubmitOperator
from ....model.errors import InvalidInputError
from ....model.spec.tasks import SparkSqlTask, SparkSubmitTask, SparkWork

PROVIDER = "airflow.providers.apache.spark.operators."
SUBMIT, SQL = f"{PROVIDER}spark_submit.SparkSubmitOperator", f"{PROVIDER}spark_sql.SparkSqlOperator"
WITHOUT_EFFECT = {"status_poll_interval", "verbose", "durable", "reconnect_on_retry", "track_driver_via_k8s_api"}
"""Arguments of the provider's that say how it follows an application: tidemill does so by itself."""
ONLY_IN_AIRFLOW = {
    "spark_binary": "another program than spark-submit",
    "use_krb5ccache": "a ticket cache of Kerberos",
    "post_submit_commands": "commands after the submission",
    "openlineage_inject_parent_job_info": "OpenLineage by Airflow's provider",
    "openlineage_inject_transport_info": "OpenLineage by Airflow's provider",
}
CALLBACKS = tuple(f"on_{event}_callback" for event in ("execute", "success", "failure", "retry", "skipped"))
OF_THE_TASK = ("retry_policy", "pre_execute", "post_execute", "email", "template_fields", "resources")
OF_THE_DAG = (
    "user_defined_macros",
    "user_defined_filters",
    "template_searchpath",
    "render_template_as_native_obj",
    "jinja_environment_kwargs",
)
MADE: dict[str, Callable[..., Any]] = {SUBMIT: SparkSubmitOperator, SQL: SparkSqlOperator}


class RunByAirflowError(ValueError):
    """Why the provider's own code has to run it."""


def spark_fields(task: Any, class_path: str) -> dict[str, Any] | None:
    """What is the Spark task's own as tidemill's models have it; None for another kind of task.

    Raises RunByAirflowError for one that tidemill cannot carry out as it is written.
    """
    if class_path not in MADE:
        return None
    given = {name: value for name, value in _given(task).items() if name not in _common() and value is not None}
    _check(task, given)
    options = {name: value for name, value in given.items() if name not in {*WITHOUT_EFFECT, *ONLY_IN_AIRFLOW}}
    if options.get("name") == "default-name":
        del options["name"]
    try:
        node = MADE[class_path](task_id=task.task_id, dag=DAG("probe"), **options)
        fields = {name: value for name, value in node.fields().items() if name in OF_SPARK}
        KINDS[fields["kind"]].model_validate({**fields, "task_id": task.task_id})
    except ValidationError as error:  # values that Airflow's code takes, and means something by
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        where = f"{name} is of type {type(first['input']).__name__}: " if name else ""  # a value may be a secret
        raise RunByAirflowError(f"{where}{first['msg'].lower()}") from None
    except (InvalidInputError, TypeError, ValueError) as error:
        raise RunByAirflowError(str(error).split("\n")[0]) from None
    return fields


KINDS: dict[str, type[SparkWork]] = {"spark_submit": SparkSubmitTask, "spark_sql": SparkSqlTask}
OF_SPARK = {"kind", "application", "application_args", "java_class", "env", "spark", "sql"}


def _given(task: Any) -> dict[str, Any]:
    found: dict[str, Any] = task._BaseOperator__init_kwargs
    return found


def _common() -> frozenset[str]:
    """The arguments that all operators have."""
    from airflow.sdk import BaseOperator

    return frozenset(inspect.signature(BaseOperator.__init__).parameters) | {"default_args"}


def _check(task: Any, given: dict[str, Any]) -> None:
    from airflow.sdk.definitions.xcom_arg import XComArg

    for name, feature in ONLY_IN_AIRFLOW.items():
        if given.get(name):
            raise RunByAirflowError(f"{name} asks for {feature}")
    if any(getattr(task, name, None) for name in CALLBACKS):
        raise RunByAirflowError("it has callbacks, which Airflow's code calls")
    for name in OF_THE_TASK:
        if _given(task).get(name):
            raise RunByAirflowError(f"it has {name}, which only Airflow's code heeds")
    if _values(task.params) != _values(task.dag.params):
        raise RunByAirflowError("it has params of its own, which only Airflow's code heeds")
    for name in OF_THE_DAG:
        if getattr(task.dag, name, None):
            raise RunByAirflowError(f"its DAG has {name}, by which Airflow's code renders templates")
    for value in given.values():
        if any(True for _ in XComArg.iter_xcom_references(value)):
            raise RunByAirflowError("it is given results of other tasks")


def _values(params: Any) -> dict[str, Any]:
    """What params are by default, by name."""
    return {name: params.get_param(name).value for name in params}
