"""Variables and connections that people keep: encrypted, changed at once, behind the environment, never in history."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.fernet import Fernet
from support import Stack, bash, dag, eventually, run_command, stack
from test_access import SECRET, client
from tidemill.activities import secrets
from tidemill.activities.attempts.key_values import VARIABLES, KeyValues
from tidemill.activities.dag_files import parse_dag_file
from tidemill.activities.kept import Kept
from tidemill.activities.secret_store import SecretStore
from tidemill.activities.secrets import Connection, Variable
from tidemill.api.app import make_app
from tidemill.api.auth.sessions import Access
from tidemill.api.auth.tokens import Role, TokenFile, create_token
from tidemill.model.errors import InvalidInputError, SecretStoreError
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.states import RunState
from tidemill.worker.cli.web import web_server
from tidemill.worker.settings.reading import Settings
from web_stack import nowhere

API = "/api/v2"


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a store that this process has the key of."""
    path = tmp_path / "kept.db"
    monkeypatch.setenv("TIDEMILL_SECRETS_DATABASE", f"sqlite:///{path}")
    use_key(monkeypatch, Fernet.generate_key().decode())
    monkeypatch.setenv("TIDEMILL_VAR_FIXED", "of the environment")
    return path


def use_key(monkeypatch: pytest.MonkeyPatch, *keys: str) -> None:
    monkeypatch.setenv("TIDEMILL_FERNET_KEY", ",".join(keys))
    secrets.backends.cache_clear()
    secrets._encrypted.cache_clear()


@pytest.fixture(autouse=True)
def afterwards() -> Any:
    yield
    secrets.backends.cache_clear()
    secrets._encrypted.cache_clear()


@dataclass
class Web:
    here: Stack
    client: httpx.AsyncClient


@pytest.fixture
async def web(server: str, tmp_path: Path, database: Path) -> AsyncIterator[Web]:
    assert database
    async with (
        stack(server, tmp_path / "home") as here,
        web_server(here.tidemill, Settings(home=tmp_path / "web"), "127.0.0.1", 0) as url,
        httpx.AsyncClient(base_url=f"{url}{API}", timeout=60) as asking,
    ):
        yield Web(here, asking)


async def printed(web: Web, dag_id: str, command: str) -> tuple[RunState, str]:
    details = await web.here.run_once(dag(dag_id, [bash("say", command)]))
    return details.state, web.here.log_of(dag_id, details.run.run_id, "say")


async def test_a_variable_is_kept_changed_and_removed_and_tasks_see_it_at_once(web: Web, database: Path) -> None:
    body = {"key": "kept_region", "value": "eu-west-1", "description": "where"}
    made = await web.client.post("/variables", json=body)
    assert (made.status_code, made.json()) == (201, {**body, "is_encrypted": True, "team_name": None})
    assert b"eu-west-1" not in database.read_bytes()
    assert (database.stat().st_mode & 0o077) == 0
    say = "echo it is '{{ var.value.kept_region }}'"
    assert "it is eu-west-1" in (await printed(web, "kept_variable", say))[1]
    changed = await web.client.patch("/variables/kept_region", json={**body, "value": "us"})
    assert changed.json()["value"] == "us"
    assert "it is us" in (await printed(web, "kept_variable", say))[1]
    assert (await web.client.delete("/variables/kept_region")).status_code == 204
    assert (await printed(web, "kept_variable", say))[0] is RunState.FAILED
    assert (await web.client.get("/variables/kept_region")).status_code == 404


async def test_what_is_secret_is_not_shown_and_what_comes_back_hidden_stays(web: Web) -> None:
    connection = {
        "connection_id": "kept_db", "conn_type": "postgres", "host": "db", "login": "ada", "password": "s3cret-word",
        "schema": "sales", "port": 5432, "extra": json.dumps({"sslmode": "require", "api_key": "k3y-of-extra"}),
    }  # fmt: skip
    made = await web.client.post("/connections", json=connection)
    assert made.status_code == 201, made.text
    assert "s3cret" not in made.text
    assert "k3y" not in made.text
    assert json.loads(made.json()["extra"]) == {"sslmode": "require", "api_key": "***"}
    shown = {name: value for name, value in made.json().items() if value is not None}
    changed = await web.client.patch("/connections/kept_db", json={**shown, "host": "db2"})
    assert changed.status_code == 200, changed.text
    kept = Connection.get("kept_db")
    assert (kept.host, kept.password) == ("db2", "s3cret-word")
    assert kept.extra_dejson == {"sslmode": "require", "api_key": "k3y-of-extra"}
    deep = json.dumps({"a": {"token": "de-ep"}, "url": "https://x?k=k3y-of-url", "api_key": "k3y-of-url"})
    await web.client.post("/connections", json={"connection_id": "kept_deep", "conn_type": "http", "extra": deep})
    shown = (await web.client.get("/connections/kept_deep")).json()
    assert "de-ep" not in shown["extra"]
    assert "k3y-of-url" not in shown["extra"]
    given = {"connection_id": "kept_deep", "conn_type": "http", "host": "h", "extra": shown["extra"]}
    await web.client.patch("/connections/kept_deep", json=given)
    assert Connection.get("kept_deep").extra_dejson == json.loads(deep), "also what is hidden within"
    only_port = await web.client.patch(
        "/connections/kept_db?update_mask=port",
        json={"connection_id": "kept_db", "conn_type": "x", "port": 5433},
    )
    assert (only_port.json()["port"], only_port.json()["conn_type"]) == (5433, "postgres")
    state, log = await printed(web, "kept_connection", "echo {{ conn.kept_db.password }} of {{ conn.kept_db.host }}")
    assert state is RunState.SUCCESS
    assert "*** of db2" in log
    await web.client.post("/variables", json={"key": "kept_api_key", "value": {"a": ["hid-den"]}})
    assert (await web.client.get("/variables/kept_api_key")).json()["value"] == "***"
    await web.client.patch("/variables/kept_api_key", json={"key": "kept_api_key", "value": "***", "description": "d"})
    assert Variable.get("kept_api_key", deserialize_json=True) == {"a": ["hid-den"]}


async def test_names_are_taken_once_and_what_goes_before_the_store_is_not_changed_there(web: Web) -> None:
    for key, place in (("fixed", "TIDEMILL_VAR_FIXED"), ("kept_twice", "the store")):
        await web.client.post("/variables", json={"key": key, "value": "1"})
        again = await web.client.post("/variables", json={"key": key, "value": "2"})
        assert again.status_code == 409
        assert place in again.json()["detail"]
    assert Variable.get("fixed") == "of the environment"
    for answer in (
        await web.client.patch("/variables/fixed", json={"key": "fixed", "value": "2"}),
        await web.client.delete("/variables/fixed"),
    ):
        assert answer.status_code == 404
        assert "it is in TIDEMILL_VAR_FIXED, and is changed there" in answer.json()["detail"]
    wrong = await web.client.patch("/variables/kept_twice", json={"key": "other", "value": "2"})
    assert wrong.status_code == 400
    for body in ({"connection_id": "a b", "conn_type": "x"}, {"connection_id": "a", "conn_type": "x", "extra": "[1]"}):
        assert (await web.client.post("/connections", json=body)).status_code == 422


async def test_many_are_changed_at_once(web: Web) -> None:
    """Each action as a whole or not at all, as in Airflow."""
    actions = [
        {"action": "create", "entities": [{"key": f"bulk_{n}", "value": n} for n in range(3)]},
        {"action": "create", "entities": [{"key": "bulk_0", "value": 9}], "action_on_existence": "overwrite"},
        {"action": "create", "entities": [{"key": "bulk_1", "value": 9}], "action_on_existence": "skip"},
        {"action": "create", "entities": [{"key": "bulk_1", "value": 9}, {"key": "bulk_7", "value": 9}]},
        {"action": "update", "entities": [{"key": "bulk_2", "value": 7}, {"key": "bulk_9", "value": 7}]},
        {"action": "update", "entities": [{"key": "bulk_2", "value": 8}]},
        {"action": "delete", "entities": ["bulk_1", "bulk_8"], "action_on_non_existence": "skip"},
    ]
    answer = (await web.client.patch("/variables", json={"actions": actions})).json()
    assert answer["create"]["success"] == ["bulk_0", "bulk_1", "bulk_2", "bulk_0"]
    assert [error["status_code"] for error in answer["create"]["errors"]] == [409]
    assert answer["update"]["success"] == ["bulk_2"]
    assert [error["status_code"] for error in answer["update"]["errors"]] == [404]
    assert answer["delete"] == {"success": ["bulk_1"], "errors": []}
    listed = (await web.client.get("/variables", params={"variable_key_prefix_pattern": "bulk_"})).json()
    assert {one["key"]: one["value"] for one in listed["variables"]} == {"bulk_0": "9", "bulk_2": "8"}
    actions = [{"action": "create", "entities": [{"key": "fixed", "value": 1}]}]
    answer = (await web.client.patch("/variables", json={"actions": actions})).json()
    assert answer["create"]["errors"][0]["status_code"] == 409, "the environment goes before the store"


async def test_many_pools_and_dags_are_changed_at_once(web: Web) -> None:
    pools = [
        {"action": "create", "entities": [{"name": f"bulk_{n}", "slots": n + 1} for n in range(2)]},
        {
            "action": "update",
            "entities": [{"name": "bulk_0", "slots": 5, "description": "d"}],
            "update_mask": ["slots"],
        },
        {"action": "delete", "entities": ["bulk_1"]},
    ]
    answer = (await web.client.patch("/pools", json={"actions": pools})).json()
    assert answer == {
        "create": {"success": ["bulk_0", "bulk_1"], "errors": []},
        "update": {"success": ["bulk_0"], "errors": []},
        "delete": {"success": ["bulk_1"], "errors": []},
    }
    kept = (await web.client.get("/pools/bulk_0")).json()
    assert (kept["slots"], kept["description"]) == (5, None)
    for dag_id in ("bulk_a", "bulk_b", "other_bulk"):
        await web.here.tidemill.dags.register(dag(dag_id, [bash("a", "true")]))
    nothing = await web.client.patch("/dags", json={"is_paused": True})
    assert nothing.json() == {"dags": [], "total_entries": 0}, "without a pattern none is meant"

    async def paused() -> int:
        answer = await web.client.patch("/dags?dag_id_prefix_pattern=bulk_", json={"is_paused": True})
        assert all(one["is_paused"] for one in answer.json()["dags"])
        return int(answer.json()["total_entries"])

    await eventually(paused, lambda total: total == 2)  # lists lag
    found = {
        name: (await web.here.tidemill.dags.describe(name)).is_paused for name in ("bulk_a", "bulk_b", "other_bulk")
    }
    assert found == {"bulk_a": True, "bulk_b": True, "other_bulk": False}


def test_keys_are_changed_without_losing_anything(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert database
    old, new = (Fernet.generate_key().decode() for _ in range(2))
    use_key(monkeypatch, old)
    SecretStore().add("variable", Kept("a", "1", None))
    use_key(monkeypatch, new, old)
    assert Variable.get("a") == "1"
    SecretStore().change("variable", Kept("a", "2", None))
    use_key(monkeypatch, new)
    assert Variable.get("a") == "2"
    use_key(monkeypatch, old)
    with pytest.raises(SecretStoreError, match="was kept with another key"):
        Variable.get("a")
    assert Variable.get("fixed") == "of the environment"


@pytest.mark.parametrize(("name", "value", "told"), [
    ("TIDEMILL_FERNET_KEY", "short", "TIDEMILL_FERNET_KEY is no key"),
    ("TIDEMILL_SECRETS_DATABASE", "", "no database to keep secrets in"),
    ("TIDEMILL_SECRETS_DATABASE", "nonsense", "TIDEMILL_SECRETS_DATABASE is no URL"),
])  # fmt: skip
def test_settings_that_make_no_store_are_refused_by_name(
    database: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    assert database
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInputError, match=told):
        SecretStore().names("variable")


async def test_who_is_no_admin_changes_nothing_and_who_only_looks_sees_no_value(tmp_path: Path, database: Path) -> None:
    assert database
    SecretStore().add("variable", Kept("kept_plain", "value", None))
    file = tmp_path / "tokens.json"
    tokens = {role: create_token(file, role.name.lower(), role) for role in Role}
    app = make_app(nowhere(), Settings(home=tmp_path), access=Access(SECRET, TokenFile(file)))
    async with client(app) as asking:
        for role, seen, status in (
            (Role.VIEWER, "***", 403),
            (Role.OPERATOR, "value", 403),
            (Role.ADMIN, "value", 201),
        ):
            headers = {"Authorization": f"Bearer {tokens[role]}"}
            shown = await asking.get(f"{API}/variables/kept_plain", headers=headers)
            assert shown.json()["value"] == seen
            body = {"key": f"by_{role.name.lower()}", "value": "1"}
            assert (await asking.post(f"{API}/variables", json=body, headers=headers)).status_code == status
            bulk = {"actions": [{"action": "delete", "entities": ["kept_plain"]}]}
            if role is not Role.ADMIN:
                assert (await asking.patch(f"{API}/variables", json=bulk, headers=headers)).status_code == 403


@pytest.mark.thorough
async def test_the_command_line_keeps_and_removes(here: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = Fernet.generate_key().decode()
    without = run_command(here, "variables", "set", "by_hand", "1")
    assert without.returncode != 0
    assert "Set TIDEMILL_FERNET_KEY" in without.stderr
    monkeypatch.setenv("TIDEMILL_FERNET_KEY", key)
    monkeypatch.setenv("TIDEMILL_SECRETS_DATABASE", f"sqlite:///{tmp_path / 'kept.db'}")
    monkeypatch.setenv("TIDEMILL_VAR_FIXED", "1")
    assert run_command(here, "variables", "set", "by_hand", "1").returncode == 0
    assert run_command(here, "variables", "set", "by_hand", "2").returncode == 0
    assert run_command(here, "variables", "get", "by_hand").stdout.strip() == "2"
    assert json.loads(run_command(here, "variables", "list", "--json").stdout)["by_hand"] == "the store"
    assert "goes before the store" in run_command(here, "variables", "set", "fixed", "2").stderr
    assert run_command(here, "connections", "add", "db", "postgres://ada:pw@db:5432/x").returncode == 0
    shown = run_command(here, "connections", "get", "db", "--show", "--json").stdout
    assert json.loads(shown)["password"] == "pw"
    assert "no JSON" in (told := run_command(here, "connections", "add", "db", "{").stderr) or "cannot be read" in told
    for kind, name in (("variables", "by_hand"), ("connections", "db")):
        assert run_command(here, kind, "delete", name).returncode == 0
        assert run_command(here, kind, "delete", name).returncode != 0


SETS = """
from tidemill import DAG, Variable, task

with DAG("moves", params={"to": None, "forget": False}):
    @task
    def move(params):
        if params["to"] is not None:
            Variable.set("cursor", params["to"])
        if params["forget"]:
            Variable.delete("cursor")
        return Variable.get("cursor", default="nothing")

    move()
"""


@pytest.mark.parametrize("keyed", [True, False])
async def test_what_a_task_sets_people_see_change_and_remove(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyed: bool
) -> None:
    if keyed:
        monkeypatch.setenv("TIDEMILL_SECRETS_DATABASE", f"sqlite:///{tmp_path / 'kept.db'}")
        use_key(monkeypatch, Fernet.generate_key().decode())
    file = tmp_path / "moves.py"
    file.write_text(SETS)
    [spec] = (await asyncio.to_thread(parse_dag_file, file)).dags
    async with (
        stack(server, tmp_path / "home") as here,
        web_server(here.tidemill, Settings(home=tmp_path / "home"), "127.0.0.1", 0) as url,
        httpx.AsyncClient(base_url=f"{url}{API}", timeout=60) as asking,
    ):
        await here.tidemill.dags.register(spec)

        async def moved(**conf: Any) -> Any:
            run = await here.tidemill.runs.trigger("moves", TriggerRequest(conf=conf))
            return await here.result_of(await here.finished("moves", run.run_id), "move")

        assert await moved(to="monday") == "monday"
        shown = (await asking.get("/variables/cursor")).json()
        assert (shown["value"], shown["is_encrypted"]) == ("monday", keyed)
        assert shown["description"].startswith("set by dag_id=moves/")
        assert [one["key"] for one in (await asking.get("/variables")).json()["variables"]] == ["cursor"]
        listed = await asyncio.to_thread(run_command, here, "variables", "get", "cursor")
        assert listed.stdout.strip() == "monday"
        changed = await asking.patch("/variables/cursor", json={"key": "cursor", "value": "sunday"})
        assert changed.status_code == 200, changed.text
        assert await moved() == "sunday"
        assert await moved(forget=True) == "nothing"
        assert (await asking.get("/variables/cursor")).status_code == 404
        await moved(to="tuesday")
        assert (await asking.delete("/variables/cursor")).status_code == 204
        assert await moved() == "nothing"


async def test_what_was_kept_without_a_key_is_taken_over(tmp_path: Path, database: Path) -> None:
    assert database
    files = KeyValues.beside((tmp_path / "xcom").as_uri())
    files.put(VARIABLES, "cursor", "monday")
    kept = secrets.store(files)
    assert kept is not None
    assert kept.find("variable", "cursor") == Kept("cursor", "monday")
    kept.put("variable", Kept("cursor", "sunday"))
    assert (files.keys(VARIABLES), kept.get_variable("cursor")) == ([], "sunday")
    assert kept.is_encrypted("variable", "cursor")
    assert kept.remove("variable", "cursor")
    assert not kept.remove("variable", "cursor")


async def test_a_variable_with_slashes_is_read_changed_and_removed(web: Web) -> None:
    body = {"key": "folder/sub/v w", "value": "1"}
    assert (await web.client.post("/variables", json=body)).status_code == 201
    for path in ("/variables/folder/sub/v w", "/variables/folder%2Fsub%2Fv%20w"):
        assert (await web.client.get(path)).json()["value"] == "1"
    assert (await web.client.patch("/variables/folder%2Fsub%2Fv%20w", json={**body, "value": "2"})).status_code == 200
    assert (await web.client.delete("/variables/folder%2Fsub%2Fv%20w")).status_code == 204


async def test_what_is_secret_within_json_is_not_shown_and_stays(web: Web) -> None:
    """However deep it is; as Airflow answers, also to an admin."""
    value = {"user": "ada", "password": "hun-ter2", "more": [{"api_key": "k3y", "n": 1}], "auth": {"token": ["a", "b"]}}
    shown = {"user": "ada", "password": "***", "more": [{"api_key": "***", "n": 1}], "auth": {"token": ["***", "***"]}}
    for given in (value, json.dumps(value)):
        await web.client.post("/variables", json={"key": "within", "value": given})
        for answer in (await web.client.get("/variables/within"), await web.client.get("/variables")):
            assert "hun-ter2" not in answer.text
        assert json.loads((await web.client.get("/variables/within")).json()["value"]) == shown
        changed = {"key": "within", "value": json.dumps({**shown, "user": "bob", "more": [{"api_key": "***", "n": 2}]})}
        await web.client.patch("/variables/within", json=changed)
        known = {**value, "user": "bob", "more": [{"api_key": "k3y", "n": 2}]}
        assert Variable.get("within", deserialize_json=True) == known
        await web.client.patch("/variables/within", json={"key": "within", "value": '{"password": "new"}'})
        assert Variable.get("within", deserialize_json=True) == {"password": "new"}
        await web.client.delete("/variables/within")


async def test_a_password_that_was_none_is_not_made_of_stars(web: Web) -> None:
    connection = {"connection_id": "no_password", "conn_type": "http", "host": "h"}
    await web.client.post("/connections", json=connection)
    patched = await web.client.patch("/connections/no_password", json={**connection, "password": "***"})
    assert (patched.status_code, patched.json()["password"]) == (200, None)
    assert Connection.get("no_password").password is None


async def test_what_is_secret_in_the_extra_of_an_event_is_not_shown(web: Web) -> None:
    task = {**bash("t", "true"), "outlets": [{"kind": "asset", "name": "extra_asset", "extra": {"api_key": "k3y"}}]}
    await web.here.run_once(dag("extra_of_event", [task]))

    async def one() -> Any:
        return (await web.client.get("/assets", params={"name_pattern": "extra_asset"})).json()["assets"]

    [asset] = await eventually(one, bool)
    body = {"asset_id": asset["id"], "extra": {"password": "hun-ter2", "rows": 3, "deep": {"token": "t0k"}}}
    made = await web.client.post("/assets/events", json=body)
    shown = {"password": "***", "rows": 3, "deep": {"token": "***"}, "from_rest_api": True}
    assert made.json()["extra"] == shown
    listed = await web.client.get("/assets/events", params={"asset_id": asset["id"]})
    assert shown in [event["extra"] for event in listed.json()["asset_events"]]
    assert "hun-ter2" not in listed.text
    assert "k3y" not in (await web.client.get(f"/assets/{asset['id']}")).text
