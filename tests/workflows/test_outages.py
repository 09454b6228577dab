"""The Temporal service away for a while, under tasks that run; or far away."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support import eventually, stack, suspended, temporal_server
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment
from tidemill.activities.runs import RunsQuestion, find_ended_runs
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import read_dag
from tidemill.model.states import RunState
from tidemill.workflows.calls import ANSWER_TIMEOUT

pytestmark = [pytest.mark.thorough, pytest.mark.faults]

AWAY_SECONDS = int(os.environ.get("AWAY_SECONDS", "25"))
"""`make chaos` has it away for two minutes."""
LATENCY_SECONDS = 0.05
HOLDERS = 2000


async def test_a_task_that_runs_while_the_service_is_away_is_not_run_twice(tmp_path: Path) -> None:
    """With default settings. A worker that cannot send heartbeats is no dead one."""
    mark = tmp_path / "mark"
    command = f"echo began >> {mark}; sleep {AWAY_SECONDS + 5}; echo ended >> {mark}"
    spec = read_dag({"dag_id": "outlives", "tasks": [{"kind": "bash", "task_id": "a", "command": command}]})
    with temporal_server(tmp_path / "server") as address:
        async with stack(address, tmp_path / "home") as here:
            await here.tidemill.dags.register(spec)
            run = await here.tidemill.runs.trigger("outlives", TriggerRequest())
            await eventually(lambda: asyncio.to_thread(mark.exists), bool)
            with suspended(tmp_path / "server"):
                await asyncio.sleep(AWAY_SECONDS)
            details = await here.finished("outlives", run.run_id)
    assert (details.state, details.tasks[0].try_number) == (RunState.SUCCESS, 1)
    assert mark.read_text().split() == ["began", "ended"]


async def test_thousands_who_hold_slots_are_looked_after_over_a_slow_network(server: str) -> None:
    """Within the time that a pool has for it, and in the background of its granting."""
    async with far_away(server) as address:
        client = await Client.connect(address)
        question = RunsQuestion(workflow_ids={f"run:gone:{n}": f"run:gone:{n}" for n in range(HOLDERS)})
        async with asyncio.timeout(ANSWER_TIMEOUT.total_seconds()):
            found = await ActivityEnvironment(client=client).run(find_ended_runs, question)
    assert len(found) == HOLDERS


@asynccontextmanager
async def far_away(address: str) -> AsyncIterator[str]:
    """The server at *address*, as it is seen from another continent."""
    host, port = address.split(":")
    links: list[asyncio.Task[None]] = []

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        links.extend(
            asyncio.create_task(relay(source, sink)) for source, sink in ((reader, far_writer), (far_reader, writer))
        )

    async with await asyncio.start_server(meet, "127.0.0.1", 0) as relaying:
        yield f"127.0.0.1:{relaying.sockets[0].getsockname()[1]}"
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)


async def relay(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Passes on what arrives, in order, half a round trip later."""
    loop = asyncio.get_running_loop()
    try:
        while data := await source.read(2**16):
            loop.call_later(LATENCY_SECONDS / 2, sink.write, data)
    finally:
        sink.close()
