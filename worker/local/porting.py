"""What a file that imports `airflow` would have to change: which of its names tidemill has, and which have none."""

import ast
from collections.abc import Iterator
from pathlib import Path

import tidemill

from ...model.base import Model

RENAMED = {
    "ContinuousTimetable": "Continuous",
    "DummyOperator": "EmptyOperator",
    "BranchOperator": "BranchPythonOperator",
    "DateTimeSensorAsync": "DateTimeSensor",
    "TimeSensorAsync": "TimeSensor",
    "TimeDeltaSensorAsync": "TimeDeltaSensor",
    "Timetable": "Custom",
    "ApprovalOperator": "ApprovalOperator",
    "HITLOperator": "ApprovalOperator",
    "XComArg": "Output",
    "DagRunState": "RunState",
    "TaskInstanceState": "TaskState",
}
"""Airflow's names that are called otherwise here."""


INSTEAD = {
    "BaseBranchOperator": "Write a @task.branch, or a BranchPythonOperator",
    "BaseNotifier": "Write a function, a WebhookNotifier or a CommandNotifier as the callback",
    "LoggingMixin": "Leave it out: BaseOperator and BaseHook have self.log",
    "SkipMixin": "Raise AirflowSkipException, or write a @task.branch",
    "TaskInstance": "Leave the annotation out, or write Any",
    "DagRun": "Leave the annotation out, or write Any",
    "timezone": "Write datetime.UTC, or pendulum",
    "macros": "Take macros from the context",
    "AssetWatcher": "Have what is outside call `tidemill assets emit`",
    "SubDagOperator": "Write a TaskGroup",
    "ExternalTaskMarker": "Leave it out: clear the other DAG's run by itself",
    "EmailOperator": "Write a @task that sends the mail, or an EmailNotifier as a callback",
    "BranchDayOfWeekOperator": "Write a @task.branch that looks at logical_date",
    "BranchDateTimeOperator": "Write a @task.branch that looks at logical_date",
    "DayOfWeekSensor": "Write a @task.sensor that looks at the day",
    "SqlSensor": "Write a @task.sensor that asks the database",
    "HttpSensor": "Write a @task.sensor that asks by httpx",
    "KubernetesPodOperator": "Write a @task, or a BaseOperator of your own, that uses the Kubernetes client",
    "DockerOperator": "Write a @task, or a BaseOperator of your own, that uses the Docker client",
}
"""What to write in the place of names that have no counterpart."""
OTHERWISE = "Write what it does as a @task, or derive an operator of your own from BaseOperator"


class Port(Model):
    """A name that a file imports from `airflow`."""

    line: int
    module: str
    name: str
    counterpart: str | None
    """What to import from `tidemill` instead; None: there is no such thing yet."""

    @property
    def advice(self) -> str:
        if self.counterpart is None:
            instead = INSTEAD.get(self.name, OTHERWISE)
            return f"line {self.line}: {self.name} of {self.module} has no counterpart. {instead}"
        other = "" if self.counterpart == self.name else f", as {self.counterpart}"
        return f"line {self.line}: {self.name} of {self.module} is in tidemill{other}"


def ports_of(path: Path) -> list[Port]:
    """What the file at *path* imports from `airflow`; nothing for one that is no Python."""
    try:
        tree = ast.parse(path.read_text(errors="replace"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    return sorted(_ports(tree), key=lambda port: (port.line, port.name))


def _ports(tree: ast.Module) -> Iterator[Port]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "airflow":
            for alias in node.names:
                yield Port(line=node.lineno, module=node.module, name=alias.name, counterpart=_counterpart(alias.name))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "airflow":
                    yield Port(line=node.lineno, module=alias.name, name=alias.name, counterpart="tidemill")


def _counterpart(name: str) -> str | None:
    if name in tidemill.__all__:
        return name
    return RENAMED.get(name)
