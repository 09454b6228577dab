"""Sensors and other tasks that wait, by their Airflow names. None of them holds a worker while it waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, time, timedelta
from typing import Any

from .dags import DAG
from .mapped import Mappable
from .nodes import current_dag
from .operators import call_of


class PythonSensor(Mappable):
    """Waits until *python_callable* returns something true."""

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
        super().__init__("sensor", task_id, fields, dag=dag, function=python_callable)


class BashSensor(Mappable):
    """Waits until *bash_command* ends with exit code 0."""

    def __init__(self, task_id: str, *, bash_command: str, dag: DAG | None = None, **options: Any) -> None:
        super().__init__("bash_sensor", task_id, {**options, "command": bash_command}, dag=dag)


class ExternalTaskSensor(Mappable):
    """Waits for the run of another DAG of the same logical date, or for tasks of it."""

    def __init__(
        self,
        task_id: str,
        *,
        external_dag_id: str,
        external_task_id: str | None = None,
        external_task_ids: Sequence[str] = (),
        execution_delta: timedelta = timedelta(),
        dag: DAG | None = None,
        **options: Any,
    ) -> None:
        fields = {
            **options,
            "external_dag_id": external_dag_id,
            "external_task_ids": (external_task_id,) if external_task_id is not None else tuple(external_task_ids),
            "execution_delta": execution_delta,
        }
        super().__init__("external_task", task_id, fields, dag=dag)


class DateTimeSensor(Mappable):
    """Waits for *target_time*: a datetime, or a text that may be a template."""

    def __init__(self, task_id: str, *, target_time: str | datetime, dag: DAG | None = None, **options: Any) -> None:
        target = target_time.isoformat() if isinstance(target_time, datetime) else target_time
        super().__init__("wait_until", task_id, {**in_zone(options, dag), "target_time": target}, dag=dag)


class TimeSensor(Mappable):
    """Waits for a time of the day on which the run's interval ends, in the DAG's time zone."""

    def __init__(self, task_id: str, *, target_time: time, dag: DAG | None = None, **options: Any) -> None:
        super().__init__(
            "wait_until", task_id, {**in_zone(options, dag), "target_time": target_time.isoformat()}, dag=dag
        )


class TimeDeltaSensor(Mappable):
    """Waits until *delta* after the end of the run's data interval."""

    def __init__(self, task_id: str, *, delta: timedelta, dag: DAG | None = None, **options: Any) -> None:
        super().__init__("wait_until", task_id, {**options, "delta": delta}, dag=dag)


class ApprovalOperator(Mappable):
    """Waits for a person to choose one of *options* (Airflow: HITLOperator, ApprovalOperator)."""

    def __init__(
        self,
        task_id: str,
        *,
        subject: str = "",
        options: Sequence[str] = ("Approve", "Reject"),
        defaults: Sequence[str] | None = None,
        dag: DAG | None = None,
        **others: Any,
    ) -> None:
        fields = {
            **others,
            "subject": subject,
            "options": tuple(options),
            "defaults": None if defaults is None else tuple(defaults),
        }
        super().__init__("approval", task_id, fields, dag=dag)


def in_zone(options: dict[str, Any], dag: DAG | None) -> dict[str, Any]:
    """The options of a task that reads a time, with the DAG's time zone."""
    owner = dag or current_dag()
    return {"timezone": owner.timezone if owner is not None else "UTC", **options}
