"""The web server, put together: Airflow's operations, tidemill's own pages, and the user interface's files."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles
from temporalio.service import RPCError

from ..activities.audit import AUDIT_FILE, AuditLog
from ..worker.client import Tidemill
from ..worker.settings.reading import Settings
from .audit import Audited
from .auth import login
from .auth.access import authorise
from .auth.rates import Rates
from .auth.sessions import Access
from .dependencies import only_known_parameters, parameters_of
from .errors import add_error_handlers
from .guard import LOOPBACK, Guard
from .pages import tabs
from .pages.render import rendered
from .read.archiver import archive_for_ever
from .read.cached_client import CachedClient
from .routes import (
    approvals,
    assets,
    backfills,
    bulk_runs,
    config,
    connections,
    dags,
    event_logs,
    grid,
    health,
    home,
    installation,
    logs,
    not_offered,
    pools,
    queued_events,
    runs,
    state_stores,
    task_groups,
    task_instances,
    variables,
    xcom,
)
from .static_ui import WHEEL, installed_below

ROUTERS = (
    not_offered, config, health, home, dags, runs, approvals, xcom, logs, state_stores, task_instances, task_groups,
    grid, pools, bulk_runs, queued_events, installation, backfills, event_logs, assets, variables, connections,
)  # fmt: skip
"""The more particular paths first."""
ICON = Path(__file__).parent / "pages" / "tidemill.svg"


def make_app(
    tidemill: Tidemill, settings: Settings, hosts: Collection[str] = LOOPBACK, access: Access | None = None
) -> FastAPI:
    """The application. *hosts*: the names that it may be called by. *access*: who gets in; None: nobody logs in."""
    source = CachedClient(tidemill, settings)
    app = FastAPI(
        lifespan=partial(_as_long_as_it_serves, source),
        title="tidemill",
        version=version("tidemill"),
        description="Airflow's REST API v2 on tidemill.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    app.state.source = source
    app.state.access = access
    app.state.rates = Rates()
    app.state.audit = AuditLog(settings.web_home / AUDIT_FILE if settings.web_home.is_dir() else None)
    add_error_handlers(app)
    for module in ROUTERS:
        app.include_router(module.router, dependencies=[Depends(authorise), Depends(only_known_parameters)])
    app.state.parameters = parameters_of(app)  # now: to make the definition is nothing for two requests at once
    app.include_router(tabs.router, dependencies=[Depends(authorise)])
    app.include_router(login.router)
    _add_ui(app, settings)
    app.add_middleware(GZipMiddleware, minimum_size=1024)
    app.add_middleware(Guard, hosts=hosts)
    app.add_middleware(Audited, audit=app.state.audit)
    return app


class _Files(StaticFiles):
    """Files of a folder that may not be there yet."""

    async def check_config(self) -> None:
        """Answer 404 as long as there is no folder."""
        try:
            await super().check_config()
        except RuntimeError:
            raise HTTPException(404, "the user interface is not installed: see `tidemill ui install`") from None


@asynccontextmanager
async def _as_long_as_it_serves(client: CachedClient, _: FastAPI) -> AsyncIterator[None]:
    """Keeps runs that end, where there is an archive."""
    beside = [asyncio.create_task(_listed(client))]
    if client.keeps_all:
        beside.append(asyncio.create_task(archive_for_ever(client)))
    try:
        yield
    finally:
        for task in beside:
            task.cancel()
        await asyncio.wait(beside)
        client.close()


async def _listed(client: CachedClient) -> None:
    """Lists all DAGs before somebody looks: with thousands of them that takes seconds."""
    with suppress(RPCError, TimeoutError, RuntimeError):  # whoever looks is told
        await client.rows()


def _add_ui(app: FastAPI, settings: Settings) -> None:
    """Serves the user interface's files; where there are none, a page that says how to get them."""
    folder = installed_below(settings.web_home, settings.home.resolve())

    @app.get("/static/tidemill.svg", include_in_schema=False)
    async def icon() -> FileResponse:
        return FileResponse(ICON, media_type="image/svg+xml")

    app.mount("/static", _Files(directory=folder, check_dir=False), name="static")

    @app.api_route("/api/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], include_in_schema=False)
    @app.api_route("/ui/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], include_in_schema=False)
    async def unknown(path: str) -> JSONResponse:
        return JSONResponse({"detail": f"there is no operation {path!r}"}, status_code=404)

    @app.api_route("/execution/{path:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], include_in_schema=False)
    async def no_execution_api(path: str) -> JSONResponse:
        return JSONResponse({"detail": f"there is no execution API, and no {path!r}: tasks ask their worker"}, 404)

    @app.get("/health", include_in_schema=False)
    async def old_health() -> JSONResponse:
        return JSONResponse({"detail": "ask /api/v2/monitor/health"}, status_code=404)

    @app.get("/{path:path}", include_in_schema=False)
    async def page(request: Request, path: str) -> Response:  # noqa: ARG001 - the page itself knows its paths
        base = request.base_url.path
        index = folder / "index.html"
        if not index.is_file():
            context = {"title": "tidemill", "wheel": WHEEL, "base": base, "honesty": config.HONESTY}
            return HTMLResponse(rendered("start.html", **context))
        return HTMLResponse(
            index.read_text().replace("{{ backend_server_base_url }}", base), headers={"Cache-Control": "no-store"}
        )
