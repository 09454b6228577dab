"""A bad deploy of workflow code is seen, and after its rollback nothing waits for Temporal's back-off."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from support import eventually, stack, temporal_server
from temporalio.client import Client
from temporalio.worker import Worker
from tidemill.model.spec.dag import read_dag
from tidemill.worker.app.dev import free_port
from tidemill.worker.app.doctor import workflows_check
from tidemill.worker.cli.web import web_server
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin
from tidemill.worker.settings.reading import Settings
from tidemill.worker.supervision.failing import FailingWorkflow, failing_workflows
from tidemill.worker.supervision.repair import all_standing, repair
from tidemill.workflows.dag import workflow as dag_workflow

pytestmark = pytest.mark.faults

TASKS = [{"kind": "bash", "task_id": "a", "command": "true"}]
SOON = {"system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute": 2}


async def test_workflows_whose_code_fails_are_named_and_go_on_at_once_after_a_rollback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bad(*_: Any) -> Any:
        raise RuntimeError("a bad deploy")

    monkeypatch.setattr("tidemill.worker.supervision.repair.LOOKS_AFTER", ())
    with temporal_server(tmp_path / "server", **SOON) as address:
        async with stack(address, tmp_path / "home") as here:
            client = here.tidemill.client
            await here.tidemill.dags.register(read_dag({"dag_id": "ours", "schedule": "@yearly", "tasks": TASKS}))
            await eventually(here.tidemill.dags.list, lambda found: len(found[0]) == 1)
            assert await all_standing(client) == []
            good = dag_workflow.dag_row
            monkeypatch.setattr(dag_workflow, "dag_row", bad)
            await client.get_workflow_handle("dag:ours").signal("pause")
            [found] = await eventually(lambda: failing_workflows(client), bool)
            assert (found.workflow_id, found.dag_id) == ("dag:ours", "ours")
            assert "fail (WorkflowWorkerUnhandledFailure)" in found.problem
            [row] = (await here.tidemill.dags.list())[0]
            assert (row.status, row.problem) == ("failing", found.problem)
            settings = Settings(home=tmp_path / "web", task_queue=here.task_queue)
            async with (
                web_server(here.tidemill, settings, "127.0.0.1", free_port()) as url,
                httpx.AsyncClient(base_url=url, timeout=60) as web,
            ):
                for path in ("/api/v2/dagWarnings", "/api/v2/dagWarnings?dag_id=ours"):
                    [warning] = (await web.get(path)).json()["dag_warnings"]
                    assert (warning["dag_id"], warning["warning_type"]) == ("ours", "workflow")
                    assert found.problem in warning["message"]
                health = (await web.get("/api/v2/monitor/health")).json()
                assert health["workflows"] == {"status": "unhealthy", "failing": 1}
            [standing] = await all_standing(client)
            assert "would with this release" in standing.problem
            assert standing.reset_to is None
            monkeypatch.setattr(dag_workflow, "dag_row", good)
            [standing] = await all_standing(client)
            assert standing.problem == "its workflow task has failed, and waits to be tried again"
            await repair(client, standing)
            row = await eventually(lambda: here.tidemill.dags.describe("ours"), lambda found: found.is_paused)
            assert row.dag_id == "ours"
            await eventually(lambda: failing_workflows(client), lambda left: left == [])
            assert (await here.tidemill.dags.list())[0][0].problem is None


async def test_a_worker_of_the_release_before_brings_them_back_when_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.worker.supervision.repair.LOOKS_AFTER", ())
    with temporal_server(tmp_path / "server", **SOON) as address:
        client = await Client.connect(address, plugins=[TidemillPlugin(tmp_path / "home")])
        tidemill = Tidemill(client)
        async with Worker(client, task_queue="tidemill"):
            await tidemill.dags.register(read_dag({"dag_id": "ours", "schedule": "@yearly", "tasks": TASKS}))
            await eventually(tidemill.dags.list, lambda found: len(found[0]) == 1)
        for _ in range(5):  # by chance, Temporal tries again before the worker that starts has looked
            await make_it_fail(client, monkeypatch)
            if await is_reset_by_a_worker(client, monkeypatch):
                return
    raise AssertionError("no worker has brought it back: it went on by itself each time")


async def make_it_fail(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def bad(*_: Any) -> Any:
        raise RuntimeError("a bad deploy")

    with monkeypatch.context() as patched:
        patched.setattr(dag_workflow, "dag_row", bad)
        async with Worker(client, task_queue="tidemill"):
            await client.get_workflow_handle("dag:ours").signal("pause")
            await eventually(lambda: failing_workflows(client), bool)


async def is_reset_by_a_worker(client: Client, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Have a worker start that looks at once; return whether it has reset the DAG, which goes on in any case."""
    handle, tidemill = client.get_workflow_handle("dag:ours"), Tidemill(client)
    before = (await handle.describe()).run_id
    with monkeypatch.context() as patched:
        patched.setattr("tidemill.worker.supervision.repair.LOOKS_AFTER", (0.0,))
        async with Worker(client, task_queue="tidemill"):
            await eventually(lambda: failing_workflows(client), lambda left: left == [])
            await eventually(lambda: tidemill.dags.describe("ours"), lambda found: found.is_paused)
            return (await handle.describe()).run_id != before


def test_those_that_fail_are_named() -> None:
    check = workflows_check([FailingWorkflow(workflow_id=name, problem="it fails") for name in ("dag:a", "pool:b")])
    assert (check.ok, check.found) == (False, "the code of 2 workflows fails: dag:a, pool:b")
    assert workflows_check([]).ok
