"""What people write down about runs and tasks is kept, shown wherever these are, and goes with them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import Stack, bash, dag, eventually, stack
from tidemill.model.states import RunState
from tidemill.worker.cli.web import web_server
from tidemill.worker.settings.reading import Settings

RUNS = "dags/noted/dagRuns"
TASKS = f"{RUNS}/r/taskInstances"


@asynccontextmanager
async def served(here: Stack, home: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        web_server(here.tidemill, Settings(home=home), "127.0.0.1", 0) as url,
        httpx.AsyncClient(base_url=f"{url}/api/v2", timeout=60) as client,
    ):
        yield client


async def sent(web: httpx.AsyncClient, method: str, path: str, body: Any = None, code: int = 200, **more: Any) -> Any:
    answer = await web.request(method, path, json=body, **more)
    assert answer.status_code == code, answer.text
    return answer.json() if answer.content else None


@pytest.fixture
async def here(server: str, tmp_path: Path) -> AsyncIterator[Stack]:
    async with stack(server, tmp_path / "home") as made:
        yield made


async def registered(here: Stack, dag_id: str) -> None:
    mapped = {**bash("many", "true"), "expand": {"by": {"env": [{"A": "1"}, {"A": "2"}]}, "into": "fields"}}
    await here.tidemill.dags.register(dag(dag_id, [bash("fails", "echo no >&2; exit 1"), mapped]))


async def test_a_note_is_kept_shown_changed_and_removed(here: Stack, tmp_path: Path) -> None:
    await registered(here, "noted")
    async with served(here, tmp_path / "web") as web:
        made = await sent(web, "POST", RUNS, {"dag_run_id": "r", "logical_date": None, "note": "by hand"})
        assert made["note"] == "by hand"
        assert (await here.finished("noted", "r")).state is RunState.FAILED

        assert (await sent(web, "GET", f"{RUNS}/r"))["note"] == "by hand"
        for path in (RUNS, "dags/~/dagRuns"):

            async def mine(path: str = path) -> list[Any]:
                listed = (await sent(web, "GET", path, params={"limit": 1000, "order_by": "-run_after"}))["dag_runs"]
                return [one["note"] for one in listed if one["dag_id"] == "noted"]

            assert await eventually(mine, bool) == ["by hand"], path
        changed = await sent(web, "PATCH", f"{RUNS}/r", {"note": "seen"}, params={"update_mask": "note"})
        assert (changed["note"], changed["state"]) == ("seen", "failed")

        [one] = (await sent(web, "PATCH", f"{TASKS}/fails", {"note": "ask the vendor"}))["task_instances"]
        assert (one["note"], one["state"]) == ("ask the vendor", "failed")
        both = (await sent(web, "PATCH", f"{TASKS}/many", {"note": "two of them"}))["task_instances"]
        assert [(one["map_index"], one["note"]) for one in both] == [(0, "two of them"), (1, "two of them")]
        await sent(web, "PATCH", f"{TASKS}/many/1", {"note": "the second"})
        listed = (await sent(web, "GET", TASKS))["task_instances"]
        found = {(one["task_id"], one["map_index"]): one["note"] for one in listed}
        assert found == {("fails", -1): "ask the vendor", ("many", 0): "two of them", ("many", 1): "the second"}

        grid = str(web.base_url.join("/ui/grid/ti_summaries/noted"))
        cells = json.loads((await web.get(grid, params={"run_ids": "r"})).text)["task_instances"]
        assert {cell["task_id"]: cell["has_note"] for cell in cells} == {"fails": True, "many": True}

        marked = await sent(web, "PATCH", f"{TASKS}/many/0", {"new_state": "skipped", "note": None})
        assert [one["note"] for one in marked["task_instances"]] == ["two of them"], "nothing was said of it"
        await here.finished("noted", "r")
        marked = await sent(web, "PATCH", f"{TASKS}/fails", {"new_state": "success", "note": "mended by hand"})
        assert [(one["state"], one["note"]) for one in marked["task_instances"]] == [("success", "mended by hand")]
        await here.finished("noted", "r")
        long = await web.patch(f"{RUNS}/r", json={"note": "x" * 1001})
        assert (long.status_code, "note" in long.text) == (422, True)
        await sent(web, "PATCH", f"{RUNS}/absent", {"note": "x"}, 404)
        await sent(web, "PATCH", f"{TASKS}/absent", {"note": "x"}, 404)

    async with served(here, tmp_path / "web") as web:  # another server
        assert (await sent(web, "GET", f"{RUNS}/r"))["note"] == "seen"
        assert (await sent(web, "PATCH", f"{RUNS}/r", {"note": ""}))["note"] is None
        await sent(web, "DELETE", f"{RUNS}/r", code=204)
        await sent(web, "POST", RUNS, {"dag_run_id": "r", "logical_date": None})
        details = await here.finished("noted", "r")
        again = {one["task_id"]: one["note"] for one in (await sent(web, "GET", TASKS))["task_instances"]}
        assert again["many"] is None
        assert again["fails"] == details.tasks[0].error


async def test_a_note_that_comes_with_a_clear_is_of_what_is_cleared(here: Stack, tmp_path: Path) -> None:
    await registered(here, "cleared")
    async with served(here, tmp_path / "web") as web:
        await sent(web, "POST", "dags/cleared/dagRuns", {"dag_run_id": "r", "logical_date": None})
        await here.finished("cleared", "r")
        body = {"dag_run_id": "r", "task_ids": ["fails"], "dry_run": False, "note": "once more"}
        await sent(web, "POST", "dags/cleared/clearTaskInstances", body)
        assert (await sent(web, "GET", "dags/cleared/dagRuns/r/taskInstances/fails"))["note"] == "once more"
        await here.finished("cleared", "r")


async def test_where_notes_cannot_be_kept_all_else_is_answered(here: Stack, tmp_path: Path) -> None:
    await registered(here, "lacking")
    runs, home = "dags/lacking/dagRuns", tmp_path / "web"
    home.mkdir()
    (home / "notes.db").mkdir()  # nothing can be opened there
    async with served(here, home) as web:
        made = await sent(web, "POST", runs, {"dag_run_id": "r", "logical_date": None, "note": "by hand"})
        assert (made["dag_run_id"], made["note"]) == ("r", None)
        await here.finished("lacking", "r")
        await eventually(lambda: sent(web, "GET", f"{runs}/r"), lambda found: found["state"] == "failed")
        answer = await web.patch(f"{runs}/r", json={"note": "x"})
        assert answer.status_code == 503
        assert (await web.get("dags")).status_code == 200
        favourites = await web.get("dags", params={"is_favorite": True})
        assert favourites.status_code == 503, "nobody knows: an empty list would say that there are none"
