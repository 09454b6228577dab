"""`tidemill api-server` and `tidemill ui`: the web."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...activities.audit import AUDIT_FILE, AuditLog
from ...activities.secrets import backends, mask_names
from ...model.errors import InvalidInputError
from ..app.dev import free_port
from ..app.process import until_stopped
from ..client import Tidemill
from ..settings.groups import LOOPBACK
from ..settings.home import make_web_home
from ..settings.reading import Settings
from .home import Home, set_up_logging, with_home
from .output import Json, console, errors, fail, make_table, read_instant, run, show

if TYPE_CHECKING:
    import uvicorn

ui = typer.Typer(no_args_is_help=True, add_completion=False)
PORT = 8080


def api_server(
    host: Annotated[str, typer.Option(help="The address to listen at; without tokens, of loopback.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port.")] = PORT,
    name: Annotated[
        list[str] | None, typer.Option(help="A name that browsers may call it by, such as that of a proxy; repeatable.")
    ] = None,
    home: Home = None,
) -> None:
    """Serve Airflow's REST API and user interface, for the DAGs of a Temporal namespace."""
    settings = with_home(home)
    set_up_logging(settings.log_format)
    mask_names(settings.masked_names)
    make_web_home(settings)

    async def work() -> None:
        async with web_server(await Tidemill.connect(settings), settings, host, port, name or ()) as url:
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

        place = install_ui(settings.web_home, wheel)
    except InvalidInputError as error:
        fail(str(error))
    console.print(f"the user interface of Apache Airflow {VERSION} (Apache-2.0) is in {place}", soft_wrap=True)


tokens = typer.Typer(no_args_is_help=True, add_completion=False)
WhoseName = Annotated[str, typer.Argument(help="Whose token it is.")]


@tokens.callback()
def about_tokens() -> None:
    """Make and take back tokens by which people and programs use the API."""


def token_file(settings: Settings) -> Path:
    """The file of tokens: that of TIDEMILL_API_TOKENS, else one in the home of the web."""
    return settings.api_tokens or settings.web_home / "api_tokens.json"


@tokens.command("create")
def create(
    name: WhoseName,
    role: Annotated[str, typer.Option(help="viewer, operator or admin.")] = "viewer",
    tag: Annotated[
        list[str] | None, typer.Option(help="Only DAGs with this tag may be changed by it; repeatable.")
    ] = None,
    home: Home = None,
) -> None:
    """Make a token, and show it: this once."""
    from ...api.auth.tokens import Role, create_token

    if role.upper() not in Role.__members__:
        fail(f"--role = {role!r}: choose viewer, operator or admin")
    path = token_file(with_home(home))
    try:
        token = create_token(path, name, Role[role.upper()], tag or ())
    except InvalidInputError as error:
        fail(str(error))
    console.print(token, soft_wrap=True)
    errors.print(f"its digest is in {path}. Servers read that file: TIDEMILL_API_TOKENS={path}", soft_wrap=True)


@tokens.command("list")
def list_tokens(home: Home = None, as_json: Json = False) -> None:
    """List who has a token, and what they may do."""
    from ...api.auth.tokens import read_tokens

    path = token_file(with_home(home))
    try:
        found = [person for person, _ in read_tokens(path)] if path.exists() else []
    except InvalidInputError as error:
        fail(str(error))
    rows = [(person.name, person.role.name.lower(), ", ".join(person.tags)) for person in found]
    records = [{"name": one.name, "role": one.role.name.lower(), "tags": one.tags} for one in found]
    show(records, as_json, make_table(["NAME", "ROLE", "TAGS"], rows))


@tokens.command("revoke")
def revoke(name: WhoseName, home: Home = None) -> None:
    """Take a token back: servers refuse it from now on, and end its sessions."""
    from ...api.auth.tokens import revoke_token

    try:
        revoke_token(token_file(with_home(home)), name)
    except InvalidInputError as error:
        fail(str(error))
    console.print(f"the token of {name} is taken back")


def audit(
    since: Annotated[str | None, typer.Option(help="Only what came after this moment.")] = None,
    who: Annotated[str | None, typer.Option(help="Only what this person did.")] = None,
    dag: Annotated[str | None, typer.Option(help="Only what was about this DAG.")] = None,
    refused: Annotated[bool, typer.Option("--refused", help="Only what was refused.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="So many lines, the newest.")] = 100,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List who changed what, through the web or by commands on this host, and what was refused."""
    from ...api.audit import filtered

    after, settings = read_instant(since, "--since") if since is not None else None, with_home(home)
    homes = {settings.web_home.resolve(), settings.home.resolve()}
    lines = [line for kept in homes for line in AuditLog(kept / AUDIT_FILE).newest(sys.maxsize)]
    lines.sort(key=lambda line: line["at"], reverse=True)
    found = filtered(lines, limit, after=after, who=who, dag_id=dag, refused=refused)
    rows = [
        (
            line["at"], line["who"] or "-", line["address"] or "-", line["operation"] or line["path"], line["status"],
            ", ".join(f"{name}={value}" for name, value in line["about"].items()),
        )
        for line in found
    ]  # fmt: skip
    show(found, as_json, make_table(["AT", "WHO", "FROM", "WHAT", "STATUS", "ABOUT"], rows))


@asynccontextmanager
async def web_server(
    tidemill: Tidemill, settings: Settings, host: str, port: int, names: Sequence[str] = ()
) -> AsyncIterator[str]:
    """The web as long as the block; its URL. Raises InvalidInputError where it cannot or must not listen."""
    if host not in LOOPBACK and settings.api_tokens is None and settings.oidc is None:
        raise InvalidInputError(
            f"--host = {host!r} is no loopback address, and nobody logs in: whoever reaches the server could change "
            "everything. Make tokens with `tidemill api-tokens create`, and set TIDEMILL_API_TOKENS, or set "
            "TIDEMILL_OIDC"
        )
    backends()  # one that cannot be made is told now
    server = await _server(tidemill, settings, {*LOOPBACK, "[::1]", host, *names})
    listening = _listening(host, port)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.02)
        if serving.done():
            await serving
            raise RuntimeError("the web server ended before it served anything")
        yield f"http://{host}:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listening.close()


def _listening(host: str, port: int) -> socket.socket:
    """A socket at *port*, or at any for 0. Raises InvalidInputError where nobody can listen."""
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        raise InvalidInputError(f"port {port} of {host} {reason}. Choose another with --port") from None
    return found


async def _server(tidemill: Tidemill, settings: Settings, hosts: set[str]) -> uvicorn.Server:
    try:
        import uvicorn

        from ...api.app import make_app
        from ...api.auth.ended_sessions import EndedSessions
        from ...api.auth.oidc import Oidc
        from ...api.auth.sessions import Access
        from ...api.auth.tokens import TokenFile, session_secret
        from ...api.connections import BoundedProtocol
    except ImportError as error:
        raise InvalidInputError(
            f"the web needs what is not installed ({error}). Install it with: pip install 'tidemill[api]'"
        ) from None

    class Server(uvicorn.Server):
        """One that leaves signals to whoever runs it."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    access = None
    if settings.api_tokens is not None or settings.oidc is not None:
        tokens = TokenFile(settings.api_tokens) if settings.api_tokens is not None else None
        if tokens is not None:
            _ = tokens.people  # a file that cannot be read is told now
        oidc = Oidc(settings.oidc) if settings.oidc is not None else None
        ended = EndedSessions(settings.web_home / "ended_sessions")
        access = Access(session_secret(settings.web_home / "api_sessions.key"), tokens, oidc, ended)
    app = make_app(tidemill, settings, hosts, access)
    await app.state.source.begin()
    config = uvicorn.Config(app, http=BoundedProtocol, log_level="warning", access_log=False)
    return Server(config)


def port_of_web(port: int) -> int | None:
    """*port*, or another one where it is in use; None where the web is not installed."""
    if find_spec("uvicorn") is None or find_spec("fastapi") is None:
        return None
    return port if _is_free(port) else free_port()


@asynccontextmanager
async def web_for_dev(tidemill: Tidemill, settings: Settings, port: int) -> AsyncIterator[str | None]:
    """The web beside the rest of `tidemill dev`, at any port if *port* is in use; None where it is not installed."""
    async with AsyncExitStack() as stack:
        try:
            free = port if _is_free(port) else 0
            url = await stack.enter_async_context(web_server(tidemill, settings, "127.0.0.1", free))
        except InvalidInputError as error:
            console.print(f"API and UI   not there: {error}", soft_wrap=True)
            yield None
            return
        fetching = asyncio.create_task(_fetch_ui(settings))
        stack.callback(fetching.cancel)
        yield url


def _is_free(port: int) -> bool:
    try:
        _listening("127.0.0.1", port).close()
    except InvalidInputError:
        return False
    return True


async def _fetch_ui(settings: Settings) -> None:
    """Gets the user interface's files where they are not there yet; the API goes on without them."""
    from ...api.static_ui import install_ui, is_installed

    home = settings.web_home
    if not is_installed(home):
        try:
            await asyncio.to_thread(install_ui, home)
        except InvalidInputError as error:
            logging.getLogger(__name__).warning("%s", error)
