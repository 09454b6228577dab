"""Connections of the web server have bounds: half requests, which cost their senders nothing, keep nobody out."""

import asyncio
import resource
from collections import Counter
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_TIMEOUT = 10.0
"""Seconds from the first moment of a connection, or of its next request, to the end of its headers."""
BODY_TIMEOUT = 60.0
"""Seconds from there to the end of the body."""
SPARE = 64
"""Descriptors that are for other things than connections."""
MAX_CONNECTIONS = 4096


def max_connections() -> int:
    """As many as this process may have, with its limit of descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = soft - SPARE if soft != resource.RLIM_INFINITY else MAX_CONNECTIONS
    return max(8, min(MAX_CONNECTIONS, free))


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with a bound of connections, half of them for one address at most, and of the time for each request."""

    of_address: ClassVar[Counter[str]] = Counter()
    """Connections that are open, by where they come from; of this process."""

    _address: str | None = None
    _late: asyncio.TimerHandle | None = None
    _waits_for_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or end it at once where there are too many."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        limit = max_connections()
        if self.of_address.total() >= limit or self.of_address[address] >= limit // 2:
            transport.abort()
            return
        self._address = address
        self.of_address[address] += 1
        super().connection_made(transport)
        self._begin(HEADERS_TIMEOUT)

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note that it has ended."""
        if self._address is None:
            return
        self._stop()
        self.of_address[self._address] -= 1
        if not self.of_address[self._address]:
            del self.of_address[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what has come, and see how far the request is."""
        if self._address is None:
            return
        super().data_received(data)
        state: Any = self.conn.their_state
        if state is h11.SEND_BODY and not self._waits_for_body:
            self._stop()
            self._waits_for_body = True
            self._begin(BODY_TIMEOUT)
        elif state is h11.IDLE and self._late is None:
            self._begin(HEADERS_TIMEOUT)
        elif state not in (h11.SEND_BODY, h11.IDLE):
            self._stop()

    def _begin(self, seconds: float) -> None:
        self._late = self.loop.call_later(seconds, self._too_late)

    def _stop(self) -> None:
        self._waits_for_body = False
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            self.transport.close()
