"""Finds out who is asking, and whether they may."""

from fastapi import HTTPException, Request

from ..read.cached_client import CachedClient
from .rates import CHANGES, LOGINS, READS, Rates
from .sessions import Access
from .tokens import ANYBODY, Person, Role

COOKIE = "_token"
OPEN = {
    "/api/v2/version", "/api/v2/monitor/health", "/api/v2/auth/login", "/api/v2/auth/logout", "/auth/token",
    "/auth/token/cli", "/auth/login", "/auth/oidc", "/auth/oidc/callback",
}  # fmt: skip
"""What is asked by those who are not known yet."""
FOR_ADMINS = {
    ("POST", "/api/v2/pools"),
    ("PATCH", "/api/v2/pools"),
    ("PATCH", "/api/v2/pools/{pool_name}"),
    *(
        (method, f"/api/v2/{kind}")
        for method in ("POST", "PATCH")
        for kind in ("variables", "variables/{variable_key}", "connections", "connections/{connection_id}")
    ),
}
OF_ONES_OWN = {"/api/v2/dags/{dag_id}/favorite", "/api/v2/dags/{dag_id}/unfavorite"}
"""What changes something for nobody but who asks."""
FOR_OPERATORS = {"/api/v2/connections", "/api/v2/connections/{connection_id}"}
"""What those who only look do not see: hosts and names of accounts."""
NAMED_ELSEWHERE = "/api/v2/backfills"
"""Operations that begin so are about a DAG that is not named in their path: they ask `check_tags` themselves."""
READING = ("GET", "HEAD")
READ_BY_POST = {
    "/api/v2/dags/{dag_id}/dagRuns/list",
    "/api/v2/dags/{dag_id}/dagRuns/{dag_run_id}/taskInstances/list",
}
"""Lists whose filters are in the body."""


def only_reads(method: str, path: str) -> bool:
    """Whether an operation changes nothing."""
    return method in READING or (method == "POST" and path in READ_BY_POST)


def needed_role(method: str, path: str) -> Role | None:
    """Who may call an operation, by its path with the names of its parameters; None: anybody."""
    if path in OPEN:
        return None
    if path in OF_ONES_OWN:
        return Role.VIEWER
    if only_reads(method, path):
        return Role.OPERATOR if path in FOR_OPERATORS else Role.VIEWER
    if method == "DELETE" or (method, path) in FOR_ADMINS:
        return Role.ADMIN
    return Role.OPERATOR


async def authorise(request: Request) -> Person:
    """Who is asking. Answers 401 if that is not known, 403 if they may not, and 429 if they ask too often."""
    path = request.scope["route"].path_format  # without what a parameter may hold, such as `:path`
    role = needed_role(request.method, path)
    if role is None:
        return ANYBODY
    access: Access | None = request.app.state.access
    rates: Rates = request.app.state.rates
    person = ANYBODY if access is None else _known(request, access, rates)
    request.state.person = person
    if person.role < role:
        raise HTTPException(403, "Forbidden")
    if only_reads(request.method, path):
        if access is not None:
            rates.count(READS, person.known_as)
        return person
    if access is not None:
        rates.count(CHANGES, person.known_as)
    if not path.startswith(NAMED_ELSEWHERE):
        await check_tags(request.app.state.source, person, request.path_params.get("dag_id"))
    return person


async def check_tags(client: CachedClient, person: Person, dag_id: str | None) -> None:
    """Answers 403 where somebody's role holds for DAGs with certain tags, and this is none of them."""
    if not person.tags:
        return
    tags = (await client.spec(dag_id)).tags if dag_id is not None and dag_id != "~" else ()
    if not set(tags) & set(person.tags):
        raise HTTPException(403, f"{person.name} may change DAGs with the tags {', '.join(person.tags)}, and no others")


def address_of(request: Request) -> str:
    """Where a request comes from."""
    return request.client.host if request.client is not None else ""


def _known(request: Request, access: Access, rates: Rates) -> Person:
    """Whose token or session the request shows. Only guesses are counted: of a token nobody has enough."""
    kind, _, bearer = request.headers.get("authorization", "").partition(" ")
    if kind:
        found = access.person(bearer.strip()) if kind.lower() == "bearer" else None
    else:
        cookie = request.cookies.get(COOKIE)
        found = access.session_of(cookie) if cookie else None
    if found is not None:
        return found
    if kind:
        rates.count(LOGINS, address_of(request))
    message = "nobody is logged in: send `Authorization: Bearer TOKEN`, or log in"
    raise HTTPException(401, message, headers={"WWW-Authenticate": "Bearer"})
