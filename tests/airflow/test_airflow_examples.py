"""A dozen of Airflow's own example files, unchanged: they end as by Airflow's own `dag.test()`, task by task.

`make airflow` runs all of them, and records how they end there.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from airflow_stack import airflow_place, needs_airflow, read_file, register
from run_examples import REFERENCE, example_files
from support import stack
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import DagSpec

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
)
UNSCHEDULED = DagSpec(dag_id="x").schedule
pytestmark = [pytest.mark.thorough, needs_airflow]


async def test_a_dozen_of_airflows_examples_end_as_in_airflow(server: str, tmp_path: Path) -> None:
    reference: dict[str, dict[str, str]] = json.loads(REFERENCE.read_text())
    home = tmp_path / "home"
    async with stack(server, home, place=airflow_place(home)) as made:
        plugin: Any = made.tidemill.client.config()["plugins"][0]
        files = [path for path in await asyncio.to_thread(example_files) if path.stem in CHOSEN]
        assert len(files) == len(CHOSEN)
        ended: dict[str, dict[str, str]] = {}
        for path in files:
            specs = await asyncio.to_thread(read_file, plugin.place, path)
            await register(made, [spec.model_copy(update={"schedule": UNSCHEDULED}) for spec in specs.values()])
            for dag_id in specs:
                run = await made.tidemill.runs.trigger(dag_id, TriggerRequest())
                details = await made.finished(dag_id, run.run_id)
                ended[dag_id] = {task.key: str(task.state) for task in details.tasks}
    assert ended == {dag_id: reference[dag_id] for dag_id in ended}
