"""Values that tasks keep, and what DAGs have gathered, through the API as through Airflow's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import Stack, bash, dag, empty, eventually, stack
from tidemill.activities.attempts.key_values import KeyValues, asset_scopes
from tidemill.model.run.attempts import task_path
from tidemill.model.run.identity import TriggerRequest
from tidemill.worker.cli.web import web_server
from tidemill.worker.settings.reading import Settings

STATE = "dags/keeps/dagRuns/r/taskInstances/a/state-store"


@asynccontextmanager
async def served(here: Stack) -> AsyncIterator[httpx.AsyncClient]:
    """The web beside a worker, with the same store of results."""
    async with (
        web_server(here.tidemill, Settings(home=here.home), "127.0.0.1", 0) as url,
        httpx.AsyncClient(base_url=f"{url}/api/v2", timeout=60) as client,
    ):
        yield client


async def sent(web: httpx.AsyncClient, method: str, path: str, body: Any = None, code: int = 200) -> Any:
    answer = await web.request(method, path, json=body)
    assert answer.status_code == code, answer.text
    return answer.json() if answer.content else None


@pytest.fixture
async def here(server: str, tmp_path: Path) -> AsyncIterator[Stack]:
    async with stack(server, tmp_path / "home") as made:
        yield made


def values(here: Stack) -> KeyValues:
    return KeyValues.beside((here.home / "xcom").as_uri())


async def test_values_of_a_task_are_those_that_it_keeps(here: Stack) -> None:
    mapped = {**bash("many", "true"), "expand": {"by": {"env": [{"A": "1"}, {"A": "2"}]}, "into": "fields"}}
    await here.tidemill.dags.register(dag("keeps", [bash("a", "true"), mapped]))
    await here.tidemill.runs.trigger("keeps", TriggerRequest(run_id="r"))
    await here.finished("keeps", "r")
    values(here).put(task_path("keeps", "r", "a"), "of task/1", {"n": 1}, "2199-01-01T00:00:00+00:00")
    async with served(here) as web:
        listed = await sent(web, "GET", STATE)
        assert [(one["key"], one["value"]) for one in listed["task_state_store"]] == [("of task/1", {"n": 1})]
        assert (await sent(web, "GET", f"{STATE}/of task/1"))["expires_at"] == "2199-01-01T00:00:00Z"

        await sent(web, "PUT", f"{STATE}/mine", {"value": [1, 2], "expires_at": None}, 204)
        await sent(web, "PUT", f"{STATE}/old", {"value": 1, "expires_at": "2001-01-01T00:00:00Z"}, 204)
        await sent(web, "PUT", f"{STATE}/usual", {"value": 1}, 204)
        assert values(here).get(task_path("keeps", "r", "a"), "mine") == {"found": True, "value": [1, 2]}
        listed = await sent(web, "GET", STATE)
        assert {one["key"]: one["expires_at"] is None for one in listed["task_state_store"]} == {
            "mine": True,
            "of task/1": False,
            "usual": False,
        }
        await sent(web, "PATCH", f"{STATE}/of task/1", {"value": 2})
        changed = await sent(web, "GET", f"{STATE}/of task/1")
        assert (changed["value"], changed["expires_at"]) == (2, "2199-01-01T00:00:00Z")
        await sent(web, "PATCH", f"{STATE}/nowhere", {"value": 2}, 404)
        await sent(web, "PUT", f"{STATE}/mine", {"value": None}, 422)
        await sent(web, "PUT", f"{STATE.replace('/a/', '/nobody/')}/mine", {"value": 1}, 404)

        await sent(web, "DELETE", f"{STATE}/mine", code=204)
        await sent(web, "GET", f"{STATE}/mine", code=404)
        await sent(web, "DELETE", STATE, code=204)
        assert (await sent(web, "GET", STATE))["total_entries"] == 0

        many = STATE.replace("/a/", "/many/")
        for index in (0, 1):
            await sent(web, "PUT", f"{many}/k?map_index={index}", {"value": index}, 204)
        await sent(web, "GET", many, code=404)  # it is mapped: nothing has that index
        await sent(web, "DELETE", f"{many}?all_map_indices=true", code=204)
        for index in (0, 1):
            await sent(web, "GET", f"{many}/k?map_index={index}", code=404)


async def test_values_of_an_asset_are_those_that_tasks_keep_by_its_name_and_its_uri(here: Stack) -> None:
    asset = {"name": "kept_asset", "uri": "s3://kept/asset"}
    await here.tidemill.dags.register(dag("keeps_asset", [empty("a", outlets=[{"kind": "asset", **asset}])]))
    by_name, by_uri = asset_scopes(**asset)
    values(here).put(by_name, "watermark", 1)
    values(here).put(by_uri, "watermark", 2)
    values(here).put(by_uri, "other", 3)
    async with served(here) as web:

        async def found() -> list[dict[str, Any]]:
            return [one for one in (await sent(web, "GET", "assets"))["assets"] if one["name"] == "kept_asset"]

        [kept] = await eventually(found, bool)
        state = f"assets/{kept['id']}/state-store"
        listed = (await sent(web, "GET", state))["asset_state_store"]
        assert {one["key"]: one["value"] for one in listed} == {"other": 3, "watermark": 1}
        await sent(web, "PUT", f"{state}/watermark", {"value": 5}, 204)
        assert values(here).get(by_name, "watermark")["value"] == 5
        await sent(web, "DELETE", f"{state}/watermark", code=204)
        await sent(web, "GET", f"{state}/watermark", code=404)
        await sent(web, "DELETE", state, code=204)
        assert (await sent(web, "GET", state))["total_entries"] == 0
        await sent(web, "GET", "assets/1/state-store", code=404)


async def test_what_is_queued_for_a_dag_is_listed_and_taken_off(here: Stack) -> None:
    both = [{"kind": "asset", "name": f"queued_{n}", "uri": f"queued_{n}"} for n in ("one", "two")]
    waits = {"kind": "asset", "condition": {"kind": "all", "of": both}}
    await here.tidemill.dags.register(dag("waits_for_both", [empty("a")], schedule=waits))
    await eventually(lambda: here.tidemill.assets.emit("queued_one"), bool)
    queued = "dags/waits_for_both/assets/queuedEvents"

    async def gathered() -> list[str]:
        return [row.name for row in await here.tidemill.dags.gathered("waits_for_both")]

    await eventually(gathered, bool)
    async with served(here) as web:
        [event] = (await sent(web, "GET", queued))["queued_events"]
        number = event["asset_id"]
        of_both = f"dags/waits_for_both/assets/{number}/queuedEvents"
        assert await sent(web, "GET", of_both) == event
        assert (await sent(web, "GET", f"assets/{number}/queuedEvents"))["queued_events"] == [event]
        await sent(web, "DELETE", f"{of_both}?before=2001-01-01T00:00:00Z", code=404)
        await sent(web, "DELETE", of_both, code=204)
        await sent(web, "DELETE", of_both, code=404)
        assert await gathered() == []

        for path in (queued, f"assets/{number}/queuedEvents"):
            await eventually(lambda: here.tidemill.assets.emit("queued_one"), bool)
            await eventually(gathered, bool)
            await sent(web, "DELETE", path, code=204)
            assert await gathered() == []
    await eventually(lambda: here.tidemill.assets.emit("queued_two"), bool)
    await eventually(gathered, bool)
    assert (await here.tidemill.runs.list("waits_for_both")) == []  # the first one no longer counts


async def test_what_an_installation_has_not_is_told_as_airflow_does(here: Stack) -> None:
    async with served(here) as web:
        assert await sent(web, "GET", "jobs") == {"jobs": [], "total_entries": 0}
        assert (await sent(web, "GET", "providers"))["total_entries"] >= 0
        for path in ("config", "config/section/core/option/parallelism"):
            await sent(web, "GET", path, code=403)
        await sent(web, "POST", "connections/test", {"connection_id": "a", "conn_type": "http"}, 403)
        await sent(web, "GET", "eventLogs/1", code=404)
        [*logs] = (await sent(web, "GET", "eventLogs"))["event_logs"]
        for log in logs[:1]:
            assert await sent(web, "GET", f"eventLogs/{log['event_log_id']}") == log
