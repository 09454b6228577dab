"""A flood of requests: each is answered, what was asked for is done once, and what runs goes on."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import dag, empty, stack, temporal_server
from tidemill.model.states import RunState
from tidemill.worker.cli.web import web_server
from tidemill.worker.settings.reading import Settings

pytestmark = pytest.mark.faults

TRIGGERS = 60
READS = 240
SENDERS = 60
RUNS = "dags/flooded/dagRuns"


@pytest.mark.thorough
async def test_each_of_a_flood_is_answered_and_done_once(tmp_path: Path) -> None:
    with temporal_server(tmp_path / "server") as server:
        async with stack(server, tmp_path / "home") as here:
            await here.tidemill.dags.register(dag("flooded", [empty("a")], max_active_runs=4))
            await here.tidemill.dags.register(dag("beside", [empty("a"), empty("b", "a")]))
            settings = Settings(home=tmp_path / "web")
            async with (
                web_server(here.tidemill, settings, "127.0.0.1", 0) as url,
                httpx.AsyncClient(base_url=f"{url}/api/v2", timeout=300) as web,
            ):
                beside = await here.tidemill.runs.trigger("beside")
                asked = [("POST", RUNS, {"dag_run_id": f"r{n}", "logical_date": None}) for n in range(TRIGGERS)]
                reads = [("GET", ("dags", "dags/~/dagRuns", RUNS)[n % 3], None) for n in range(READS)]
                answers = await flood(web, [*asked, *asked, *reads])
                triggered, read = answers[: 2 * TRIGGERS], answers[2 * TRIGGERS :]
                assert set(codes(triggered)) <= {200, 409}
                for n in range(TRIGGERS):
                    assert codes([triggered[n], triggered[n + TRIGGERS]]).count(200) <= 1
                assert set(codes(read)) == {200}
                assert (await here.finished("beside", beside.run_id)).state is RunState.SUCCESS
                for n in range(TRIGGERS):
                    await here.finished("flooded", f"r{n}")
                listed = (await web.get(RUNS, params={"limit": 1000})).json()
    assert sorted(run["dag_run_id"] for run in listed["dag_runs"]) == sorted(f"r{n}" for n in range(TRIGGERS))


async def flood(web: httpx.AsyncClient, requests: list[tuple[str, str, Any]]) -> list[httpx.Response]:
    """What is answered to *requests*, in their order, of which `SENDERS` are sent at a time.

    A request that is told to try again, since a worker is too busy, is sent again: it may have been followed already.
    """
    room = asyncio.Semaphore(SENDERS)

    async def one(method: str, path: str, body: Any) -> httpx.Response:
        async with room:
            while (answer := await web.request(method, path, json=body)).status_code == 503:
                await asyncio.sleep(1)
            return answer

    return await asyncio.gather(*(one(*request) for request in requests))


def codes(answers: list[httpx.Response]) -> list[int]:
    return [answer.status_code for answer in answers]
