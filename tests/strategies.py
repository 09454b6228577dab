"""Random DAGs and how their tasks end, for property tests."""

from typing import Any

from hypothesis import strategies as st
from tidemill.model.spec.dag import DagSpec, read_dag
from tidemill.model.spec.trigger_rule import TriggerRule
from tidemill.model.states import TaskState

OUTCOMES = [TaskState.SUCCESS, TaskState.SUCCESS, TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED]


@st.composite
def dags(draw: st.DrawFn, rules: list[TriggerRule] | None = None, most: int = 12) -> DagSpec:
    """A DAG of up to *most* tasks, each downstream of some of those before it."""
    n = draw(st.integers(1, most))
    tasks: list[dict[str, Any]] = []
    for i in range(n):
        above = draw(st.lists(st.sampled_from(range(i)), unique=True, max_size=4)) if i else []
        rule = draw(st.sampled_from(rules or list(TriggerRule)))
        tasks.append({"kind": "empty", "task_id": f"t{i}", "upstream": [f"t{j}" for j in above], "trigger_rule": rule})
    return read_dag({"dag_id": "random", "tasks": tasks, "max_active_tasks": draw(st.integers(1, 5))})


def outcomes(spec: DagSpec) -> st.SearchStrategy[dict[str, TaskState]]:
    return st.fixed_dictionaries({task.task_id: st.sampled_from(OUTCOMES) for task in spec.tasks})
