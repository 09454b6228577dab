"""A run that a person ends while it is queued has no workflow, and is shown all the same: its tasks are skipped."""

from pathlib import Path

import httpx
import pytest
from support import Stack, bash, dag, eventually, told
from tidemill.model.run.identity import TriggerRequest
from tidemill.worker.cli.web import web_server
from tidemill.worker.settings.reading import Settings


@pytest.mark.parametrize("state", ["failed", "success"])
async def test_it_is_shown_with_its_tasks(here: Stack, tmp_path: Path, state: str) -> None:
    dag_id = f"ended_{state}"
    await here.tidemill.dags.register(dag(dag_id, [bash("a", "true"), bash("b", "true", "a")]))
    await here.tidemill.dags.pause(dag_id)
    await here.tidemill.runs.trigger(dag_id, TriggerRequest(run_id="r"))

    async with (
        web_server(here.tidemill, Settings(home=tmp_path / "web"), "127.0.0.1", 0) as url,
        httpx.AsyncClient(base_url=f"{url}", timeout=60) as client,
    ):
        run = f"/api/v2/dags/{dag_id}/dagRuns/r"

        async def got(path: str) -> httpx.Response:
            return (await client.get(path)).raise_for_status()

        (await client.patch(run, json={"state": state})).raise_for_status()
        await eventually(lambda: here.tidemill.runs.find(dag_id, "r"), lambda found: found.state == state)
        tasks = (await got(f"{run}/taskInstances")).json()["task_instances"]
        assert [(one["task_id"], one["state"]) for one in tasks] == [("a", "skipped"), ("b", "skipped")]
        cells = (await got(f"/ui/grid/ti_summaries/{dag_id}?run_ids=r")).json()["task_instances"]
        assert {cell["state"] for cell in cells} == {"skipped"}
    shown = await told(here, "runs", "show", dag_id, "r", "--json")
    assert (shown["state"], {task["state"] for task in shown["tasks"]}) == (state, {"skipped"})
