"""Who did what: a line for each change and refusal, after the answer, with what it was about, kept over a restart."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from support import run_command
from test_access import SECRET, client
from tidemill.activities import audit
from tidemill.api.app import make_app
from tidemill.api.audit import NAMED
from tidemill.api.auth.sessions import Access
from tidemill.api.auth.tokens import Role, TokenFile, create_token
from tidemill.api.routes.event_logs import _change
from tidemill.worker.settings.reading import Settings
from web_stack import Web, nowhere

Line = dict[str, Any]


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    return {role.name.lower(): create_token(tmp_path / "tokens.json", role.name.lower(), role) for role in Role}


@pytest.fixture
def app(tmp_path: Path, tokens: dict[str, str]) -> FastAPI:
    assert tokens
    return make_app(nowhere(), Settings(home=tmp_path), access=Access(SECRET, TokenFile(tmp_path / "tokens.json")))


def lines(tmp_path: Path) -> list[Line]:
    path = tmp_path / audit.AUDIT_FILE
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def asked(app: FastAPI, method: str, path: str, token: str | None, body: Any = None) -> int:
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    async with client(app) as web:
        return (await web.request(method, path, headers=headers, json=body)).status_code


CHANGES = [
    ("POST", "/api/v2/backfills", {"dag_id": "sales", "from_date": "2026-01-01", "to_date": "2026-01-02"},
     {"dag_id": "sales", "from_date": "2026-01-01", "to_date": "2026-01-02"}),
    ("POST", "/api/v2/assets/events", {"asset_id": 7, "extra": {"password": "x"}}, {"asset_id": 7}),
    ("PATCH", "/api/v2/dags/sales", {"is_paused": True}, {"dag_id": "sales", "is_paused": True}),
    ("POST", "/api/v2/dags/sales/clearTaskInstances", {"dag_run_id": "r1", "task_ids": ["a", "b"], "dry_run": False},
     {"dag_id": "sales", "dag_run_id": "r1", "task_ids": ["a", "b"], "dry_run": False}),
    ("POST", "/api/v2/dags/sales/dagRuns", {"logical_date": None, "conf": {"key": "a secret"}},
     {"dag_id": "sales", "logical_date": None}),
    ("PATCH", "/api/v2/connections",
     {"actions": [{"action": "create", "entities": [{"connection_id": "db", "password": "secret", "extra": "secret"}]},
                  {"action": "delete", "entities": ["old"]}]},
     {"actions": [{"action": "create", "entities": [{"connection_id": "db"}]},
                  {"action": "delete", "entities": ["old"]}]}),
    ("POST", "/api/v2/dags/~/clearDagRuns", {"dag_runs": [{"dag_id": "a", "dag_run_id": "r", "note": "secret"}],
                                              "dry_run": False},
     {"dag_id": "~", "dag_runs": [{"dag_id": "a", "dag_run_id": "r"}], "dry_run": False}),
    ("POST", "/api/v2/pools", {"name": {"key": "k", "password": "secret"}, "slots": 10**30},
     {"name": "...", "slots": "1" + 30 * "0"}),
    ("POST", "/api/v2/dags/sales/clearTaskInstances", {"dag_run_id": "r1", "task_ids": [["a", 1]], "dry_run": False},
     {"dag_id": "sales", "dag_run_id": "r1", "task_ids": [["a", 1]], "dry_run": False}),
]  # fmt: skip
CONTENTS = {
    "conf", "dag_run_conf", "note", "description", "value", "extra", "params_input", "host", "login", "password",
    "port", "schema", "only_new", "team_name", "update_mask",
}  # fmt: skip
"""What of a body may hold anything, or is refused: it is in no line."""


@pytest.mark.parametrize("before", [b" " * 400_000, b'{"conf": {"x": "' + b"y" * 400_000 + b'"}, "padded": 1,'])
async def test_padding_hides_nothing(app: FastAPI, tokens: dict[str, str], tmp_path: Path, before: bytes) -> None:
    rest = b'"dag_id": "sales"}'
    headers = {"Authorization": f"Bearer {tokens['admin']}", "Content-Type": "application/json"}
    async with client(app) as web:
        await web.post(
            "/api/v2/backfills", headers=headers, content=before + (b"{" if before.isspace() else b"") + rest
        )
    [line] = lines(tmp_path)
    assert line["about"] == {"dag_id": "sales"}


def properties(document: Line, schema: Line, seen: set[str]) -> set[str]:
    """The names of a body and of what is in it."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in seen:
            return set()
        return properties(document, document["components"]["schemas"][name], seen | {name})
    inner = [one for kind in ("anyOf", "oneOf", "allOf") for one in schema.get(kind, ())]
    inner += [schema["items"]] if "items" in schema else []
    named = schema.get("properties", {})
    return {*named}.union(*(properties(document, one, seen) for one in [*inner, *named.values()]))


def test_of_each_field_of_a_change_it_is_known_whether_its_line_has_it(app: FastAPI) -> None:
    document = app.openapi()
    bodies = [
        content["schema"]
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if method != "get" and not path.endswith(("/list", "/token"))
        for content in operation.get("requestBody", {}).get("content", {}).values()
    ]
    found = set[str]().union(*(properties(document, body, set()) for body in bodies))
    assert found - NAMED - CONTENTS == set()
    assert not NAMED & CONTENTS
    assert found >= NAMED, "a name of nothing"


async def test_what_a_change_would_do_is_no_change(app: FastAPI, tokens: dict[str, str], tmp_path: Path) -> None:
    instance = "/api/v2/dags/sales/dagRuns/r1/taskInstances/a"
    for method, path, body in (
        ("POST", "/api/v2/dags/sales/clearTaskInstances", {"dag_run_id": "r1"}),
        ("POST", "/api/v2/dags/sales/dagRuns/r1/clear", {}),
        ("POST", "/api/v2/dags/~/clearDagRuns", {"dag_runs": []}),
        ("PATCH", f"{instance}/dry_run", {"new_state": "success"}),
        ("POST", "/api/v2/backfills/dry_run", {"dag_id": "sales", "from_date": "2026-01-01", "to_date": "2026-01-02"}),
    ):
        await asked(app, method, path, tokens["operator"], body)
    assert lines(tmp_path) == []


@pytest.mark.parametrize("depth", [100, 900, 100_000])
async def test_depth_hides_nothing(app: FastAPI, tokens: dict[str, str], tmp_path: Path, depth: int) -> None:
    body = f'{{"name": {"[" * depth}{"]" * depth}, "slots": 1}}'
    headers = {"Authorization": f"Bearer {tokens['admin']}", "Content-Type": "application/json"}
    async with client(app) as web:
        await web.post("/api/v2/pools", headers=headers, content=body)
    assert [line["path"] for line in lines(tmp_path)] == ["/api/v2/pools"]


async def test_many_names_are_cut_and_what_is_left_out_says_so(
    app: FastAPI, tokens: dict[str, str], tmp_path: Path
) -> None:
    runs = [{"dag_id": "d" * 300, "dag_run_id": "r" * 300, "map_index": int("7" * 300)} for _ in range(201)]
    actions = [{"action": "delete", "entities": runs} for _ in range(2)]
    await asked(app, "PATCH", "/api/v2/dags/~/dagRuns", tokens["operator"], {"actions": actions, "name": "last"})
    await asked(app, "PATCH", "/api/v2/connections", tokens["operator"],
                {"actions": [{"action": "delete", "entities": [*map(str, range(201))]}]})  # fmt: skip
    first, second = lines(tmp_path)
    assert len(json.dumps(first)) < 100_000
    assert first["about"]["more"] == "..."
    assert second["about"]["actions"][0]["entities"][-1] == "... 1 more"


@pytest.mark.parametrize("body", [
    '{"map_index": 1e999}', '{"logical_date": NaN}', '{"dag_id": {"name": "x"}, "task_id": [1], "dag_run_id": 7}',
])  # fmt: skip
async def test_no_refused_change_keeps_others_from_being_listed(
    app: FastAPI, tokens: dict[str, str], tmp_path: Path, body: str
) -> None:
    headers = {"Authorization": f"Bearer {tokens['operator']}", "Content-Type": "application/json"}
    async with client(app) as web:
        await web.post("/api/v2/backfills", headers=headers, content=body)
    [line] = lines(tmp_path)
    shown = _change(line)
    assert _change({**line, "about": {"map_index": float("inf")}})["map_index"] is None, "a line of a release before"
    json.dumps(shown, allow_nan=False)
    assert all(isinstance(shown[name], str | None) for name in ("dag_id", "task_id", "run_id", "logical_date"))


@pytest.mark.parametrize(("method", "path", "body", "about"), CHANGES)
async def test_a_change_says_who_what_and_how_it_went(
    app: FastAPI, tokens: dict[str, str], tmp_path: Path, method: str, path: str, body: Line, about: Line
) -> None:
    status = await asked(app, method, path, tokens["operator"], body)
    [line] = lines(tmp_path)
    assert line["about"] == about
    assert (line["who"], line["role"], line["status"]) == ("operator", "operator", status)
    assert (line["method"], line["path"], line["address"]) == (method, path, "127.0.0.1")
    assert "secret" not in json.dumps(line)


async def test_refusals_and_ways_in_are_kept_and_looking_is_not(
    app: FastAPI, tokens: dict[str, str], tmp_path: Path
) -> None:
    assert await asked(app, "GET", "/ui/auth/me", tokens["viewer"]) == 200
    assert await asked(app, "GET", "/ui/auth/me", None) == 401  # a page that nobody has logged in to
    assert lines(tmp_path) == []
    assert await asked(app, "DELETE", "/api/v2/dags/sales", tokens["operator"]) == 403
    assert await asked(app, "GET", "/api/v2/dags", "tidemill_forged") == 401
    assert await asked(app, "POST", "/auth/token", None, {"username": "x", "password": "wrong"}) == 401
    assert await asked(app, "POST", "/auth/token", None, {"username": "x", "password": tokens["admin"]}) == 201
    told = [(line["who"], line["status"]) for line in lines(tmp_path)]
    assert told == [("operator", 403), (None, 401), (None, 401), ("admin", 201)]
    assert "wrong" not in (tmp_path / audit.AUDIT_FILE).read_text()
    async with client(app) as web:
        foreign = {"Origin": "https://evil.example", "Authorization": f"Bearer {tokens['admin']}"}
        await web.patch("/api/v2/dags/sales", json={"is_paused": True}, headers=foreign)
    assert lines(tmp_path)[-1]["status"] == 403


async def test_refusals_do_not_fill_the_disk(app: FastAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_REFUSALS", 3)
    monkeypatch.setattr(audit.time, "monotonic", lambda: 61.0)
    for _ in range(10):
        await asked(app, "GET", "/api/v2/dags", "tidemill_forged")
    assert len(lines(tmp_path)) == 3


def test_it_is_listed_by_the_api_and_by_the_command_line(web: Web) -> None:
    made = httpx.post(f"{web.url}/api/v2/pools", json={"name": "audited", "slots": 2}, timeout=60)
    assert made.status_code == 201
    logs = web.get("/api/v2/eventLogs", params={"owner": "Anonymous", "event": "post_pool"}).json()["event_logs"]
    mine = [one for one in logs if json.loads(one["extra"])["about"].get("name") == "audited"]
    assert [(one["dag_id"], json.loads(one["extra"])["status"]) for one in mine] == [(None, 201)]
    for name in ("dag_id_pattern", "dag_id_prefix_pattern"):
        assert web.get("/api/v2/eventLogs", params={name: "no such"}).json() == {"event_logs": [], "total_entries": 0}
    listed = run_command(web.here, "audit", "--home", str(web.folder / "home"), "--who", "Anonymous", "--json")
    assert "audited" in [line["about"].get("name") for line in json.loads(listed.stdout)]
    refused = run_command(web.here, "audit", "--home", str(web.folder / "home"), "--refused", "--json")
    assert all(line["status"] >= 400 for line in json.loads(refused.stdout))
