"""What the tests of Airflow's own routes look at: orders, tries, ranges, bulk changes, statuses, names of events."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from airflow_stack import PYTHON, needs_airflow
from support import Stack, bash, dag, empty, eventually, stack
from tidemill.api.app import make_app
from tidemill.worker.settings.reading import Settings
from web_stack import asking_web, nowhere

NAMES = Path(__file__).with_name("names_of_events.py")
RUNS = ["r0", "r1", "r2"]


@pytest.fixture
async def here(server: str, tmp_path: Path) -> AsyncIterator[Stack]:
    async with stack(server, tmp_path / "home") as made:
        yield made


@pytest.fixture
async def web(here: Stack, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with asking_web(here, tmp_path / "web") as client:
        yield client


@pytest.fixture
async def dag_id(here: Stack) -> str:
    """A DAG with three runs, the last without a logical date; in each `fails` fails and `after` does not run."""
    name = f"expected_{uuid.uuid4().hex}"  # the server is that of all tests
    spec = dag(name, [bash("fails", "exit 1"), empty("after", "fails"), empty("good")])
    for run_id, date in zip(RUNS, ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", None), strict=True):
        await here.run_once(spec, run_id=run_id, **({"logical_date": date} if date else {}))
    return name


async def test_instances_of_several_runs_are_in_the_order_of_their_making(web: httpx.AsyncClient, dag_id: str) -> None:
    async def shown(**params: Any) -> list[str]:
        found = (await web.get(f"/dags/{dag_id}/dagRuns/~/taskInstances", params={"task_id": "good", **params})).json()
        return [one["dag_run_id"] for one in found["task_instances"]]

    assert await shown() == RUNS
    assert await shown(order_by="state") == RUNS
    assert await shown(order_by="data_interval_end") == RUNS
    assert await shown(limit=2) == RUNS[:2]
    batch = await web.post("/dags/~/dagRuns/~/taskInstances/list", json={"dag_ids": [dag_id], "task_ids": ["good"]})
    assert [one["dag_run_id"] for one in batch.json()["task_instances"]] == RUNS
    assert (await web.get(f"/dags/{dag_id}/dagRuns?order_by=conf")).json()["total_entries"] == 3
    batch = await web.post("/dags/~/dagRuns/list", json={"dag_ids": [dag_id], "conf_contains": "nothing"})
    assert batch.json()["total_entries"] == 0


async def test_an_instance_that_never_ran_shows_itself_in_the_place_of_a_try(
    web: httpx.AsyncClient, dag_id: str
) -> None:
    path = f"/dags/{dag_id}/dagRuns/{RUNS[0]}/taskInstances/after/tries"
    [only] = (await web.get(path)).json()["task_instances"]
    assert (only["try_number"], only["state"]) == (0, "upstream_failed")
    assert (await web.get(f"{path}/0")).json() == only
    assert (await web.get(f"{path}/1")).status_code == 404
    assert (await web.get(f"/dags/{dag_id}/dagRuns/{RUNS[0]}/taskInstances/good/logs/0")).status_code == 404


async def test_which_runs_a_clear_means(web: httpx.AsyncClient, dag_id: str) -> None:
    async def meant(**body: Any) -> list[str]:
        answer = await web.post(f"/dags/{dag_id}/clearTaskInstances", json={"task_ids": ["good"], **body})
        assert answer.status_code == 200, answer.text
        return [one["dag_run_id"] for one in answer.json()["task_instances"]]

    everything = {"only_failed": False}
    assert await meant(**everything) == RUNS
    assert await meant() == []
    both = {"dag_run_id": "r0", "include_past": True, "include_future": True}
    assert await meant(**both, **everything) == RUNS
    assert await meant(dag_run_id="r0", include_future=True, **everything) == RUNS[:2]


async def test_a_change_of_nothing_shows_what_is_meant(web: httpx.AsyncClient, dag_id: str) -> None:
    path = f"/dags/{dag_id}/dagRuns/{RUNS[0]}/taskInstances/good"
    for body in ({}, {"note": "said"}):
        answer = await web.patch(f"{path}/dry_run", json=body)
        assert [one["note"] for one in answer.json()["task_instances"]] == [None]
    assert (await web.patch(path, json={})).json()["total_entries"] == 1
    assert (await web.patch(f"{path}/5/dry_run", json={"new_state": "failed"})).status_code == 404
    for wrong in ("queued", "nonsense"):
        refused = await web.patch(path, json={"new_state": wrong})
        assert refused.status_code == 422
        assert [one["loc"] for one in refused.json()["detail"]] == [["body", "new_state"]]
    refused = await web.patch(f"/dags/{dag_id}/dagRuns/{RUNS[0]}", json={"state": "running"})
    assert [one["loc"] for one in refused.json()["detail"]] == [["body", "state"]]


async def test_a_bulk_change_of_what_is_not_there_has_an_outcome(web: httpx.AsyncClient, dag_id: str) -> None:
    entity = {"task_id": "gone", "new_state": "failed"}
    action = {"action": "update", "action_on_non_existence": "skip", "entities": [entity]}
    answer = await web.patch(f"/dags/{dag_id}/dagRuns/{RUNS[0]}/taskInstances", json={"actions": [action]})
    assert answer.json()["update"] == {"success": [], "errors": []}


async def test_a_second_one_of_a_name_is_refused_as_by_a_constraint(web: httpx.AsyncClient, dag_id: str) -> None:
    pool = {"name": dag_id, "slots": 1}
    assert (await web.post("/pools", json=pool)).status_code == 201
    refused = [
        await web.post("/pools", json=pool),
        await web.post(f"/dags/{dag_id}/dagRuns", json={"dag_run_id": RUNS[0], "logical_date": None}),
        await web.post(f"/dags/{dag_id}/dagRuns", json={"logical_date": "2026-01-01T00:00:00Z"}),
    ]
    for answer in refused:
        assert answer.status_code == 409
        assert answer.json()["detail"].keys() == {"reason", "statement", "orig_error", "message"}
        assert answer.json()["detail"]["reason"] == "Unique constraint violation"
    assert (await web.patch(f"/pools/{dag_id}", json={"slots": 3})).status_code == 422


async def test_lists_of_what_is_not_known_are_empty(here: Stack, web: httpx.AsyncClient, dag_id: str) -> None:
    await here.tidemill.dags.register(dag("without_runs", [empty("t")]))
    for path in ("/dagWarnings?dag_id=none", "/backfills?dag_id=none"):
        answer = await web.get(path)
        assert (answer.status_code, answer.json()["total_entries"]) == (200, 0), path
    assert (await web.get("/dagWarnings?warning_type=x")).status_code == 422
    assert (await web.get("/plugins?limit=-1")).status_code == 422

    async def stats() -> list[str]:
        return [one["dag_id"] for one in (await web.get("/dagStats")).json()["dags"]]

    assert "without_runs" not in await eventually(stats, lambda found: dag_id in found)
    assert (await web.get("/dagStats?dag_ids=without_runs")).json()["total_entries"] == 1


def routes_of(app: Any) -> dict[str, str]:
    """The names of the operations by method and path, without the names of parameters."""
    found: dict[str, str] = {}

    def walk(routes: Any) -> None:
        for route in routes:
            if hasattr(route, "original_router"):
                walk(route.original_router.routes)
            elif hasattr(route, "endpoint"):
                found.update(dict.fromkeys((f"{method} {route.path}" for method in route.methods or ()), route.name))

    walk(app.routes)
    return found


def bare(operation: str) -> str:
    import re

    return re.sub(r"\{[^}]*\}", "{}", operation)


@needs_airflow
def test_events_of_the_audit_log_have_airflows_names(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(PYTHON), str(NAMES)],
        env={"AIRFLOW_HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = {bare(operation): name for operation, name in json.loads(done.stdout.splitlines()[-1]).items()}
    ours = {bare(operation): name for operation, name in routes_of(make_app(nowhere(), Settings())).items()}
    not_here = {"forbid", "refuse"}
    assert len(theirs) > 40
    assert {operation: ours.get(operation) for operation in theirs if ours.get(operation) not in not_here} == {
        operation: name for operation, name in theirs.items() if ours.get(operation) not in not_here
    }
