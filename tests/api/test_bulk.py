"""Runs and task instances in bulk: each is changed, or it is said why not (Airflow: its bulk operations)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import Stack, bash, dag, eventually, stack
from tidemill.api.auth.tokens import Role, create_token
from tidemill.model.run.identity import TriggerRequest
from tidemill.worker.cli.web import web_server
from tidemill.worker.settings.reading import Settings


@asynccontextmanager
async def served(here: Stack, home: Path, role: Role | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """The web; with *role* for somebody who has it, else for everybody."""
    settings, headers = Settings(home=home), {}
    if role is not None:
        settings = Settings(home=home, api_tokens=home / "tokens.json")
        headers["Authorization"] = f"Bearer {create_token(home / 'tokens.json', 'ann', role)}"
    async with (
        web_server(here.tidemill, settings, "127.0.0.1", 0) as url,
        httpx.AsyncClient(base_url=f"{url}/api/v2", timeout=60, headers=headers) as client,
    ):
        yield client


async def sent(web: httpx.AsyncClient, method: str, path: str, body: Any, code: int = 200) -> Any:
    answer = await web.request(method, path, json=body)
    assert answer.status_code == code, answer.text
    return answer.json()


@pytest.fixture
async def here(server: str, tmp_path: Path) -> AsyncIterator[Stack]:
    (tmp_path / "web").mkdir()
    async with stack(server, tmp_path / "home") as made:
        yield made


async def failed_runs(here: Stack, *dag_ids: str) -> None:
    """A run `a` and a run `b` of each, which have failed."""
    for dag_id in dag_ids:
        await here.tidemill.dags.register(dag(dag_id, [bash("ok", "true"), bash("fails", "exit 1", upstream=["ok"])]))
        for run_id in ("a", "b"):
            await here.tidemill.runs.trigger(dag_id, TriggerRequest(run_id=run_id))
    for dag_id in dag_ids:
        for run_id in ("a", "b"):
            await here.finished(dag_id, run_id)


async def state(here: Stack, dag_id: str, run_id: str) -> str:
    return str((await here.tidemill.runs.find(dag_id, run_id)).state)


async def test_runs_of_several_dags_are_marked_and_noted(here: Stack, tmp_path: Path) -> None:
    await failed_runs(here, "bulk_one", "bulk_two")
    entities = [
        {"dag_id": "bulk_one", "dag_run_id": "a", "state": "success", "note": "seen"},
        {"dag_id": "bulk_two", "dag_run_id": "b", "state": "success"},
        {"dag_run_id": "a"},
    ]
    async with served(here, tmp_path / "web") as web:
        told = await sent(web, "PATCH", "dags/~/dagRuns", {"actions": [{"action": "update", "entities": entities}]})
        assert told["update"]["success"] == ["bulk_one.a", "bulk_two.b"]
        assert [one["status_code"] for one in told["update"]["errors"]] == [400]
        assert (await web.get("dags/bulk_one/dagRuns/a")).json()["note"] == "seen"
    assert await state(here, "bulk_one", "a") == "success"
    assert await state(here, "bulk_one", "b") == "failed"
    assert await state(here, "bulk_two", "b") == "success"


async def test_nothing_is_changed_where_one_is_missing_unless_it_may_be(here: Stack, tmp_path: Path) -> None:
    await failed_runs(here, "bulk_missing")
    action = {
        "action": "update",
        "entities": [{"dag_run_id": "a", "state": "success"}, {"dag_run_id": "nowhere", "state": "success"}],
    }
    async with served(here, tmp_path / "web") as web:
        told = await sent(web, "PATCH", "dags/bulk_missing/dagRuns", {"actions": [action]})
        assert told["update"]["success"] == []
        assert told["update"]["errors"][0]["status_code"] == 404
        assert "nowhere" in told["update"]["errors"][0]["error"]
        assert await state(here, "bulk_missing", "a") == "failed"
        skipping = {**action, "action_on_non_existence": "skip"}
        told = await sent(web, "PATCH", "dags/bulk_missing/dagRuns", {"actions": [skipping]})
        assert told["update"] == {"success": ["bulk_missing.a"], "errors": []}


async def test_runs_are_deleted_by_admins_alone(here: Stack, tmp_path: Path) -> None:
    await failed_runs(here, "bulk_deleted")
    body = {"actions": [{"action": "delete", "entities": ["a", {"dag_run_id": "b"}]}]}
    async with served(here, tmp_path / "web", Role.OPERATOR) as web:
        told = await sent(web, "PATCH", "dags/bulk_deleted/dagRuns", body)
        assert told["delete"]["success"] == []
        assert {one["status_code"] for one in told["delete"]["errors"]} == {403}
    async with served(here, tmp_path / "web") as web:
        told = await sent(web, "PATCH", "dags/bulk_deleted/dagRuns", body)
        assert told["delete"] == {"success": ["bulk_deleted.a", "bulk_deleted.b"], "errors": []}
        for run_id in ("a", "b"):
            assert (await web.get(f"dags/bulk_deleted/dagRuns/{run_id}")).status_code == 404


async def test_what_cannot_be_done_in_bulk_is_said(here: Stack, tmp_path: Path) -> None:
    await failed_runs(here, "bulk_refused")
    async with served(here, tmp_path / "web") as web:
        for path, action, entity in (
            ("dags/bulk_refused/dagRuns", "create", {"dag_run_id": "c"}),
            ("dags/bulk_refused/dagRuns/a/taskInstances", "create", {"task_id": "ok"}),
            ("dags/bulk_refused/dagRuns/a/taskInstances", "delete", {"task_id": "ok"}),
        ):
            told = await sent(web, "PATCH", path, {"actions": [{"action": action, "entities": [entity]}]})
            assert told[action]["success"] == []
            assert told[action]["errors"][0]["status_code"] == 405


async def test_failed_runs_are_cleared_together(here: Stack, tmp_path: Path) -> None:
    await failed_runs(here, "bulk_cleared", "bulk_beside")
    runs = [{"dag_id": "bulk_cleared", "dag_run_id": "a"}, {"dag_id": "bulk_beside", "dag_run_id": "b"}]
    body = {"dag_runs": runs, "only_failed": True}
    async with served(here, tmp_path / "web") as web:
        told = await sent(web, "POST", "dags/~/clearDagRuns", body)  # dry_run is the default, as in Airflow
        named = {(one["dag_id"], one["dag_run_id"], one["task_id"]) for one in told["task_instances"]}
        assert named == {("bulk_cleared", "a", "fails"), ("bulk_beside", "b", "fails")}
        wrong = {**body, "dry_run": False, "dag_runs": [*runs, {"dag_id": "bulk_beside", "dag_run_id": "nowhere"}]}
        await sent(web, "POST", "dags/~/clearDagRuns", wrong, 404)
        assert await tries(here, "bulk_cleared", "a") == 1
        told = await sent(web, "POST", "dags/~/clearDagRuns", {**body, "dry_run": False, "note": "again"})
        assert [(one["dag_id"], one["dag_run_id"]) for one in told["dag_runs"]] == [
            ("bulk_cleared", "a"),
            ("bulk_beside", "b"),
        ]
        await sent(web, "POST", "dags/bulk_cleared/clearDagRuns", {"dag_runs": runs}, 422)  # the path names one DAG
    for dag_id, run_id in (("bulk_cleared", "a"), ("bulk_beside", "b")):
        await eventually(lambda dag_id=dag_id, run_id=run_id: tries(here, dag_id, run_id), lambda found: found == 2)
    assert await tries(here, "bulk_cleared", "b") == 1


async def tries(here: Stack, dag_id: str, run_id: str) -> int:
    """How often `fails` was tried."""
    details = await here.tidemill.runs.describe(dag_id, run_id)
    return next(task.try_number for task in details.tasks if task.task_id == "fails")


async def test_instances_of_several_runs_are_marked(here: Stack, tmp_path: Path) -> None:
    mapped = {**bash("many", "exit 1"), "expand": {"by": {"env": [{"A": "1"}, {"A": "2"}]}, "into": "fields"}}
    await here.tidemill.dags.register(dag("bulk_tasks", [bash("fails", "exit 1"), mapped]))
    for run_id in ("a", "b"):
        await here.tidemill.runs.trigger("bulk_tasks", TriggerRequest(run_id=run_id))
        await here.finished("bulk_tasks", run_id)
    entities = [
        {"dag_run_id": "a", "task_id": "fails", "new_state": "success"},
        {"dag_run_id": "a", "task_id": "many", "new_state": "success"},
        {"dag_run_id": "b", "task_id": "many", "map_index": 1, "new_state": "success", "note": "one of two"},
        {"task_id": "fails", "new_state": "success"},
    ]
    body = {"actions": [{"action": "update", "entities": entities}]}
    async with served(here, tmp_path / "web") as web:
        told = (await sent(web, "PATCH", "dags/bulk_tasks/dagRuns/~/taskInstances", body))["update"]
        assert told["success"] == ["bulk_tasks.a.fails[-1]", "bulk_tasks.a.many[-1]", "bulk_tasks.b.many[1]"]
        assert [one["status_code"] for one in told["errors"]] == [400]
        noted = (await web.get("dags/bulk_tasks/dagRuns/b/taskInstances/many/1")).json()
        assert (noted["state"], noted["note"]) == ("success", "one of two")
    for run_id, wanted in (("a", ["success"] * 3), ("b", ["failed", "failed", "success"])):
        details = await here.tidemill.runs.describe("bulk_tasks", run_id)
        assert [str(task.state) for task in details.tasks] == wanted, run_id
