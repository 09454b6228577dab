"""Names that Airflow takes are taken everywhere: in a file, a path of the API, a command, a workflow's id."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from cryptography.fernet import Fernet
from support import Stack, dag, empty, eventually, run_command, stack
from tidemill.activities import secrets
from tidemill.model.states import RunState
from web_stack import asking_web

HARD_NAMES = [
    "etl pool", "pool:1", "my pool/x", "a/b/", "größe 名前", "it's \"50%\"", "a+b&c=d?e#f", "back\\slash", "{{ x }}",
    "a;b,c|d", "-dash", "x" * 250,
]  # fmt: skip


@pytest.fixture
async def here(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stack]:
    monkeypatch.setenv("TIDEMILL_SECRETS_DATABASE", f"sqlite:///{tmp_path / 'kept.db'}")
    monkeypatch.setenv("TIDEMILL_FERNET_KEY", Fernet.generate_key().decode())
    secrets.backends.cache_clear()
    secrets._encrypted.cache_clear()
    async with stack(server, tmp_path / "home") as made:
        yield made
    secrets.backends.cache_clear()
    secrets._encrypted.cache_clear()


@pytest.fixture
async def web(here: Stack, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with asking_web(here, tmp_path / "web") as client:
        yield client


async def test_pools(here: Stack, web: httpx.AsyncClient) -> None:
    for name in HARD_NAMES:
        made = await web.post("/pools", json={"name": name, "slots": 2})
        assert (made.status_code, made.json()["name"]) == (201, name), made.text
    tasks = [empty(f"t{number}", pool=name) for number, name in enumerate(HARD_NAMES)]
    assert (await here.run_once(dag("hard_pools", tasks))).state is RunState.SUCCESS
    listed = (await web.get("/pools", params={"limit": 100})).json()["pools"]
    assert set(HARD_NAMES) <= {pool["name"] for pool in listed}
    for name in HARD_NAMES:
        path = f"/pools/{quote(name, safe='')}"
        assert (await web.get(path)).json()["name"] == name
        changed = await web.patch(path, json={"name": name, "pool": name, "slots": 3, "include_deferred": False})
        assert changed.json()["slots"] == 3, changed.text
        shown = await asyncio.to_thread(run_command, here, "pools", "show", "--json", "--", name)
        assert json.loads(shown.stdout)["settings"]["slots"] == 3
        assert (await web.delete(path)).status_code == 204


async def test_variables(web: httpx.AsyncClient) -> None:
    for name in HARD_NAMES:
        made = await web.post("/variables", json={"key": name, "value": "1"})
        assert (made.status_code, made.json()["key"]) == (201, name), made.text
        path = f"/variables/{quote(name, safe='')}"
        assert (await web.get(path)).json()["key"] == name
        changed = await web.patch(path, json={"key": name, "value": "2"})
        assert changed.json()["value"] == "2", changed.text
        assert (await web.delete(path)).status_code == 204
        assert (await web.get(path)).status_code == 404


async def test_tags_owners_and_assets(here: Stack, web: httpx.AsyncClient) -> None:
    short = [name[:100] for name in HARD_NAMES]
    assets = [{"kind": "asset", "name": name, "uri": f"x://of/{quote(name)}"} for name in HARD_NAMES]
    task = empty("t", outlets=assets, owner=HARD_NAMES[2])
    details = await here.run_once(dag("hard_words", [task], tags=short))
    assert details.state is RunState.SUCCESS

    async def listed() -> int:
        return (await web.get("/dags")).json()["total_entries"]

    await eventually(listed, bool)
    for name in short:
        found = (await web.get("/dags", params={"tags": name})).json()["dags"]
        assert [one["dag_id"] for one in found] == ["hard_words"], name
    assert (await web.get("/dags", params={"owners": HARD_NAMES[2]})).json()["total_entries"] == 1
    for name in HARD_NAMES:
        found = (await web.get("/assets", params={"name_pattern": name})).json()["assets"]
        assert name in {asset["name"] for asset in found}
        one = next(asset for asset in found if asset["name"] == name)
        shown = await web.get(f"/assets/{one['id']}")
        assert shown.json().get("name") == name, shown.text
        events = (await web.get("/assets/events", params={"asset_id": one["id"]})).json()["asset_events"]
        assert [event["source_task_id"] for event in events] == ["t"]
