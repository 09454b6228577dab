"""The grid and the Gantt chart: runs in the order that is asked for, each by its own version of the DAG."""

from pathlib import Path

import httpx
from support import Stack, dag, empty
from tidemill.model.run.identity import TriggerRequest
from tidemill.worker.cli.web import web_server
from tidemill.worker.settings.reading import Settings


async def test_runs_by_their_logical_date_and_each_by_its_version(here: Stack, tmp_path: Path) -> None:
    first = dag("drawn", [empty("a", task_display_name="First", group="g")], groups=[{"group_id": "g"}])
    second = dag("drawn", [empty("a", task_display_name="Second")])
    dates = {"one": ("2024-01-02", "2024-02-01"), "two": ("2024-01-01", "2024-02-02")}
    for spec, (run_id, days) in zip((first, second), dates.items(), strict=True):
        await here.tidemill.dags.register(spec)
        logical_date, run_after = (f"{day}T00:00:00Z" for day in days)
        await here.tidemill.runs.trigger(
            "drawn", TriggerRequest(run_id=run_id, logical_date=logical_date, run_after=run_after)
        )
        await here.finished("drawn", run_id)

    async with (
        web_server(here.tidemill, Settings(home=tmp_path / "web"), "127.0.0.1", 0) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):

        async def got(path: str, **filters: str) -> httpx.Response:
            return (await client.get(path, params=filters)).raise_for_status()

        for order, found in {"logical_date": ["two", "one"], "run_after": ["one", "two"]}.items():
            runs = (await got("/ui/grid/runs/drawn", order_by=order)).json()
            assert [run["run_id"] for run in runs] == found
        for run_id, name, members in (("one", "First", ["a"]), ("two", "Second", [])):
            bars = (await got(f"/ui/gantt/drawn/{run_id}")).json()["task_instances"]
            assert [bar["task_display_name"] for bar in bars] == [name]
            path = f"/api/v2/dags/drawn/dagRuns/{run_id}/taskInstances"
            tasks = await client.get(path, params={"task_group_id": "g"})
            assert tasks.status_code == (200 if members else 404), tasks.text
            assert [one["task_id"] for one in tasks.json().get("task_instances", ())] == members
            cells = (await got("/ui/grid/ti_summaries/drawn", run_ids=run_id)).json()["task_instances"]
            version = (await got(f"/api/v2/dags/drawn/dagRuns/{run_id}")).json()["dag_versions"][0]["version_number"]
            assert [cell["dag_version_number"] for cell in cells] == [version] * len(cells), "null leads to no instance"
