"""Tasks of DAG files that are written for Airflow."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import BaseTask


class AirflowTask(BaseTask):
    """A task whose operator Airflow's own Task SDK runs, in a process that has imported the DAG file.

    What the operator was given stays in the file: here is only what decides when the task runs.
    """

    activity: ClassVar[str | None] = "tidemill.airflow"
    airflow_name: ClassVar[str] = "BaseOperator"
    kind: Literal["airflow"] = "airflow"
    operator: Annotated[str, Field(min_length=1)]
    """The operator's class, as `package.module.Class`."""
    custom_operator_name: str | None = None
    """What the class calls itself, as `@task`."""
    is_sensor: bool = False
    """Whether the operator is a sensor."""
    xcom_from: tuple[str, ...] = ()
    """The unmapped tasks whose results its arguments name: they are sent along, others are asked for."""

    calls_back: bool = False
    """Whether somebody wants to be called when a try of it fails."""

    @property
    def operator_name(self) -> str:
        """The operator as Airflow's user interface shows it."""
        return self.custom_operator_name or self.class_name

    @property
    def waits_for_room(self) -> bool:
        """Whether Airflow's provider starts a driver of Spark for it, below the worker."""
        return self.operator.startswith("airflow.providers.apache.spark.")

    @property
    def class_name(self) -> str:
        return self.operator.rpartition(".")[2]

    @property
    def shown_class(self) -> str:
        return self.class_name

    def uses(self) -> set[str]:
        return super().uses() | {*self.xcom_from}
