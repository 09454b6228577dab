"""Random DAGs with mapped groups, in a file of Airflow's: every instance ends as by Airflow's own `dag.test()`.

Run as a program, with tests on its path, it records how they end there.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow_stack import airflow_place, needs_airflow, read_file, register
from mapped_groups import dag_file
from run_examples import reference_of
from support import stack
from tidemill.model.run.views import RunDetails
from tidemill.model.spec.dag import DagSpec
from tidemill.model.spec.trigger_rule import TriggerRule

RECORDED = Path(__file__).parents[1] / "data" / "airflow" / "mapped_groups.json"
SEEDS = range(100, 140)
FAILED = ("failed", "upstream_failed")
UNSCHEDULED = DagSpec(dag_id="x").schedule
pytestmark = needs_airflow


@pytest.mark.thorough
async def test_mapped_groups_end_as_in_airflow(server: str, tmp_path: Path) -> None:
    recorded: dict[str, dict[str, str | None]] = json.loads(RECORDED.read_text())
    file = tmp_path / "mapped.py"
    file.write_text(dag_file(SEEDS))
    async with stack(server, tmp_path / "home", place=airflow_place(tmp_path / "home")) as made:
        plugin: Any = made.tidemill.client.config()["plugins"][0]
        specs = await asyncio.to_thread(read_file, plugin.place, file)
        await register(made, [spec.model_copy(update={"schedule": UNSCHEDULED}) for spec in specs.values()])
        runs = {dag_id: await made.tidemill.runs.trigger(dag_id) for dag_id in specs}
        ended = {dag_id: await made.finished(dag_id, run.run_id) for dag_id, run in runs.items()}
    assert ended.keys() == recorded.keys()
    other = {dag_id: different(specs[dag_id], ended[dag_id], recorded[dag_id]) for dag_id in specs}
    assert {dag_id: found for dag_id, found in other.items() if found} == {}


def different(spec: DagSpec, ended: RunDetails, recorded: dict[str, str | None]) -> dict[str, tuple[Any, Any]]:
    """What ended otherwise than in Airflow, but for what which of two upstreams ends first decides.

    And but for what a branch or a short circuit of its own index skips, and what depends on that: there Airflow has the
    branch decide nothing (apache/airflow#67265, #65745), and here it does: `test_reported_dates.py`.
    """
    ours = {task.key: str(task.state) for task in ended.tasks}
    theirs = {key: state or "none" for key, state in recorded.items()}
    by_order = {task.task_id for task in ended.tasks if task.map_index >= 0 and task.why.startswith("skipped by g.")}
    for task in spec.tasks:  # as they stand in the file: upstreams first
        above = {state for name in task.upstream for key, state in ours.items() if key.partition("[")[0] == name}
        of_either = task.trigger_rule is TriggerRule.ALL_SUCCESS and "skipped" in above and not above.isdisjoint(FAILED)
        if of_either or by_order & {*task.upstream}:
            by_order.add(task.task_id)
    return {
        key: (ours.get(key), theirs.get(key))
        for key in sorted({*ours, *theirs})
        if ours.get(key) != theirs.get(key) and key.partition("[")[0] not in by_order
    }


def record(home: Path) -> None:
    file = home / "dags" / "mapped.py"
    file.parent.mkdir(parents=True)
    file.write_text(dag_file(SEEDS))
    found = reference_of(file, home, datetime(2026, 1, 1, tzinfo=UTC))
    RECORDED.write_text(json.dumps(found, indent=0, sort_keys=True))


if __name__ == "__main__":
    record(Path(sys.argv[1]))
