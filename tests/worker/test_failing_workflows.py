"""A bad deploy of workflow code is seen, and after its rollback nothing waits for Temporal's back-off."""

from pathlib import Path
from typing import Any

import pytest
from support import eventually, stack, temporal_server
from tidemill.model.spec.dag import read_dag
from tidemill.worker.doctor import workflows_check
from tidemill.worker.repair import all_standing, failing, repair
from tidemill.workflows.dag import workflow as dag_workflow

pytestmark = pytest.mark.faults

SOON = {"system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute": 2}


async def test_workflows_whose_code_fails_are_named_and_go_on_at_once_after_a_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bad(*_: Any) -> Any:
        raise RuntimeError("a bad deploy")

    with temporal_server(tmp_path / "server", **SOON) as address:
        async with stack(address, tmp_path / "home") as here:
            client = here.tidemill.client
            tasks = [{"kind": "bash", "task_id": "a", "command": "true"}]
            await here.tidemill.register(read_dag({"dag_id": "ours", "schedule": "@yearly", "tasks": tasks}))
            assert await all_standing(client) == []
            good = dag_workflow.dag_row
            monkeypatch.setattr(dag_workflow, "dag_row", bad)
            await client.get_workflow_handle("dag:ours").signal("pause")
            found = await eventually(lambda: failing(client), bool, 120)
            assert found == ["dag:ours"]
            [standing] = await all_standing(client)
            assert "would with this release" in standing.problem
            assert standing.reset_to is None
            monkeypatch.setattr(dag_workflow, "dag_row", good)
            [standing] = await all_standing(client)
            assert standing.problem == "its workflow task has failed, and waits to be tried again"
            await repair(client, standing)
            row = await eventually(lambda: here.tidemill.describe("ours"), lambda found: found.is_paused)
            assert row.dag_id == "ours"
            await eventually(lambda: failing(client), lambda names: names == [])


def test_those_that_fail_are_named() -> None:
    check = workflows_check(["dag:a", "pool:b"])
    assert (check.ok, check.found) == (False, "the code of 2 workflows fails: dag:a, pool:b")
    assert workflows_check([]).ok
