"""Logging in: a form or an OpenID provider for people, an exchange for Airflow's clients."""

import logging
from dataclasses import asdict
from hmac import compare_digest
from typing import Annotated
from urllib.parse import parse_qs, quote, urlsplit

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from ..pages.render import rendered
from .access import COOKIE, address_of
from .oidc import Flow, NotKnownError
from .rates import BEGUN_LOGINS, LOGINS
from .sessions import SESSION_SECONDS, Access
from .tokens import Person

router = APIRouter(include_in_schema=False)
LONGEST = 4096
FLOW = "_oidc"
FLOW_SECONDS = 600
log = logging.getLogger(__name__)


class Credentials(BaseModel):
    """Airflow: LoginBody. The password is an API token; the name does not matter."""

    model_config = ConfigDict(extra="ignore")

    username: str = ""
    password: Annotated[str, Field(max_length=LONGEST)]


def _access(request: Request) -> Access | None:
    access: Access | None = request.app.state.access
    return access


def _token_of(access: Access | None, token: str) -> Person | None:
    return access.tokens.person(token) if access is not None and access.tokens is not None else None


def _count_failure(request: Request) -> None:
    """Takes note of an attempt to log in. Answers 429 if it is one too many."""
    request.app.state.rates.count(LOGINS, address_of(request))


def same_site(target: str | None, base: str) -> str:
    """*target* where it is a page of ours; else the first page."""
    try:
        parts = urlsplit(target or "")
    except ValueError:
        return "/"
    if (parts.scheme or parts.netloc) and f"{parts.scheme}://{parts.netloc}/" != base:
        return "/"
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"


def _form(access: Access, target: str, why: str | None = None, status: int = 200) -> HTMLResponse:
    methods = {"by_token": access.tokens is not None, "by_oidc": access.oidc is not None}
    page = rendered("login.html", title="Log in to tidemill", target=target, why=why, **methods)
    return HTMLResponse(page, status_code=status)


@router.get("/api/v2/auth/login")
async def login(request: Request, next: str | None = None) -> Response:  # noqa: A002 - Airflow's name
    """The form; where nobody logs in, back to where one came from."""
    target, access = same_site(next, str(request.base_url)), _access(request)
    return RedirectResponse(target) if access is None else _form(access, target)


@router.post("/auth/login")
async def take_form(request: Request) -> Response:
    """Begins a session in the browser, if the token is somebody's."""
    access = _access(request)
    form = parse_qs((await request.body())[:LONGEST].decode(errors="replace"))
    target = same_site(form.get("next", ["/"])[0], str(request.base_url))
    if access is None:
        return RedirectResponse(target, status_code=303)
    person = _token_of(access, form.get("token", [""])[0].strip())
    if person is None:
        _count_failure(request)
        return _form(access, target, "That is nobody's API token.", 401)
    return _begun(request, access, person, target)


def _begun(request: Request, access: Access, person: Person, target: str) -> Response:
    """Sends the browser on, logged in."""
    request.state.person = person
    answer = RedirectResponse(target, status_code=303)
    _set_cookie(request, answer, COOKIE, access.begin_session(person), SESSION_SECONDS)
    return answer


def _set_cookie(request: Request, answer: Response, name: str, value: str, seconds: int) -> None:
    answer.set_cookie(
        name,
        value,
        max_age=seconds,
        path=request.base_url.path,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )


@router.get("/auth/oidc")
async def ask_provider(request: Request, next: str | None = None) -> Response:  # noqa: A002 - as above
    """Sends the browser to the OpenID provider."""
    access, target = _access(request), same_site(next, str(request.base_url))
    if access is None or access.oidc is None:
        raise HTTPException(404, "no OpenID provider is set: see TIDEMILL_OIDC")
    request.app.state.rates.count(BEGUN_LOGINS, address_of(request))
    try:
        url, flow = await access.oidc.begin(_callback(request))
    except NotKnownError as error:
        log.warning("nobody can log in: %s", error)
        return _form(access, target, "The OpenID provider does not answer.", 503)
    answer = RedirectResponse(url, status_code=303)
    _set_cookie(
        request, answer, FLOW, access.signed({**asdict(flow), "next": target}, FLOW, FLOW_SECONDS), FLOW_SECONDS
    )
    return answer


@router.get("/auth/oidc/callback")
async def back_from_provider(request: Request, state: str = "", code: str = "", error: str = "") -> Response:
    """Begins a session for whom the provider knows."""
    access = _access(request)
    if access is None or access.oidc is None:
        raise HTTPException(404, "no OpenID provider is set: see TIDEMILL_OIDC")
    claims = access.brought_back(request.cookies.get(FLOW, ""), FLOW)
    if claims is None or not compare_digest(str(claims["state"]).encode(), state.encode(errors="replace")):
        _count_failure(request)
        return _form(access, "/", "This login was not begun in this browser, or took too long.", 401)
    target = str(claims["next"])
    flow = Flow(str(claims["state"]), str(claims["nonce"]), str(claims["code_verifier"]))
    try:
        if error or not code:
            raise NotKnownError(f"the provider says {error!r}")
        person = await access.oidc.person(flow, _callback(request), code)
    except NotKnownError as refused:
        log.warning("somebody could not log in: %s", quote(str(refused), safe=" /:'(),.@[]"))
        return _form(access, target, "The OpenID provider's answer lets nobody in. The server's log says why.", 403)
    answer = _begun(request, access, person, target)
    answer.delete_cookie(FLOW, path=request.base_url.path)
    return answer


def _callback(request: Request) -> str:
    return f"{request.base_url}auth/oidc/callback"


@router.get("/api/v2/auth/logout")
async def logout(request: Request) -> Response:
    """Ends the session, wherever else its cookie may have come to."""
    access, cookie = _access(request), request.cookies.get(COOKIE)
    if access is not None and cookie is not None and (person := access.session_of(cookie)) is not None:
        request.state.person = person
        access.end_session(cookie)
    answer = RedirectResponse("/")
    answer.delete_cookie(COOKIE, path=request.base_url.path)
    return answer


@router.post("/auth/token", status_code=201)
@router.post("/auth/token/cli", status_code=201)
async def exchange(request: Request, given: Credentials) -> JSONResponse:
    """A session for a token, as Airflow's clients ask for one with a name and a password."""
    access = _access(request)
    person = _token_of(access, given.password)
    if access is None or person is None:
        _count_failure(request)
        raise HTTPException(401, "the password is nobody's API token")
    request.state.person = person
    return JSONResponse({"access_token": access.begin_session(person)}, status_code=201)
