"""An address at which nothing answers: commands end, and say what to look at."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest
from temporalio.client import Client
from tidemill.worker.app.doctor import check_temporal
from tidemill.worker.client import Tidemill
from tidemill.worker.service import connection
from tidemill.worker.service.connection import NoWorkerError
from tidemill.worker.service.converter import ModelsPlugin

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
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT", 0.5)
    with ExitStack() as sockets:
        monkeypatch.setenv("TEMPORAL_ADDRESS", address := kind(sockets))
        with pytest.raises(ConnectionError, match=rf"answers at {address}: no word within 0\.5 s\. Look whether"):
            await connection.connect()
        check = await check_temporal()
        assert not check.ok
        assert f"{address}: no word within" in check.found


async def test_who_is_cancelled_while_nobody_answers_ends(server: str) -> None:
    """The SDK tells that as an error of the request: who asks again after those could not be ended any more."""
    client = await Client.connect(server, plugins=[ModelsPlugin()])
    tidemill = Tidemill(client, "nobody-polls-this")
    silent = await client.start_workflow("Bundle", id="bundle:silent", task_queue="nobody-polls-this")

    async def ask_until_answered() -> None:
        while True:
            with suppress(NoWorkerError):
                await tidemill.bundles.look("silent")

    asking = asyncio.create_task(ask_until_answered())
    try:
        await asyncio.sleep(1)
        asking.cancel()
        await asyncio.wait({asking}, timeout=10)
        assert asking.done()
    finally:
        await silent.terminate()
        asking.cancel()
