"""Airflow's parameters of lists: each that an operation has there is served here, and narrows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from airflow_wheel import definitions
from support import Stack, bash, dag, empty, eventually, stack
from tidemill.api.app import make_app
from tidemill.api.dependencies import parameters_of
from tidemill.api.routes.not_offered import FORBIDDEN, NOT_OFFERED
from tidemill.worker.settings.reading import Settings
from web_stack import asking_web, nowhere

REFUSED = {
    ("get", "/api/v2/dags/{dag_id}/dagRuns", "consuming_asset_pattern"),
    ("get", "/api/v2/dags", "timetable_type"),
}
"""What is refused by its name: docs/reference/api_differences.md says why."""
LATER, EARLIER = "2999-01-01T00:00:00Z", "2000-01-01T00:00:00Z"


@pytest.fixture
async def here(server: str, tmp_path: Path) -> AsyncIterator[Stack]:
    async with stack(server, tmp_path / "home") as made:
        yield made


@pytest.fixture
async def web(here: Stack, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with asking_web(here, tmp_path / "web") as client:
        yield client


def test_each_of_airflows_parameters_is_served() -> None:
    ours = parameters_of(make_app(nowhere(), Settings()))
    refusing = {(method.lower(), path.replace(":path}", "}")) for method, path in {**NOT_OFFERED, **FORBIDDEN}}
    theirs = {
        (method, path, parameter["name"])
        for definition in definitions()
        for path, item in definition["paths"].items()
        for method, operation in item.items()
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query" and (method, path) in ours and (method, path) not in refusing
    }
    assert {one for one in theirs if one[2] not in ours[one[:2]]} == REFUSED


async def counted(web: httpx.AsyncClient, path: str, **parameters: Any) -> int:
    answer = await web.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["total_entries"])


async def test_runs_and_instances_by_when_they_were_changed(here: Stack, web: httpx.AsyncClient) -> None:
    await here.run_once(dag("changes", [empty("t"), bash("u", "true")]))
    runs, instances = "/dags/changes/dagRuns", "/dags/changes/dagRuns/~/taskInstances"
    for path, known in ((runs, 1), (instances, 2)):
        assert await counted(web, path, updated_at_gte=EARLIER, updated_at_lt=LATER) == known
        assert await counted(web, path, updated_at_gt=LATER) == 0
        assert await counted(web, path, updated_at_lte=EARLIER) == 0
    assert await counted(web, instances, executor="LocalExecutor") == 0
    assert await counted(web, runs, partition_date_gte=EARLIER) == 0, "it is of no partition"


async def test_dags_by_their_assets_their_code_and_their_newest_run(here: Stack, web: httpx.AsyncClient) -> None:
    waits = {"kind": "asset", "condition": {"kind": "asset", "name": "Orders", "uri": "s3://lake/daily"}}
    await here.tidemill.dags.register(dag("of_orders", [empty("t")], schedule=waits))
    await here.run_once(dag("has_run", [empty("t")]))
    await eventually(lambda: counted(web, "/dags"), lambda known: known == 2)
    for part in ("order", "LAKE/"):
        found = (await web.get("/dags", params={"asset_dependency": part})).json()["dags"]
        assert [one["dag_id"] for one in found] == ["of_orders"]
    assert await counted(web, "/dags", asset_dependency="nothing") == 0
    assert await counted(web, "/dags", bundle_version="another") == 0
    assert await counted(web, "/dags", dag_run_start_date_gte=EARLIER, dag_run_end_date_lt=LATER) == 1
    assert await counted(web, "/dags", dag_run_start_date_gt=LATER) == 0


async def test_a_page_has_a_hundred_at_most(web: httpx.AsyncClient) -> None:
    pools = [{"name": f"of_many_{n}", "slots": 1} for n in range(101)]
    made = await web.patch("/pools", json={"actions": [{"action": "create", "entities": pools}]})
    assert made.json()["create"]["errors"] == []
    found = (await web.get("/pools", params={"limit": 1000, "pool_name_prefix_pattern": "of_many_"})).json()
    assert (len(found["pools"]), found["total_entries"]) == (100, 101)
    removed = await web.patch(
        "/pools", json={"actions": [{"action": "delete", "entities": [one["name"] for one in pools]}]}
    )
    assert removed.json()["delete"]["errors"] == []


async def test_versions_and_warnings(here: Stack, web: httpx.AsyncClient) -> None:
    await here.tidemill.dags.register(dag("versioned", [empty("t")]))
    path = "/dags/versioned/dagVersions"
    [version] = (await web.get(path)).json()["dag_versions"]
    assert await counted(web, path, version_number=version["version_number"]) == 1
    assert await counted(web, path, version_number=version["version_number"] + 1) == 0
    assert await counted(web, path, bundle_name="another") == 0
    assert await counted(web, "/dagWarnings", warning_type="asset conflict", order_by="-timestamp") == 0
    assert (await web.get("/dagWarnings", params={"order_by": "nothing"})).status_code == 400
