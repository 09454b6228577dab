"""People whom an OpenID provider knows log in, with a provider that is a process of its own."""

import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient, Response
from object_store import served
from pydantic import ValidationError
from tidemill.api.app import make_app
from tidemill.api.auth.access import COOKIE
from tidemill.api.auth.login import FLOW
from tidemill.api.auth.oidc import Flow, NotKnownError, Oidc
from tidemill.api.auth.sessions import Access
from tidemill.api.auth.tokens import Person, Role, TokenFile, create_token
from tidemill.worker.app.dev import free_port
from tidemill.worker.settings.groups import OidcSettings
from tidemill.worker.settings.reading import Settings
from web_stack import nowhere

SECRET = b"s" * 32
HERE = "http://127.0.0.1"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The issuer's URL; ann is in two groups, eve in none, and bob is known by his name alone."""
    port = free_port()
    argv = [sys.executable, "-m", "oidc_provider_mock", "-p", str(port), "-H", "127.0.0.1", "--require-nonce", "true"]
    with served(tmp_path_factory.mktemp("oidc") / "provider", argv, port):
        url = f"http://127.0.0.1:{port}"
        for name, claims in {
            "ann": {"email": "ann@example.com", "groups": ["staff", "data"]},
            "eve": {"email": "eve@example.com", "groups": ["guests"]},
            "bob": {"groups": "data"},
        }.items():
            httpx.put(f"{url}/users/{name}", json=claims).raise_for_status()
        # As the discovery document has it: issuers are compared letter by letter.
        yield httpx.get(f"{url}/.well-known/openid-configuration").json()["issuer"]


def settings_of(issuer: str, **more: Any) -> OidcSettings:
    roles = {"staff": "viewer", "data": "operator"}
    return OidcSettings.model_validate(
        {"issuer": issuer, "client_id": "tidemill", "client_secret": "s", "roles": roles, **more}
    )


def app_of(folder: Path, settings: OidcSettings) -> FastAPI:
    create_token(folder / "tokens.json", "robot", Role.VIEWER)
    access = Access(SECRET, TokenFile(folder / "tokens.json"), Oidc(settings))
    return make_app(nowhere(), Settings(home=folder), access=access)


@pytest.fixture
def app(tmp_path: Path, provider: str) -> FastAPI:
    return app_of(tmp_path, settings_of(provider))


def browser(app: FastAPI) -> AsyncClient:
    return AsyncClient(transport=ASGITransport(app, raise_app_exceptions=False), base_url=HERE)


async def at_provider(url: str, name: str) -> str:
    """What the provider has the browser call, when *name* logs in there."""
    async with AsyncClient() as there:
        form = await there.post(url, data={"sub": name})
    assert form.status_code in (302, 303), form.text
    return form.headers["location"]


async def logged_in(web: AsyncClient, name: str, target: str = "/dags") -> Response:
    begun = await web.get(f"/auth/oidc?next={target}")
    assert begun.status_code == 303
    return await web.get(await at_provider(begun.headers["location"], name))


async def test_somebody_logs_in_with_the_role_of_their_groups(app: FastAPI) -> None:
    async with browser(app) as web:
        form = await web.get("/api/v2/auth/login?next=/dags/x")
        assert 'href="/auth/oidc?next=/dags/x"' in form.text
        begun = await web.get("/auth/oidc?next=/dags/x")
        asked = parse_qs(urlsplit(begun.headers["location"]).query)
        assert asked["code_challenge_method"] == ["S256"]
        assert asked["redirect_uri"] == [f"{HERE}/auth/oidc/callback"]
        back = await web.get(await at_provider(begun.headers["location"], "ann"))
        assert (back.status_code, back.headers["location"]) == (303, "/dags/x")
        cookie = next(one for one in back.headers.get_list("set-cookie") if one.startswith(COOKIE)).lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        assert (await web.get("/ui/auth/me")).json()["id"] == "ann@example.com"
        assert (await web.patch("/api/v2/dags/x", json={"is_paused": "x"})).status_code == 422  # an operator may
        assert (await web.delete("/api/v2/dags/x")).status_code == 403
        await web.get("/api/v2/auth/logout")
        assert (await web.get("/ui/auth/me")).status_code == 401


async def test_who_has_no_role_or_declines_is_not_let_in(app: FastAPI, caplog: pytest.LogCaptureFixture) -> None:
    async with browser(app) as web:
        assert (await logged_in(web, "eve")).status_code == 403
        assert COOKIE not in web.cookies
        assert "eve@example.com has no role here" in caplog.text
        begun = await web.get("/auth/oidc")
        state = parse_qs(urlsplit(begun.headers["location"]).query)["state"][0]
        declined = await web.get(f"/auth/oidc/callback?error=access_denied&state={state}")
        assert (declined.status_code, COOKIE in web.cookies) == (403, False)
        assert "access_denied" in caplog.text


async def test_without_a_name_claim_people_are_known_by_their_subject(app: FastAPI) -> None:
    async with browser(app) as web:
        assert (await logged_in(web, "bob")).status_code == 303
        assert (await web.get("/ui/auth/me")).json()["id"] == "bob"


async def test_an_answer_of_another_login_is_refused(app: FastAPI) -> None:
    async with browser(app) as ann, browser(app) as other:
        begun = await ann.get("/auth/oidc")
        callback = await at_provider(begun.headers["location"], "ann")
        # Somebody else's browser is given the link, as one that has begun nothing, and as one with a login of its own.
        assert (await other.get(callback)).status_code == 401
        await other.get("/auth/oidc")
        assert (await other.get(callback)).status_code == 401
        assert (await ann.get(callback)).status_code == 303
        assert (await ann.get(callback)).status_code == 401  # its cookie is gone
        ann.cookies.set(FLOW, "forged")
        assert (await ann.get(callback)).status_code == 401


async def test_a_code_is_worth_something_once_and_for_the_login_that_asked_for_it(app: FastAPI, provider: str) -> None:
    oidc = Oidc(settings_of(provider))
    back = f"{HERE}/auth/oidc/callback"
    url, flow = await oidc.begin(back)
    challenge = urlsafe_b64encode(sha256(flow.code_verifier.encode()).digest()).decode().rstrip("=")
    assert parse_qs(urlsplit(url).query)["code_challenge"] == [challenge]  # this provider does not check it
    code = parse_qs(urlsplit(await at_provider(url, "ann")).query)["code"][0]
    with pytest.raises(NotKnownError, match="belongs to another login"):
        await oidc.person(Flow(flow.state, "other", flow.code_verifier), back, code)
    with pytest.raises(NotKnownError, match="does not take its own code"):
        await oidc.person(flow, back, code)  # it is used up
    for claims in ({"aud": "other"}, {"iss": "http://other"}, {}):
        told = {"sub": "ann", "aud": "tidemill", "iss": provider, "exp": 2**31, "iat": 1, **claims}
        forged = jwt.encode(told, "x" * 32, algorithm="HS256", headers={"kid": "1"})
        with pytest.raises(NotKnownError, match="cannot be trusted"):
            oidc._claims(forged, await oidc._provider())


async def test_sessions_end_when_roles_change(app: FastAPI, provider: str, tmp_path: Path) -> None:
    async with browser(app) as web:
        await logged_in(web, "ann")
        cookie = web.cookies[COOKIE]
    (tmp_path / "other").mkdir()
    changed = app_of(tmp_path / "other", settings_of(provider, roles={"data": "viewer"}))
    async with browser(changed) as web:
        assert (await web.get("/ui/auth/me", headers={"Cookie": f"{COOKIE}={cookie}"})).status_code == 401


async def test_a_provider_that_is_not_there_is_told(tmp_path: Path) -> None:
    app = app_of(tmp_path, settings_of(f"http://127.0.0.1:{free_port()}"))
    async with browser(app) as web:
        answer = await web.get("/auth/oidc")
        assert (answer.status_code, "does not answer" in answer.text) == (503, True)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"issuer": "http://login.example.com"}, "Give an https URL"),
        ({"roles": {}}, "Give roles, or a default_role"),
        ({"roles": {"a": "king"}}, "viewer"),
        ({"secret": "x"}, "Extra inputs"),
    ],
)
def test_settings_that_let_the_wrong_people_in_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        OidcSettings.model_validate({"issuer": "https://a", "client_id": "x", "roles": {"a": "viewer"}, **values})


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"email": "a\nb", "groups": ["data"]}, "cannot be printed"),
        ({"email": "ann@example.com", "email_verified": False, "groups": ["data"]}, "has not verified"),
        ({"groups": True}, "no role"),
        ({"groups": [["data"]]}, "no role"),
    ],
)
def test_claims_that_let_nobody_in(claims: dict[str, Any], said: str) -> None:
    with pytest.raises(NotKnownError, match=said):
        Oidc(settings_of("https://a")).person_of({"sub": "ann", **claims})


def test_somebody_of_several_groups_has_the_highest_role() -> None:
    person = Oidc(settings_of("https://a")).person_of({"sub": "ann", "groups": ["data", "staff"]})
    assert (person.name, person.role, person.known_as) == ("ann", Role.OPERATOR, "ann by OpenID")
    guest = Oidc(settings_of("https://a", default_role="viewer")).person_of({"sub": "eve"})
    assert guest.role is Role.VIEWER


def test_whoever_has_the_name_of_a_token_at_a_provider_answers_as_another(tmp_path: Path) -> None:
    create_token(tmp_path / "tokens.json", "robot", Role.OPERATOR)
    access = Access(SECRET, TokenFile(tmp_path / "tokens.json"), Oidc(settings_of("https://a")))
    assert access.answers_as(Person("robot", Role.OPERATOR)) == "robot"
    assert access.answers_as(Person("robot", Role.OPERATOR, is_of_oidc=True)) == "robot by OpenID"
    assert access.answers_as(Person("ann", Role.OPERATOR, is_of_oidc=True)) == "ann"


def test_a_session_is_signed_with_the_providers_secret_too(tmp_path: Path) -> None:
    """Who knows the server's key and the settings that are no secret forges no session."""
    forged = Access(SECRET, None, Oidc(settings_of("https://a", client_secret="guessed")))
    session = forged.begin_session(Person("eve", Role.ADMIN, is_of_oidc=True))
    access = Access(SECRET, None, Oidc(settings_of("https://a")))
    assert forged.session_of(session) is not None
    assert access.session_of(session) is None
