"""Airflow's contract, Temporal's guarantees: DAGs that are scheduled and run by durable workflows.

What a DAG file needs is here; a worker of your own also wants `tidemill.worker.plugin`.
"""

from .model.authoring import DAG, Output, chain, cross_downstream
from .model.context import get_current_context
from .model.dag import DagSpec
from .model.errors import InvalidInputError
from .model.operators import (
    BashOperator,
    EmptyOperator,
    PythonOperator,
    SparkSubmitOperator,
    dag,
    spark_submit,
    task,
)
from .model.timetables import (
    Continuous,
    CronInterval,
    CronTrigger,
    Custom,
    DataInterval,
    DeltaInterval,
    DeltaTrigger,
    Events,
    MultiCronTrigger,
    Once,
)
from .model.trigger_rules import TriggerRule

__all__ = [
    "DAG",
    "BashOperator",
    "Continuous",
    "CronInterval",
    "CronTrigger",
    "Custom",
    "DagSpec",
    "DataInterval",
    "DeltaInterval",
    "DeltaTrigger",
    "EmptyOperator",
    "Events",
    "InvalidInputError",
    "MultiCronTrigger",
    "Once",
    "Output",
    "PythonOperator",
    "SparkSubmitOperator",
    "TriggerRule",
    "chain",
    "cross_downstream",
    "dag",
    "get_current_context",
    "spark_submit",
    "task",
]
