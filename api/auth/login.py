"""Logging in: a form for people, an exchange for Airflow's clients."""

from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from ..pages.render import rendered
from .access import COOKIE, SESSION_SECONDS, begin_session
from .tokens import Person, TokenFile

router = APIRouter(include_in_schema=False)
LONGEST = 4096


class Credentials(BaseModel):
    """Airflow: LoginBody. The password is an API token; the name does not matter."""

    model_config = ConfigDict(extra="ignore")

    username: str = ""
    password: Annotated[str, Field(max_length=LONGEST)]


def _tokens(request: Request) -> TokenFile | None:
    tokens: TokenFile | None = request.app.state.tokens
    return tokens


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


@router.get("/api/v2/auth/login")
async def login(request: Request, next: str | None = None) -> Response:  # noqa: A002 - Airflow's name
    """The form; where nobody logs in, back to where one came from."""
    target = same_site(next, str(request.base_url))
    if _tokens(request) is None:
        return RedirectResponse(target)
    return HTMLResponse(rendered("login.html", title="Log in to tidemill", target=target, wrong=False))


@router.post("/auth/login")
async def take_form(request: Request) -> Response:
    """Begins a session in the browser, if the token is somebody's."""
    tokens = _tokens(request)
    form = parse_qs((await request.body())[:LONGEST].decode(errors="replace"))
    target = same_site(form.get("next", ["/"])[0], str(request.base_url))
    person = tokens.person(form.get("token", [""])[0].strip()) if tokens is not None else None
    if tokens is None or person is None:
        page = rendered("login.html", title="Log in to tidemill", target=target, wrong=True)
        return HTMLResponse(page, status_code=401)
    answer = RedirectResponse(target, status_code=303)
    answer.set_cookie(
        COOKIE,
        begin_session(person, tokens),
        max_age=SESSION_SECONDS,
        path=request.base_url.path,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer


@router.get("/api/v2/auth/logout")
async def logout(request: Request) -> Response:
    """Ends the session in this browser."""
    answer = RedirectResponse("/")
    answer.delete_cookie(COOKIE, path=request.base_url.path)
    return answer


@router.post("/auth/token", status_code=201)
@router.post("/auth/token/cli", status_code=201)
async def exchange(request: Request, given: Credentials) -> JSONResponse:
    """A session for a token, as Airflow's clients ask for one with a name and a password."""
    tokens = _tokens(request)
    person: Person | None = tokens.person(given.password) if tokens is not None else None
    if tokens is None or person is None:
        raise HTTPException(401, "the password is nobody's API token")
    return JSONResponse({"access_token": begin_session(person, tokens)}, status_code=201)
