"""Work that others do: Temporal activities and workflows, and runs of other DAGs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from .dags import DAG
from .mapped import Mappable


class TemporalActivityOperator(Mappable):
    """A Temporal activity by its name, of whatever language, on the task queue `queue`."""

    def __init__(
        self, task_id: str, *, activity: str, args: Sequence[Any] = (), dag: DAG | None = None, **options: Any
    ) -> None:
        super().__init__("activity", task_id, {**options, "activity_type": activity, "args": tuple(args)}, dag=dag)


class TemporalWorkflowOperator(Mappable):
    """A Temporal workflow by its name, as a child of the run, on the task queue `queue`."""

    def __init__(
        self, task_id: str, *, workflow: str, args: Sequence[Any] = (), dag: DAG | None = None, **options: Any
    ) -> None:
        super().__init__("workflow", task_id, {**options, "workflow_type": workflow, "args": tuple(args)}, dag=dag)


class TriggerDagRunOperator(Mappable):
    """Starts a run of another DAG; with `wait_for_completion` waits for its end."""

    def __init__(
        self,
        task_id: str,
        *,
        trigger_dag_id: str,
        logical_date: str | datetime | None = None,
        run_after: str | datetime | None = None,
        dag: DAG | None = None,
        **options: Any,
    ) -> None:
        dates = {"logical_date": logical_date, "run_after": run_after}
        written = {name: date.isoformat() if isinstance(date, datetime) else date for name, date in dates.items()}
        fields = {**options, "trigger_dag_id": trigger_dag_id, **written}
        super().__init__("trigger_dag", task_id, fields, dag=dag)
