# What `from tidemill import ...` gives: read by type checkers, and at run time to import a name when it is used.
from ._local import DAG, dag
from .activities.dates import days_ago
from .activities.hooks import BaseHook
from .activities.secrets import Connection, Variable
from .model.authoring.decorators import setup, task, teardown
from .model.authoring.foreign import TemporalActivityOperator, TemporalWorkflowOperator, TriggerDagRunOperator
from .model.authoring.groups import Label, TaskGroup, task_group
from .model.authoring.links import Output
from .model.authoring.operators import (
    BashOperator,
    BranchPythonOperator,
    EmptyOperator,
    LatestOnlyOperator,
    PythonOperator,
    ShortCircuitOperator,
    SparkSqlOperator,
    SparkSubmitOperator,
    spark_sql,
    spark_submit,
)
from .model.authoring.order import chain, chain_linear, cross_downstream
from .model.authoring.other_python import (
    BranchExternalPythonOperator,
    BranchPythonVirtualenvOperator,
    ExternalPythonOperator,
    PythonVirtualenvOperator,
)
from .model.authoring.own_operators import BaseOperator, BaseSensorOperator
from .model.authoring.params import Param
from .model.authoring.timetables import (
    CronDataIntervalTimetable,
    CronTriggerTimetable,
    DeltaDataIntervalTimetable,
    DeltaTriggerTimetable,
    EventsTimetable,
    MultipleCronTriggerTimetable,
)
from .model.authoring.waiting import (
    ApprovalOperator,
    BashSensor,
    DateTimeSensor,
    ExternalTaskSensor,
    FileSensor,
    PythonSensor,
    TimeDeltaSensor,
    TimeSensor,
)
from .model.errors import InvalidInputError
from .model.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from .model.run.context import get_current_context
from .model.run.poking import PokeReturnValue
from .model.spec.dag import DagSpec
from .model.spec.notifiers import CommandNotifier, WebhookNotifier
from .model.spec.tasks import WeightRule
from .model.spec.timetables import (
    Continuous,
    CronInterval,
    CronTrigger,
    Custom,
    DagRunInfo,
    DataInterval,
    DeltaInterval,
    DeltaTrigger,
    Events,
    MultiCronTrigger,
    Once,
    TimeRestriction,
)
from .model.spec.trigger_rule import TriggerRule

__all__ = [
    "DAG",
    "AirflowException",
    "AirflowFailException",
    "AirflowSkipException",
    "ApprovalOperator",
    "BaseHook",
    "BaseOperator",
    "BaseSensorOperator",
    "BashOperator",
    "BashSensor",
    "BranchExternalPythonOperator",
    "BranchPythonOperator",
    "BranchPythonVirtualenvOperator",
    "CommandNotifier",
    "Connection",
    "Continuous",
    "CronDataIntervalTimetable",
    "CronInterval",
    "CronTrigger",
    "CronTriggerTimetable",
    "Custom",
    "DagRunInfo",
    "DagSpec",
    "DataInterval",
    "DateTimeSensor",
    "DeltaDataIntervalTimetable",
    "DeltaInterval",
    "DeltaTrigger",
    "DeltaTriggerTimetable",
    "EmptyOperator",
    "Events",
    "EventsTimetable",
    "ExternalPythonOperator",
    "ExternalTaskSensor",
    "FileSensor",
    "InvalidInputError",
    "Label",
    "LatestOnlyOperator",
    "MultiCronTrigger",
    "MultipleCronTriggerTimetable",
    "Once",
    "Output",
    "Param",
    "PokeReturnValue",
    "PythonOperator",
    "PythonSensor",
    "PythonVirtualenvOperator",
    "ShortCircuitOperator",
    "SparkSqlOperator",
    "SparkSubmitOperator",
    "TaskGroup",
    "TemporalActivityOperator",
    "TemporalWorkflowOperator",
    "TimeDeltaSensor",
    "TimeRestriction",
    "TimeSensor",
    "TriggerDagRunOperator",
    "TriggerRule",
    "Variable",
    "WebhookNotifier",
    "WeightRule",
    "chain",
    "chain_linear",
    "cross_downstream",
    "dag",
    "days_ago",
    "get_current_context",
    "setup",
    "spark_sql",
    "spark_submit",
    "task",
    "task_group",
    "teardown",
]
