"""Tasks by their Airflow names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from .dags import DAG
from .links import Output
from .mapped import Mappable
from .spark_options import spark_options


class EmptyOperator(Mappable):
    """A task that does nothing."""

    def __init__(self, task_id: str, *, dag: DAG | None = None, **options: Any) -> None:
        super().__init__("empty", task_id, options, dag=dag)


class BashOperator(Mappable):
    """A bash command; its last line of output is the result. Exit code 99 skips the task."""

    def __init__(
        self,
        task_id: str,
        *,
        bash_command: str | Output,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        dag: DAG | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            "bash", task_id, {**options, "command": as_text(bash_command), "env": env or {}, "cwd": cwd}, dag=dag
        )
        self._follow(bash_command)


class PythonOperator(Mappable):
    """A call of *python_callable* in a process of its own."""

    kind = "python"

    def __init__(
        self,
        task_id: str,
        *,
        python_callable: Callable[..., Any],
        op_args: Sequence[Any] = (),
        op_kwargs: dict[str, Any] | None = None,
        dag: DAG | None = None,
        **options: Any,
    ) -> None:
        fields = {**options, **call_of(python_callable, op_args, op_kwargs)}
        super().__init__(self.kind, task_id, fields, dag=dag, function=python_callable)


class BranchPythonOperator(PythonOperator):
    """A function that returns the task_ids, or ids of groups, to go on with; the others are skipped."""

    kind = "branch"


class ShortCircuitOperator(PythonOperator):
    """A function; if it returns something false, what is downstream is skipped."""

    kind = "short_circuit"


class LatestOnlyOperator(Mappable):
    """Skips what is directly downstream unless its run is the latest of the schedule."""

    def __init__(self, task_id: str, *, dag: DAG | None = None, **options: Any) -> None:
        super().__init__("latest_only", task_id, options, dag=dag)


class SparkSubmitOperator(Mappable):
    """A Spark application, submitted with spark-submit.

    *application* is a path, looked up from the DAG file's folder. *env_vars* (Airflow's name) and *env* are the same
    thing. The flags of spark-submit have their own names: master, conf, driver_memory, packages, ...
    """

    def __init__(
        self,
        task_id: str,
        *,
        application: str,
        application_args: Sequence[Any] | None = (),
        java_class: str | None = None,
        env_vars: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        dag: DAG | None = None,
        **options: Any,
    ) -> None:
        spark, rest = spark_options(options)
        fields = {
            **rest,
            "application": application,
            "application_args": tuple(a if isinstance(a, Output) else str(a) for a in application_args or ()),
            "java_class": java_class,
            "env": {**(env or {}), **(env_vars or {})},
            "spark": spark,
        }
        super().__init__("spark_submit", task_id, fields, dag=dag)


class SparkSqlOperator(Mappable):
    """SQL statements, run in order by Spark; *sql* is their text, or a `.sql` file beside the DAG file.

    The rows of the last statement are the result, or go to *output*.
    """

    def __init__(self, task_id: str, *, sql: str, dag: DAG | None = None, **options: Any) -> None:
        spark, rest = spark_options(options)
        super().__init__("spark_sql", task_id, {**rest, "sql": sql, "spark": spark}, dag=dag)


class SparkPipelinesOperator(Mappable):
    """A declarative pipeline of Spark, brought up to date; *pipeline_spec* is the path of its specification.

    None: spark-pipeline.yml beside the DAG file. *env_vars* (Airflow's name) and *env* are the same thing.
    *refresh* and *full_refresh* choose datasets, as a list or with commas between.
    """

    def __init__(
        self,
        task_id: str,
        *,
        pipeline_spec: str | None = None,
        refresh: Sequence[str] | str = (),
        full_refresh: Sequence[str] | str = (),
        env_vars: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        dag: DAG | None = None,
        **options: Any,
    ) -> None:
        spark, rest = spark_options(options)
        chosen = {
            name: (value,) if isinstance(value, str) else tuple(value)
            for name, value in (("refresh", refresh), ("full_refresh", full_refresh))
        }
        specification = {} if pipeline_spec is None else {"pipeline_spec": pipeline_spec}
        environment = {**(env or {}), **(env_vars or {})}
        fields = {**rest, **chosen, **specification, "env": environment, "spark": spark}
        super().__init__("spark_pipelines", task_id, fields, dag=dag)


def spark_sql(task_id: str, sql: str, **options: Any) -> SparkSqlOperator:
    """`SparkSqlOperator` as a function."""
    return SparkSqlOperator(task_id, sql=sql, **options)


def spark_submit(task_id: str, application: str, **options: Any) -> SparkSubmitOperator:
    """`SparkSubmitOperator` as a function."""
    return SparkSubmitOperator(task_id, application=application, **options)


def as_text(value: Any) -> Any:
    """*value*; the result of a task as the template that asks for it."""
    return str(value) if isinstance(value, Output) else value


def call_of(function: Callable[..., Any], op_args: Sequence[Any], op_kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The fields of a task that calls *function*."""
    return {"args": tuple(op_args), "kwargs": op_kwargs or {}, "takes_context": takes_context(function)}


SESSION_NAMES = ("spark", "sc")


def session_parameters(function: Callable[..., Any]) -> list[str]:
    """Return the parameters of *function* that a Spark session goes into.

    Those named `spark` and `sc`, which is its SparkContext (Airflow: SPARK_CONTEXT_KEYS); without either, the first.
    One that takes whatever is named has both.
    """
    parameters = inspect.signature(function).parameters
    first = next(iter(parameters.values()), None)
    if first is not None and first.kind is first.VAR_KEYWORD:
        return [*SESSION_NAMES]
    return [name for name in SESSION_NAMES if name in parameters] or [*parameters][:1]


def takes_context(function: Callable[..., Any]) -> bool:
    """Whether *function* may pull any result: it asks for `ti` or for everything."""
    parameters = inspect.signature(function).parameters.values()
    return any(p.kind is inspect.Parameter.VAR_KEYWORD or p.name in ("ti", "task_instance") for p in parameters)
