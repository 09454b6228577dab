"""Who may do what: all operations with each role and with none, forged and old sessions, tokens that are taken back."""

import json
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from httpx import ASGITransport, AsyncClient, Response
from support import temporal_server
from temporalio.client import Client
from tidemill.api.app import make_app
from tidemill.api.auth import login
from tidemill.api.auth.access import COOKIE, OPEN, needed_role
from tidemill.api.auth.ended_sessions import EndedSessions
from tidemill.api.auth.login import same_site
from tidemill.api.auth.rates import CHANGES, LOGINS, Rates
from tidemill.api.auth.sessions import Access
from tidemill.api.auth.tokens import Role, TokenFile, create_token, revoke_token, session_secret
from tidemill.api.pages import tabs
from tidemill.api.routes.not_offered import FORBIDDEN
from tidemill.model.errors import InvalidInputError
from tidemill.worker.cli.web import web_server
from tidemill.worker.client import Tidemill
from tidemill.worker.service.connection import NotFoundError
from tidemill.worker.service.converter import ModelsPlugin
from tidemill.worker.settings.reading import Settings
from web_stack import nowhere

SECRET = b"s" * 32


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    """A token of somebody with each role; the file is beside."""
    file = tmp_path / "tokens.json"
    return {role.name.lower(): create_token(file, role.name.lower(), role) for role in Role}


def access_of(folder: Path) -> Access:
    return Access(SECRET, TokenFile(folder / "tokens.json"))


@pytest.fixture
def app(tmp_path: Path, tokens: dict[str, str]) -> FastAPI:
    return make_app(nowhere(), Settings(home=tmp_path), access=access_of(tmp_path))


def client(app: FastAPI) -> AsyncClient:
    return AsyncClient(transport=ASGITransport(app, raise_app_exceptions=False), base_url="http://127.0.0.1")


def routes(app: FastAPI) -> list[tuple[str, str]]:
    """Every operation and every page of ours."""
    pages = [route for router in (tabs.router, login.router) for route in router.routes if isinstance(route, APIRoute)]
    found = {(method.upper(), path) for path, item in app.openapi()["paths"].items() for method in item}
    return sorted(found | {(method, route.path) for route in pages for method in route.methods})


async def call(app: FastAPI, method: str, path: str, token: str | None) -> Response:
    filled = path
    for name in ("dag_run_id", "run_id", "dag_id", "task_id", "xcom_key", "pool_name", "file_token"):
        filled = filled.replace("{" + name + "}", "x")
    while "{" in filled:  # numbers
        filled = filled[: filled.index("{")] + "1" + filled[filled.index("}") + 1 :]
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    async with client(app) as web:
        body = {"json": {}} if method in ("POST", "PATCH", "PUT") else {}
        return await web.request(method, filled, headers=headers, **body)  # type: ignore[arg-type]


async def test_every_operation_asks_who_it_is(app: FastAPI, tokens: dict[str, str]) -> None:
    """There is nothing behind it here: whoever is let in meets an error that is not about access."""
    assert len(routes(app)) > 90
    forbidden = {(method, path.replace(":path}", "}")) for method, path in FORBIDDEN}
    for method, path in routes(app):
        role = needed_role(method, path)
        if role is None:
            assert path in OPEN
            continue
        app.state.rates = Rates()
        assert (await call(app, method, path, None)).status_code == 401, (method, path)
        assert (await call(app, method, path, "tidemill_forged")).status_code == 401, (method, path)
        for name, token in tokens.items():
            status = (await call(app, method, path, token)).status_code
            let_in = Role[name.upper()] >= role and (method, path) not in forbidden
            assert (status != 403) is let_in, (method, path, name, status)


def test_what_changes_something_needs_more_than_looking() -> None:
    assert needed_role("GET", "/api/v2/dags") is Role.VIEWER
    assert needed_role("POST", "/api/v2/dags/{dag_id}/dagRuns") is Role.OPERATOR
    assert needed_role("POST", "/api/v2/dags/{dag_id}/dagRuns/list") is Role.VIEWER
    assert needed_role("DELETE", "/api/v2/dags/{dag_id}") is Role.ADMIN
    assert needed_role("PATCH", "/api/v2/pools/{pool_name}") is Role.ADMIN


async def test_sessions_are_begun_by_a_form_and_end(app: FastAPI, tokens: dict[str, str], tmp_path: Path) -> None:
    async with client(app) as web:
        form = await web.get("/api/v2/auth/login?next=/dags")
        assert 'value="/dags"' in form.text
        assert (await web.post("/auth/login", data={"token": "wrong"})).status_code == 401
        begun = await web.post("/auth/login", data={"token": tokens["viewer"], "next": "/dags"})
        assert (begun.status_code, begun.headers["location"]) == (303, "/dags")
        cookie = begun.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        assert (await web.get("/ui/auth/me")).json() == {"id": "viewer", "username": "viewer"}
        assert (await web.patch("/api/v2/dags/x", json={"is_paused": True})).status_code == 403
        # The header wins over the cookie.
        other = {"Authorization": f"Bearer {tokens['admin']}"}
        assert (await web.get("/ui/auth/me", headers=other)).json()["id"] == "admin"
        assert (await web.get("/ui/auth/me", headers={"Authorization": "Basic eDp5"})).status_code == 401
        revoke_token(tmp_path / "tokens.json", "viewer")
        assert (await web.get("/ui/auth/me")).status_code == 401


async def test_sessions_that_are_forged_or_over_are_nobodys(
    app: FastAPI, tokens: dict[str, str], tmp_path: Path
) -> None:
    access = access_of(tmp_path)
    person = access.person(tokens["admin"])
    assert person is not None
    told = {"sub": "admin", "exp": int(time.time()) + 60, "iss": "tidemill"}
    forged = [
        jwt.encode(told, b"x" * 32, algorithm="HS256"),
        jwt.encode(told, "", algorithm="none"),
        jwt.encode({**told, "exp": int(time.time()) - 1}, access._key_of_tokens, algorithm="HS256"),
        jwt.encode({**told, "iss": "other"}, access._key_of_tokens, algorithm="HS256"),
        jwt.encode({"sub": "admin", "iss": "tidemill"}, access._key_of_tokens, algorithm="HS256"),
        jwt.encode({**told, "sub": "nobody"}, access._key_of_tokens, algorithm="HS256"),
        "x.y.z",
    ]
    async with client(app) as web:
        for text in forged:
            answer = await web.get("/ui/auth/me", headers={"Cookie": f"{COOKIE}={text}"})
            assert answer.status_code == 401, text
        good = await web.get("/ui/auth/me", headers={"Cookie": f"{COOKIE}={access.begin_session(person)}"})
        assert good.json()["id"] == "admin"
        exchanged = await web.post("/auth/token/cli", json={"username": "x", "password": tokens["operator"]})
        bearer = {"Authorization": f"Bearer {exchanged.json()['access_token']}"}
        assert (await web.get("/ui/auth/me", headers=bearer)).json()["id"] == "operator"
        assert (await web.post("/auth/token", json={"username": "x", "password": "y"})).status_code == 401


async def test_bodies_have_a_bound(app: FastAPI) -> None:
    async with client(app) as web:
        answer = await web.post(
            "/api/v2/pools", content=b" " * (4 * 2**20 + 1), headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 413


async def test_logging_out_ends_the_session_wherever_its_cookie_has_come_to(
    tokens: dict[str, str], tmp_path: Path
) -> None:
    ended = tmp_path / "ended"

    def server() -> FastAPI:
        access = Access(SECRET, TokenFile(tmp_path / "tokens.json"), ended=EndedSessions(ended))
        return make_app(nowhere(), Settings(home=tmp_path), access=access)

    one, other = server(), server()
    async with client(one) as web, client(other) as stolen:
        await web.post("/auth/login", data={"token": tokens["viewer"]})
        cookie = web.cookies[COOKIE]
        stolen.cookies.set(COOKIE, cookie)
        assert (await stolen.get("/ui/auth/me")).status_code == 200
        assert (await web.get("/api/v2/auth/logout")).status_code == 307
        assert (await stolen.get("/ui/auth/me")).status_code == 401
        bearer = {"Authorization": f"Bearer {cookie}"}
        assert (await web.get("/ui/auth/me", headers=bearer)).status_code == 401
        await web.post("/auth/login", data={"token": tokens["viewer"]})
        assert (await web.get("/ui/auth/me")).status_code == 200
    [kept] = ended.iterdir()
    assert (kept.name, kept.read_text()) == (sha256(cookie.encode()).hexdigest(), "")
    assert (stat.S_IMODE(ended.stat().st_mode), stat.S_IMODE(kept.stat().st_mode)) == (0o700, 0o600)


def test_ended_sessions_are_known_as_long_as_they_would_last_and_though_nothing_can_be_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended = EndedSessions(tmp_path / "ended", lasts=60)
    ended.add("old")
    [old] = (tmp_path / "ended").iterdir()
    os.utime(old, (0, 0))
    ended.add("new")
    assert [path.name for path in (tmp_path / "ended").iterdir()] == [sha256(b"new").hexdigest()]
    (tmp_path / "in_the_way").write_text("")
    nowhere_ = EndedSessions(tmp_path / "in_the_way")
    nowhere_.add("mine")
    assert nowhere_.has("mine")
    assert not nowhere_.has("other")
    assert "cannot be kept" in caplog.text


async def test_answers_are_kept_by_no_browser(app: FastAPI, tokens: dict[str, str]) -> None:
    answer = await call(app, "GET", "/ui/auth/me", tokens["viewer"])
    assert answer.headers["cache-control"] == "no-store"


async def test_a_page_that_is_not_installed_is_not_found(app: FastAPI) -> None:
    async with client(app) as web:
        assert (await web.get("/static/assets/main.js")).status_code == 404


@pytest.mark.parametrize(
    ("target", "page"),
    [
        ("/dags?x=1", "/dags?x=1"),
        ("http://127.0.0.1/dags?x=1", "/dags?x=1"),
        ("//evil.example", "/"),
        ("http://127.0.0.1//evil.example/x", "/"),
        ("http://[", "/"),
        ("/\\evil.example", "/"),
        ("http://evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        (None, "/"),
    ],
)
def test_one_comes_back_to_our_pages_only(target: str | None, page: str) -> None:
    assert same_site(target, "http://127.0.0.1/") == page


def test_tokens_are_kept_as_digests(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    token = create_token(file, "ann", Role.VIEWER)
    assert token not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert TokenFile(file).person(token) is not None
    with pytest.raises(InvalidInputError, match="'ann' has a token"):
        create_token(file, "ann", Role.ADMIN)
    with pytest.raises(InvalidInputError, match="'bob' has no token"):
        revoke_token(file, "bob")
    file.write_text(json.dumps({"ann": {"role": "queen", "sha256": ""}}))
    with pytest.raises(InvalidInputError, match="is no file of API tokens"):
        _ = TokenFile(file).people


async def test_a_server_without_tokens_listens_to_this_host_only(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is no loopback address"):
        async with web_server(None, Settings(home=tmp_path), "0.0.0.0", 0):  # type: ignore[arg-type]
            pass


class Tagged:
    """Knows one DAG."""

    async def spec(self, dag_id: str) -> Any:
        if dag_id != "sales":
            raise NotFoundError(f"there is no DAG {dag_id!r}")
        return SimpleNamespace(tags=("shop",))


async def test_a_role_may_hold_for_dags_with_certain_tags(app: FastAPI, tmp_path: Path) -> None:
    shop = create_token(tmp_path / "tokens.json", "shop", Role.ADMIN, ["shop", "other"])
    fleet = create_token(tmp_path / "tokens.json", "fleet", Role.ADMIN, ["fleet"])
    app.state.source.spec = Tagged().spec

    async def status(token: str, method: str, path: str) -> int:
        return (await call(app, method, path, token)).status_code

    change = "/api/v2/dags/sales/clearDagRuns"
    assert await status(shop, "POST", change) == 422  # let in, with a body that is none
    assert await status(fleet, "POST", change) == 403
    assert await status(fleet, "GET", "/ui/config") == 200
    assert await status(shop, "POST", "/api/v2/dags/none/clearTaskInstances") == 404
    for path in ("/api/v2/pools", "/api/v2/assets/events", "/api/v2/assets/1/materialize"):
        assert await status(shop, "POST", path) == 403, path
    async with client(app) as web:
        headers = {"Authorization": f"Bearer {fleet}"}
        body = {"dag_id": "sales", "from_date": "2026-01-01T00:00:00Z", "to_date": "2026-01-02T00:00:00Z"}
        for path in ("/api/v2/backfills", "/api/v2/backfills/dry_run"):
            answer = await web.post(path, json=body, headers=headers)
            assert "may change DAGs with the tags fleet" in answer.text, path


async def test_who_asks_too_often_is_told_to_wait(app: FastAPI, tokens: dict[str, str]) -> None:
    async with client(app) as web:
        good = {"Authorization": f"Bearer {tokens['viewer']}"}
        for _ in range(LOGINS.amount):
            answer = await web.get("/ui/auth/me", headers={"Authorization": "Bearer tidemill_guess"})
            assert answer.status_code == 401
        refused = await web.get("/ui/auth/me", headers={"Authorization": "Bearer tidemill_guess"})
        assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True)
        assert (await web.post("/auth/login", data={"token": "guess"})).status_code == 429
        # Nobody is kept out by the guesses of others at the same address.
        assert (await web.get("/ui/auth/me", headers=good)).status_code == 200
        assert (await web.post("/auth/login", data={"token": tokens["viewer"]})).status_code == 303
    app.state.rates = Rates()
    async with client(app) as web:
        cookie = {"Cookie": f"{COOKIE}={app.state.access.begin_session(app.state.access.person(tokens['operator']))}"}
        statuses = [
            (await web.put("/api/v2/backfills/1/pause", headers=cookie)).status_code for _ in range(CHANGES.amount + 1)
        ]
        assert 429 not in statuses[:-1]
        assert statuses[-1] == 429
        assert (await web.get("/ui/auth/me", headers=cookie)).status_code == 200


def test_servers_that_begin_together_sign_with_the_same_secret(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as servers:
        found = {*servers.map(lambda _: session_secret(tmp_path / "home" / "key"), range(64))}
    assert [len(secret) for secret in found] == [32]
    (tmp_path / "short").write_bytes(b"x")
    with pytest.raises(InvalidInputError, match="has 1 bytes"):
        session_secret(tmp_path / "short")


@pytest.mark.thorough
async def test_an_outage_of_temporal_is_no_defect(tmp_path: Path) -> None:
    with temporal_server(tmp_path) as address:
        lost = await Client.connect(address, plugins=[ModelsPlugin()])
    app = make_app(Tidemill(lost), Settings(home=tmp_path))
    async with AsyncClient(
        transport=ASGITransport(app, raise_app_exceptions=False), base_url="http://127.0.0.1"
    ) as web:
        for path in ("/api/v2/dags", "/ui/dags", "/api/v2/dags/~/dagRuns", "/ui/dashboard/dag_stats"):
            answer = await web.get(path, timeout=60)
            assert (answer.status_code, "Temporal" in answer.json()["detail"]) == (503, True), answer.text
