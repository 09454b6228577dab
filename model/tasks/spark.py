"""Tasks that are Spark applications."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from ..base import Model
from .base import BaseTask
from .code import CallTask


class SparkOptions(Model):
    """How a Spark application is submitted: the flags of spark-submit by their names."""

    master: str | None = None
    deploy_mode: Literal["client"] = "client"
    conf: dict[str, str | int | float | bool] = {}
    driver_memory: str | None = None
    executor_memory: str | None = None
    executor_cores: PositiveInt | None = None
    num_executors: PositiveInt | None = None
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    name: str | None = None


class SparkSubmitTask(BaseTask):
    """A Spark application, submitted with spark-submit (Airflow: SparkSubmitOperator).

    A relative `application` is looked up from the folder of the DAG file.
    """

    activity: ClassVar[str | None] = "tidemill.spark"
    kind: Literal["spark_submit"] = "spark_submit"
    application: Annotated[str, Field(min_length=1)]
    application_args: tuple[str | dict[str, str], ...] = ()
    """Texts, or references to results of other tasks."""
    java_class: str | None = None
    spark: SparkOptions = SparkOptions()
    env: dict[str, str] = {}

    def templated(self) -> tuple[Any, ...]:
        return (self.application, self.application_args, self.spark.conf, self.env)


class PySparkTask(CallTask):
    """A function of the DAG file that is given a SparkSession (Airflow: @task.pyspark)."""

    activity: ClassVar[str | None] = "tidemill.spark"
    kind: Literal["pyspark"] = "pyspark"
    spark: SparkOptions = SparkOptions()
    env: dict[str, str] = {}

    def templated(self) -> tuple[Any, ...]:
        return (*super().templated(), self.spark.conf, self.env)
