"""The web: how long pages wait for their data, with many DAGs; and how many questions many viewers cost."""

import asyncio
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
from cli import begin_listed
from figures import Figure
from installation import Installation
from page_times import page_times
from pydantic import SecretStr
from temporalio.client import Client
from tidemill.api.read.cached_client import CachedClient
from tidemill.api.read.ended_runs import EndedRun, RunArchive
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import DagSpec, read_dag
from tidemill.worker.app.dev import DevServer
from tidemill.worker.cli.web import web_server
from tidemill.worker.client import Tidemill
from tidemill.worker.client.caller import Caller
from tidemill.worker.settings.reading import Settings

VIEWERS = 50
RUNS = 30
TASKS = 5
REAL = 1000
"""So many DAGs have workflows that a worker runs; those beyond are lines in Temporal's lists."""
ARCHIVED = 100_000


class Counting(Caller):
    """Counts what is asked of workflows."""

    asked = 0

    async def query(self, *arguments: Any) -> Any:
        Counting.asked += 1
        return await super().query(*arguments)


async def web(client: Client, server: DevServer, place: Path, sizes: tuple[int, ...]) -> list[Figure]:
    """Pages while there are more and more DAGs, then with an archive; the first fifty have workflows."""
    here = Installation(client, server, place)
    tidemill = Tidemill(client, here.queue, Counting)
    settings = Settings(home=place / "home", task_queue=here.queue)
    figures: list[Figure] = []
    with here.worker():
        dag_id = f"a_web_{uuid.uuid4().hex[:6]}"
        await here.tidemill.dags.register(_spec(dag_id))
        for number in range(RUNS):
            run = await here.tidemill.runs.trigger(dag_id, TriggerRequest(run_id=f"r{number}"))
            await here.tidemill.runs.wait(run)
        there = 1
        for n in sizes:
            await _add(here, there, n)
            there = n
            async with web_server(tidemill, settings, "127.0.0.1", 0) as url:
                figures += await page_times(url, _paths(dag_id), f"{n:,} DAGs")
        async with web_server(tidemill, settings, "127.0.0.1", 0) as url:
            figures.append(await _viewers(url, dag_id))
        archive = f"sqlite:///{place / 'archive.db'}"
        await _fill(CachedClient(tidemill, settings), archive, dag_id)
        settings = settings.model_copy(update={"archive": SecretStr(archive)})
        async with web_server(tidemill, settings, "127.0.0.1", 0) as url:
            figures += await page_times(url, _archived(dag_id), f"{ARCHIVED:,} archived runs")
        memory = psutil.Process().memory_info().rss / 2**20
        return [*figures, Figure("memory of the process that serves", "MiB", memory)]


def _spec(dag_id: str) -> DagSpec:
    tasks = [
        {"kind": "bash", "task_id": f"t{n}", "command": "echo hello", "upstream": [f"t{n - 1}"] if n else []}
        for n in range(TASKS)
    ]
    return read_dag({"dag_id": dag_id, "tasks": tasks})


async def _add(here: Installation, there: int, n: int) -> None:
    """Sees to it that there are *n* DAGs, where there are some already."""
    room = asyncio.Semaphore(16)

    async def register(number: int) -> None:
        async with room:
            await here.tidemill.dags.register(_spec(f"b_real_{number:05}"))

    await asyncio.gather(*(register(number) for number in range(there, min(n, REAL))))
    if n > REAL:
        await begin_listed(here.tidemill.client, n - max(there, REAL))

    async def listed() -> int:
        return len((await here.tidemill.dags.list())[0])

    while await listed() < n:  # noqa: ASYNC110
        await asyncio.sleep(0.5)


def _paths(dag_id: str) -> dict[str, str]:
    return {
        "list of 50 DAGs": "/ui/dags?limit=50",
        "a DAG's grid": f"/ui/grid/runs/{dag_id}?limit=14",
        "cells of 14 runs": f"/ui/grid/ti_summaries/{dag_id}?" + "&".join(f"run_ids=r{i}" for i in range(14)),
        "a run": f"/api/v2/dags/{dag_id}/dagRuns/r1/taskInstances",
        "a log": f"/api/v2/dags/{dag_id}/dagRuns/r1/taskInstances/t0/logs/1",
    }


def _archived(dag_id: str) -> dict[str, str]:
    return {
        "runs of all DAGs": "/api/v2/dags/~/dagRuns?limit=50&order_by=-run_after",
        "runs of a DAG": f"/api/v2/dags/{dag_id}/dagRuns?limit=50&order_by=-run_after",
        "an archived run": f"/api/v2/dags/{dag_id}/dagRuns/old{ARCHIVED - 1:06}/taskInstances",
    }


async def _fill(client: CachedClient, archive: str, dag_id: str) -> None:
    """Puts copies of a run into the archive, an hour after each other, of a hundred DAGs in turn."""
    run = await client.tidemill.runs.find(dag_id, "r1")
    await client.ended.begin()
    await client.details(dag_id, run)
    known = await client.ended.find(dag_id, "r1")
    assert known is not None
    kept = RunArchive(archive, client.tidemill.client)
    await kept.begin()
    now = datetime.now(UTC)
    for part in range(0, ARCHIVED, 1000):
        copies = []
        for n in range(part, part + 1000):
            at = now - timedelta(hours=ARCHIVED - n)
            identity = known.details.run.model_copy(
                update={"dag_id": dag_id if n % 100 == 99 else f"b_real_{n % 100:05}", "run_id": f"old{n:06}"}
            )
            view = {"run_id": identity.run_id, "run_after": at, "ended_at": at, "workflow_id": identity.workflow_id}
            copies.append(
                EndedRun(
                    known.view.model_copy(update=view),
                    known.details.model_copy(update={"run": identity}),
                    known.state.model_copy(update={"run": identity}),
                )
            )
        await asyncio.gather(*map(kept.keep, copies))
    kept.close()
    client.ended.close()


async def _viewers(url: str, dag_id: str) -> Figure:
    """How many workflow queries a second of fifty open pages costs."""
    paths = [f"/api/v2/dags/{dag_id}/details", f"/ui/grid/runs/{dag_id}", f"/ui/grid/structure/{dag_id}"]
    before, start = Counting.asked, time.perf_counter()
    async with httpx.AsyncClient(base_url=url, timeout=120) as web:
        for _ in range(5):
            await asyncio.gather(*(web.get(path) for path in paths for _ in range(VIEWERS)))
            await asyncio.sleep(1)
    seconds = time.perf_counter() - start
    return Figure(f"queries of workflows by {VIEWERS} viewers of a DAG", "1/s", (Counting.asked - before) / seconds)
