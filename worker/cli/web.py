"""`tidemill api-server` and `tidemill ui`: the web."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...model.errors import InvalidInputError
from ..client import Tidemill
from ..dev import check_port
from ..process import until_stopped
from ..settings import Settings
from .output import console, fail, run
from .processes import Home, set_up_logging, with_home

if TYPE_CHECKING:
    import uvicorn

ui = typer.Typer(no_args_is_help=True, add_completion=False)
LOOPBACK = ("127.0.0.1", "localhost", "::1")
PORT = 8080


def api_server(
    host: Annotated[
        str, typer.Option(help="The address to listen at: one of this host's own, since nobody logs in.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(help="The port.")] = PORT,
    home: Home = None,
) -> None:
    """Serve Airflow's REST API and user interface, for the DAGs of a Temporal namespace."""
    set_up_logging()
    settings = with_home(home)

    async def work() -> None:
        async with web_server(await Tidemill.connect(settings), settings, host, port) as url:
            console.print(f"API and user interface at {url}; stop it with Ctrl-C")
            await until_stopped()

    run(work())


@ui.callback()
def about_ui() -> None:
    """The user interface is Apache Airflow's, unchanged: its files come from the package index."""


@ui.command("install")
def install(
    wheel: Annotated[
        Path | None, typer.Option(help="The wheel of apache-airflow-core, where there is no package index.")
    ] = None,
    home: Home = None,
) -> None:
    """Put the files of Airflow's user interface in place, out of the one wheel that this release knows."""
    settings = with_home(home)
    try:
        from ...api.static_ui import VERSION, install_ui

        place = install_ui(settings.home.resolve(), wheel)
    except InvalidInputError as error:
        fail(str(error))
    console.print(f"the user interface of Apache Airflow {VERSION} (Apache-2.0) is in {place}", soft_wrap=True)


@asynccontextmanager
async def web_server(tidemill: Tidemill, settings: Settings, host: str, port: int) -> AsyncIterator[str]:
    """The web as long as the block; its URL. Raises InvalidInputError where it cannot or must not listen."""
    if host not in LOOPBACK:
        raise InvalidInputError(
            f"--host = {host!r} is no loopback address, and nobody logs in: whoever reaches the server may change "
            "everything. Listen at 127.0.0.1, behind a proxy that asks who it is"
        )
    server = _server(tidemill, settings, host, port)
    serving = asyncio.create_task(server.serve())
    try:
        while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.02)
        if serving.done():
            await serving
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        await serving


def _server(tidemill: Tidemill, settings: Settings, host: str, port: int) -> uvicorn.Server:
    try:
        import uvicorn

        from ...api.app import make_app
    except ImportError as error:
        raise InvalidInputError(
            f"the web needs what is not installed ({error}). Install it with: pip install 'tidemill[api]'"
        ) from None
    check_port(port)

    class Server(uvicorn.Server):
        """One that leaves signals to whoever runs it."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(make_app(tidemill, settings), host=host, port=port, log_level="warning", access_log=False)
    return Server(config)
