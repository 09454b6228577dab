"""Statuses of refusals, masks of fields, forms of answers, orders of equal ones: what clients of Airflow expect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from support import Stack, bash, dag, empty, eventually, stack
from tidemill.activities.dag_files import parse_dag_file
from tidemill.api.routes import runs as runs_route
from tidemill.model.run.identity import TriggerRequest
from web_stack import asking_web


@pytest.fixture
async def here(server: str, tmp_path: Path) -> AsyncIterator[Stack]:
    async with stack(server, tmp_path / "home") as made:
        yield made


@pytest.fixture
async def web(here: Stack, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with asking_web(here, tmp_path / "web") as client:
        yield client


async def test_what_is_under_way_is_a_conflict(here: Stack, web: httpx.AsyncClient) -> None:
    await here.tidemill.dags.register(dag("busy", [bash("t", "sleep 60")]))
    run = await here.tidemill.runs.trigger("busy", TriggerRequest())
    found = await eventually(lambda: here.tidemill.runs.find("busy", run.run_id), lambda run: run.state == "running")
    assert found.run_id == run.run_id
    refused = await web.delete("/dags/busy")
    assert refused.status_code == 409
    assert "has runs under way" in refused.json()["detail"]
    await here.tidemill.runs.cancel("busy", run.run_id)


async def test_a_mask_names_what_is_changed_and_what_is_not_given_stays(here: Stack, web: httpx.AsyncClient) -> None:
    details = await here.run_once(dag("masked", [empty("t")]))
    path = f"/dags/masked/dagRuns/{details.run.run_id}"
    assert (await web.patch(path, json={"note": "kept"})).json()["note"] == "kept"
    assert (await web.patch(f"{path}?update_mask=note", json={})).json()["note"] == "kept"
    assert (await web.get(path)).json()["note"] == "kept"
    assert (await web.patch(f"{path}?update_mask=note", json={"note": None})).json()["note"] is None
    refused = await web.patch("/dags/masked?update_mask=field_1", json={"is_paused": True})
    assert refused.status_code == 400
    assert "update_mask = field_1" in refused.json()["detail"]
    assert (await web.patch("/dags/masked?update_mask=is_paused", json={"is_paused": True})).json()["is_paused"]


async def test_a_source_has_the_form_that_is_accepted(here: Stack, web: httpx.AsyncClient, tmp_path: Path) -> None:
    file = tmp_path / "sourced.py"
    file.write_text("from tidemill import DAG\nwith DAG('sourced'):\n    pass\n")
    [spec] = parse_dag_file(file).dags
    await here.tidemill.dags.register(spec)
    for accept, form in (
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("text/plain", "text/plain"),
    ):
        found = await web.get("/dagSources/sourced", headers={"Accept": accept})
        assert found.headers["content-type"].partition(";")[0] == form
        assert (found.json()["content"] if "json" in form else found.text) == file.read_text()
    assert (await web.get("/dagSources/sourced", headers={"Accept": "text/html"})).status_code == 406


async def test_equal_ones_are_in_the_order_of_their_making(here: Stack, web: httpx.AsyncClient) -> None:
    await here.tidemill.dags.register(dag("tied", [empty("t")], max_active_runs=1))
    made = [f"run_{number}" for number in range(4)]
    for run_id in made:
        await here.tidemill.runs.trigger("tied", TriggerRequest(run_id=run_id))
        await asyncio.sleep(0.05)
    await here.all_finished("tied", len(made))
    for name in ("dag_id", "state", "run_type"):
        for order_by, wanted in ((name, made), (f"-{name}", made[::-1])):
            found = (await web.get("/dags/tied/dagRuns", params={"order_by": order_by})).json()["dag_runs"]
            assert [run["dag_run_id"] for run in found] == wanted, order_by


async def test_a_list_that_could_not_be_asked_for_whole_is_none(
    here: Stack, web: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter by what each run itself knows: those that are not asked in time are not taken for others."""
    await here.run_once(dag("asked", [empty("t")]), conf={"region": "eu"})
    wanted = {"conf_contains": "eu"}
    monkeypatch.setattr(runs_route, "REQUEST_TIMEOUT", -1.0)
    refused = await web.get("/dags/asked/dagRuns", params=wanted)
    assert (refused.status_code, "1 runs have not answered" in refused.json()["detail"]) == (504, True)
    monkeypatch.undo()
    assert (await web.get("/dags/asked/dagRuns", params=wanted)).json()["total_entries"] == 1


async def test_filters_that_the_web_offers(here: Stack, web: httpx.AsyncClient) -> None:
    await here.tidemill.dags.register(dag("offered", [empty("t")]))
    for number, conf in enumerate(({"region": "eu-west"}, {"region": "us"})):
        request = TriggerRequest(run_id=f"r{number}", conf=conf, triggering_user_name=("ada", "bob")[number])
        await here.tidemill.runs.trigger("offered", request)
    await here.all_finished("offered", 2)

    async def found(path: str, key: str, **params: str | int) -> list[str]:
        answer = await web.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return sorted(run["dag_run_id"] for run in answer.json()[key])

    runs, instances = "/dags/offered/dagRuns", "/dags/offered/dagRuns/~/taskInstances"
    [version] = (await web.get(f"{runs}/r0")).json()["dag_versions"]
    number = version["version_number"]
    assert await found(runs, "dag_runs", conf_contains="EU-w") == ["r0"]
    assert await found(runs, "dag_runs", dag_version=number) == ["r0", "r1"]
    assert await found(runs, "dag_runs", dag_version=number + 1) == []
    assert await found("/dags/~/dagRuns", "dag_runs", conf_contains='"us"') == ["r1"]
    assert await found(instances, "task_instances", version_number=number) == ["r0", "r1"]
    assert await found(instances, "task_instances", version_number=number + 1) == []
    grid = await web.get("../../ui/grid/runs/offered", params={"triggering_user": "ad"})
    assert [run["run_id"] for run in grid.json()] == ["r0"]
    for order_by in ("operator", "map_index", "responded_by_user_name", "-created_at"):
        assert (await web.get("/dags/~/dagRuns/~/hitlDetails", params={"order_by": order_by})).status_code == 200
    by = {"responded_by_user_name": "ada", "created_at_gte": "2026-01-01T00:00:00Z"}
    assert (await web.get("/dags/~/dagRuns/~/hitlDetails", params=by)).json()["hitl_details"] == []
    for order_by in ("value", "description", "-is_encrypted"):
        assert (await web.get("/variables", params={"order_by": order_by})).status_code == 200
