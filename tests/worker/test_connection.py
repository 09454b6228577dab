"""An address at which nothing answers: commands end, and say what to look at."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from tidemill.worker import connection
from tidemill.worker.doctor import check_temporal

pytestmark = pytest.mark.faults


def dropped(sockets: ExitStack) -> str:
    """An address whose packets are dropped: its queue of connections is full, so that the kernel answers no more."""
    listening = sockets.enter_context(socket.socket())
    listening.bind(("127.0.0.1", 0))
    listening.listen(0)
    for _ in range(4):
        filling = sockets.enter_context(socket.socket())
        filling.setblocking(False)
        filling.connect_ex(listening.getsockname())
    return f"127.0.0.1:{listening.getsockname()[1]}"


def silent(sockets: ExitStack) -> str:
    """An address that takes connections, and says nothing."""
    listening = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=50))
    return f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("kind", [dropped, silent])
async def test_no_word_is_an_error(monkeypatch: pytest.MonkeyPatch, kind: Callable[[ExitStack], str]) -> None:
    monkeypatch.setattr(connection, "CONNECT_WITHIN", 0.5)
    with ExitStack() as sockets:
        monkeypatch.setenv("TEMPORAL_ADDRESS", address := kind(sockets))
        with pytest.raises(ConnectionError, match=rf"answers at {address}: no word within 0\.5 s\. Look whether"):
            await connection.connect()
        check = await check_temporal()
        assert not check.ok
        assert f"{address}: no word within" in check.found
