"""Whose pages may speak with the server: its own only.

Any web page may post to loopback, and to a server at which somebody is logged in. So requests have to name this server
as their host, against DNS rebinding, and changes have to come from its own pages, or from no page at all, as JSON.
"""

from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import answer

LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
FORM = "/auth/login"
"""The one form that is sent as forms are."""
READING = ("GET", "HEAD", "OPTIONS")
ANSWERS = ("/api/", "/ui/", "/auth/")
"""What is told to whoever asks now, and is kept by no browser and no proxy: logs, results, names."""
MAX_BYTES = 4 * 2**20
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "SAMEORIGIN",
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; font-src 'self' data:; worker-src 'self' blob:; connect-src 'self'; "
        "frame-src 'self'; frame-ancestors 'self'; base-uri 'self'; form-action 'self'; object-src 'none'"
    ),
}


class Guard:
    """Middleware that refuses what other sites' pages send, and adds the usual headers."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app, self._hosts = app, {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refused(scope["method"], scope["path"], headers)
        if refused is not None:
            await answer(*refused)(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    given.setdefault(name, value)
                if scope["path"].startswith(ANSWERS):
                    given.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, with_headers)

    def _refused(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if _name(host) not in self._hosts:
            return 421, f"host {host!r} is not this server's. Use one of: {', '.join(sorted(self._hosts))}"
        if method in READING:
            return None
        origin = headers.get("origin")
        if origin is not None and _place(origin) != host.lower():
            return 403, f"a page of {origin!r} may change nothing here"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "a page of another site may change nothing here"
        has_body = headers.get("content-length", "0") != "0"
        if "transfer-encoding" in headers:
            return 411, "a body needs a content-length"
        if not headers.get("content-length", "0").isdecimal() or int(headers.get("content-length", "0")) > MAX_BYTES:
            return 413, f"a body may have {MAX_BYTES:,} bytes. Send less, or a path to it"
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if (
            has_body
            and kind != "application/json"
            and not (path == FORM and kind == "application/x-www-form-urlencoded")
        ):
            return 415, f"content type {kind!r}: send application/json"
        return None


def _place(origin: str) -> str:
    """Host and port of an origin; nothing for one that is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _name(host: str) -> str:
    """*host* without its port."""
    host = host.strip().lower()
    return host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
