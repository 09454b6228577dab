"""Some of Airflow's own example files, unchanged, in a bundle: they end as by Airflow's own `dag.test()`, task by task.

`make airflow` runs all of them, and records how they end there.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from airflow_stack import airflow_place, needs_airflow
from run_examples import REFERENCE, bundle_of_examples, register_alone
from support import stack
from tidemill.model.run.identity import TriggerRequest

CHOSEN = (
    "example_bash_operator",
    "example_branch_labels",
    "example_complex",
    "example_dynamic_task_mapping",
    "example_nested_branch_dag",
    "example_setup_teardown_taskflow",
    "example_short_circuit_decorator",
    "example_skip_dag",
    "example_task_group_decorator",
    "example_xcom",
    "example_xcomargs",
    "tutorial_taskflow_api",
    "tutorial_taskflow_templates",
)
pytestmark = [pytest.mark.thorough, needs_airflow]


async def test_a_dozen_of_airflows_examples_end_as_in_airflow(server: str, tmp_path: Path) -> None:
    reference: dict[str, dict[str, str]] = json.loads(REFERENCE.read_text())
    home = tmp_path / "home"
    async with stack(server, home, place=airflow_place(home)) as made:
        files = await bundle_of_examples(made, tmp_path / "dags")
        ended: dict[str, dict[str, str]] = {}
        for dag_id in [dag_id for name in CHOSEN for dag_id in files[name].dags]:
            await register_alone(made, dag_id)
            run = await made.tidemill.runs.trigger(dag_id, TriggerRequest(logical_date=datetime.now(UTC)))
            details = await made.finished(dag_id, run.run_id)
            ended[dag_id] = {task.key: str(task.state) for task in details.tasks}
    assert len(ended) >= len(CHOSEN)
    assert ended == {dag_id: reference[dag_id] for dag_id in ended}
