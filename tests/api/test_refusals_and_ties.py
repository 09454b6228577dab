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
from tidemill.api.routes.task_instances import by_number
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


async def test_statuses_are_those_of_airflow(here: Stack, web: httpx.AsyncClient) -> None:
    """And what a body lacks, or has wrong, is told in a list, with the place of each."""
    made = {"outlets": [{"kind": "asset", "name": "shared"}]}
    for dag_id in ("coded", "coded_too"):
        await here.tidemill.dags.register(dag(dag_id, [empty("t", **made, params={"own": 1})], params={"all": 2}))
    run = (await here.run_once(dag("coded", [empty("t", **made, params={"own": 1})], params={"all": 2}))).run
    await eventually(
        lambda: here.tidemill.assets.describe("shared"), lambda view: set(view.producers) == {"coded", "coded_too"}
    )
    await web.post("/pools", json={"name": "coded", "slots": 2})
    asset = next(one for one in (await web.get("/assets")).json()["assets"] if one["name"] == "shared")
    task, clear = f"/dags/coded/dagRuns/{run.run_id}/taskInstances/t", "/dags/coded/clearTaskInstances"
    dates = {"start_date": "2026-01-02T00:00:00Z", "end_date": "2026-01-01T00:00:00Z"}
    naive = {"logical_date": "2026-01-01T00:00:00"}
    half = {"logical_date": "2026-01-01T00:00:00Z", "data_interval_start": "2026-01-01T00:00:00Z"}
    wanted = [
        ("POST", "/dags/coded/favorite", None, 204),
        ("POST", "/dags/coded/favorite", None, 409),
        ("POST", f"/assets/{asset['id']}/materialize", {}, 409),
        ("PATCH", f"{task}/-1/hitlDetails", {"chosen_options": ["Yes"]}, 404),
        ("PATCH", f"{task}/-1/hitlDetails", {"chosen_options": []}, 422),
        ("GET", f"{task}/logs/1?token=wrong", None, 400),
        ("GET", "/dags/coded/dagRuns/none/taskInstances/~/xcomEntries", None, 200),
        ("GET", "/dags/none/dagRuns/none/taskInstances/~/xcomEntries", None, 404),
        ("GET", "/jobs?order_by=none", None, 400),
        ("POST", clear, dates, 422),
        ("POST", clear, {"start_date": "2026-01-01T00:00:00"}, 422),
        ("POST", clear, {"dag_run_id": "none"}, 404),
        ("POST", "/dags/~/dagRuns/~/taskInstances/list", {"run_after_gte": "2026-01-01T00:00:00"}, 422),
        ("POST", "/dags/~/dagRuns/list", {"run_after_gte": "2026-01-01T00:00:00Z"}, 200),
        ("PATCH", task, {"new_state": None}, 422),
        ("PATCH", "/pools/coded", {"name": "other", "slots": 2}, 400),
        ("PATCH", "/pools/coded", {"name": "coded"}, 422),
        ("PATCH", "/pools/coded?update_mask=description", {"description": "by mask"}, 200),
        ("POST", "/dags/coded/dagRuns", naive, 422),
        ("POST", "/dags/coded/dagRuns", half, 422),
        ("GET", "/dags/coded/tasks?order_by=start_date", None, 200),
        ("GET", "/dags/coded/dagRuns?order_by=-updated_at", None, 200),
        ("GET", "/eventLogs?order_by=logical_date", None, 200),
        ("GET", f"{task}/listMapped?order_by=data_interval_start", None, 404),
    ]
    for method, path, body, status in wanted:
        found = await web.request(method, path, json=body)
        assert found.status_code == status, (method, path, body, found.text)
        if status == 422 and method == "POST":
            assert all(one["loc"] for one in found.json()["detail"]), found.text
    shown = (await web.get("/dags/coded/tasks/t")).json()["params"]
    assert {name: param["source"] for name, param in shown.items()} == {"all": "dag", "own": "task"}


async def test_a_task_of_a_queued_run_is_marked(here: Stack, web: httpx.AsyncClient) -> None:
    """As people do before a run begins, and as clients of Airflow prepare runs."""
    await here.tidemill.dags.register(dag("waits", [empty("t"), empty("u", "t")], is_paused_upon_creation=True))
    run = await here.tidemill.runs.trigger("waits", TriggerRequest())
    path = f"/dags/waits/dagRuns/{run.run_id}/taskInstances"
    marked = await web.patch(f"{path}/t", json={"new_state": "success"})
    assert (marked.status_code, [one["state"] for one in marked.json()["task_instances"]]) == (200, ["success"])
    found = (await web.get(path)).json()["task_instances"]
    assert {one["task_id"]: one["state"] for one in found} == {"t": "success", "u": None}
    cleared = await web.post(
        "/dags/waits/clearTaskInstances", json={"dag_run_id": run.run_id, "dry_run": False, "only_failed": False}
    )
    assert cleared.status_code == 200
    assert (await web.get(f"{path}/t")).json()["state"] is None


def test_labels_of_mapped_instances_are_sorted_by_their_numbers() -> None:
    assert sorted(["10", "b", "2", "a", None, "0"], key=by_number) == ["0", "2", "10", None, "a", "b"]
