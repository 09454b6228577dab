"""Finds out who is asking, and whether they may."""

import logging
import time
from urllib.parse import quote

import jwt
from fastapi import HTTPException, Request

from .tokens import ANYBODY, Person, Role, TokenFile

COOKIE = "_token"
ALGORITHM = "HS256"
SESSION_SECONDS = 12 * 3600
OPEN = {
    "/api/v2/version", "/api/v2/monitor/health", "/api/v2/auth/login", "/api/v2/auth/logout", "/auth/token",
    "/auth/token/cli", "/auth/login",
}  # fmt: skip
"""What is asked by those who are not known yet."""
FOR_ADMINS = {
    ("POST", "/api/v2/pools"),
    ("PATCH", "/api/v2/pools/{pool_name}"),
}
audit = logging.getLogger("tidemill.audit")


def needed_role(method: str, path: str) -> Role | None:
    """Who may call an operation, by its path with the names of its parameters; None: anybody."""
    if path in OPEN:
        return None
    if method in ("GET", "HEAD"):
        return Role.VIEWER
    if method == "DELETE" or (method, path) in FOR_ADMINS:
        return Role.ADMIN
    return Role.OPERATOR


async def authorise(request: Request) -> Person:
    """Who is asking. Answers 401 if that is not known, and 403 if they may not."""
    path = request.scope["route"].path
    role = needed_role(request.method, path)
    if role is None:
        return ANYBODY
    tokens: TokenFile | None = request.app.state.tokens
    person = ANYBODY if tokens is None else _known(request, tokens)
    if person is None:
        told = "nobody is logged in: send `Authorization: Bearer TOKEN`, or log in"
        raise HTTPException(401, told, headers={"WWW-Authenticate": "Bearer"})
    if person.role < role:
        raise HTTPException(403, "Forbidden")
    if request.method not in ("GET", "HEAD"):
        shown = quote(request.url.path, safe="/~:+%")  # a line of the log stays one line
        audit.info("%s (%s) %s %s", person.name, person.role.name.lower(), request.method, shown)
    request.state.person = person
    return person


def _known(request: Request, tokens: TokenFile) -> Person | None:
    kind, _, bearer = request.headers.get("authorization", "").partition(" ")
    if kind:
        if kind.lower() != "bearer":
            return None
        return tokens.person(bearer.strip()) or session_of(bearer.strip(), tokens)
    cookie = request.cookies.get(COOKIE)
    return session_of(cookie, tokens) if cookie else None


def begin_session(person: Person, tokens: TokenFile) -> str:
    """What a browser, or a client, shows for a while instead of the token."""
    told = {"sub": person.name, "exp": int(time.time()) + SESSION_SECONDS, "iss": "tidemill"}
    return jwt.encode(told, tokens.key, algorithm=ALGORITHM)


def session_of(text: str, tokens: TokenFile) -> Person | None:
    """Whose session it is; None for one that is forged or over, or whose owner has no token any more."""
    try:
        told = jwt.decode(
            text, tokens.key, algorithms=[ALGORITHM], issuer="tidemill", options={"require": ["exp", "sub", "iss"]}
        )
    except jwt.PyJWTError:
        return None
    return tokens.named(str(told["sub"]))
