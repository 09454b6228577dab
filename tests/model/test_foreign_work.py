"""Which Temporal activities and workflows a DAG may call: those of others, never tidemill's own."""

from __future__ import annotations

from typing import Any

import pytest
from dst.one_run import OneRun
from support import dag
from tidemill.model.errors import InvalidInputError
from tidemill.model.spec.dag import DagSpec

OWN: list[dict[str, Any]] = [
    {"kind": "activity", "task_id": "a", "activity_type": "tidemill.tell_dags", "queue": "tidemill-files"},
    {"kind": "activity", "task_id": "a", "activity_type": "tidemill.publish", "queue": "tidemill-following"},
    {"kind": "activity", "task_id": "a", "activity_type": "tidemill.anything", "queue": "mine"},
    *({"kind": "workflow", "task_id": "a", "workflow_type": name} for name in ("Dag", "DagRun", "Pool", "DagBundle")),
]


@pytest.mark.parametrize("task", OWN, ids=lambda task: task.get("activity_type") or task["workflow_type"])
def test_tidemills_own_work_is_refused_when_it_is_registered(task: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="is tidemill's own, and no DAG may call it"):
        dag("d", [task])


@pytest.mark.parametrize("task", OWN, ids=lambda task: task.get("activity_type") or task["workflow_type"])
def test_tidemills_own_work_is_refused_when_it_is_run(task: dict[str, Any]) -> None:
    """However the DAG has come to the run: nothing is scheduled."""
    spec = DagSpec.model_validate({"dag_id": "d", "start_date": "2026-01-01T00:00:00Z", "tasks": [task]})
    run = OneRun(spec)
    run.go_on()
    assert run.states == {"a": "failed"}
    assert "no DAG may call it" in str(run.instances["a"].failure)
    asked = ("ActivityTaskScheduled", "StartChildWorkflowExecutionInitiated")
    assert not [event for event in run.execution.events if event.kind in asked]


def test_work_of_others_is_taken() -> None:
    dag("d", [{"kind": "activity", "task_id": "a", "activity_type": "tide.double", "queue": "q"}])
    dag("d", [{"kind": "workflow", "task_id": "a", "workflow_type": "DagShipping"}])
