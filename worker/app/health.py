"""`/healthz` and `/readyz` of a worker, for whoever restarts it or sends it work.

Served from a thread of its own: a worker whose event loop stands still is one that has to be noticed.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from ...model.errors import InvalidInputError

ANSWER_TIMEOUT = 5.0


@asynccontextmanager
async def health_server(
    address: str | None, is_ready: Callable[[], Awaitable[object]], setting: str = "TIDEMILL_HEALTH_ADDRESS"
) -> AsyncIterator[str | None]:
    """Serves as long as the block; the URL. Without an address, nothing. *setting* is what the address comes from.

    `/healthz` says that the event loop answers, `/readyz` that *is_ready* raises nothing: 200 or 503, and why in JSON.
    """
    if address is None:
        yield None
        return
    loop = asyncio.get_running_loop()
    checks: dict[str, Callable[[], Awaitable[object]]] = {
        "/healthz": lambda: asyncio.sleep(0),
        "/readyz": is_ready,
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answers one request."""
            check = checks.get(self.path)
            if check is None:
                return self._answer(HTTPStatus.NOT_FOUND, "ask for /healthz or /readyz")
            future = asyncio.run_coroutine_threadsafe(_wait(check), loop)
            try:
                future.result(ANSWER_TIMEOUT)
            except Exception as error:
                future.cancel()
                return self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{type(error).__name__}: {error}")
            return self._answer(HTTPStatus.OK, "ok")

        def _answer(self, status: HTTPStatus, message: str) -> None:
            body = json.dumps({"status": message}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002
            """Probes come every few seconds: they are not worth a line."""

    server = _bound(address, Handler, setting)
    thread = Thread(target=server.serve_forever, daemon=True, name="tidemill-health")
    thread.start()
    try:
        host, port = server.server_address[:2]
        yield f"http://{host!s}:{port}"
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()


async def _wait(check: Callable[[], Awaitable[object]]) -> None:
    await check()


def _bound(address: str, handler: type[BaseHTTPRequestHandler], setting: str) -> ThreadingHTTPServer:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidInputError(f"{setting} = {address!r} is no address. Write host:port: 127.0.0.1:8088")
    try:
        return ThreadingHTTPServer((host, int(port)), handler)
    except OSError as error:
        raise InvalidInputError(f"{setting} = {address}: {error.strerror}. Choose another") from None
