"""The web: how long pages wait for their data, with many DAGs; and how many questions many viewers cost."""

import asyncio
import time
import uuid
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import quote

import httpx
import psutil
from cli import begin_listed
from figures import Figure
from installation import Installation
from temporalio.client import Client
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import read_dag
from tidemill.worker.cli.web import web_server
from tidemill.worker.client import Tidemill
from tidemill.worker.dev import DevServer
from tidemill.worker.settings import Settings

ROUNDS = 100
VIEWERS = 50
RUNS = 30


class Counting(Tidemill):
    """Counts what is asked of workflows."""

    asked = 0

    async def _query(self, *arguments: Any) -> Any:
        self.asked += 1
        return await super()._query(*arguments)


async def web(client: Client, server: DevServer, place: Path, listed: tuple[int, ...]) -> list[Figure]:
    """One DAG with runs, among many that are only listed."""
    here = Installation(client, server, place)
    tidemill = Counting(client, here.queue)
    figures = []
    with here.worker():
        dag_id = f"a_web_{uuid.uuid4().hex[:6]}"
        tasks = [{"kind": "bash", "task_id": f"t{n}", "command": "echo hello"} for n in range(5)]
        await here.tidemill.register(read_dag({"dag_id": dag_id, "tasks": tasks}))
        for number in range(RUNS):
            run = await here.tidemill.trigger(dag_id, TriggerRequest(run_id=f"r{number}"))
            await here.tidemill.wait(run)
        settings = Settings(home=place / "home", task_queue=here.queue)
        for n in listed:
            begun = await begin_listed(client, n)
            async with web_server(tidemill, settings, "127.0.0.1", 0) as url:
                figures += await _pages(url, dag_id, n)
            for part in range(0, n, 500):
                await asyncio.gather(*(handle.terminate() for handle in begun[part : part + 500]))
            begun.clear()
        async with web_server(tidemill, settings, "127.0.0.1", 0) as url:
            figures.append(await _viewers(url, tidemill, dag_id))
        memory = psutil.Process().memory_info().rss / 2**20
        return [*figures, Figure("memory of the process that serves", "MiB", memory)]


async def _pages(url: str, dag_id: str, n: int) -> list[Figure]:
    pages = {
        "list": f"/ui/dags?limit=50&dag_id_pattern={dag_id[:4]}",
        "a DAG's grid": f"/ui/grid/runs/{dag_id}?limit=14",
        "cells of 14 runs": f"/ui/grid/ti_summaries/{dag_id}?" + "&".join(f"run_ids=r{i}" for i in range(14)),
        "a run": f"/api/v2/dags/{dag_id}/dagRuns/{quote('r1')}/taskInstances",
        "a log": f"/api/v2/dags/{dag_id}/dagRuns/r1/taskInstances/t0/logs/1",
    }
    figures = []
    async with httpx.AsyncClient(base_url=url, timeout=120) as web:
        for name, path in pages.items():
            took = []
            for _ in range(ROUNDS):
                start = time.perf_counter()
                (await web.get(path)).raise_for_status()
                took.append(1000 * (time.perf_counter() - start))
                await asyncio.sleep(0.05)
            figures.append(Figure(f"{name}, {n:,} DAGs: p50", "ms", median(took)))
            figures.append(Figure(f"{name}, {n:,} DAGs: p99", "ms", quantiles(took, n=100)[-1]))
    return figures


async def _viewers(url: str, tidemill: Counting, dag_id: str) -> Figure:
    """How many workflow queries a second of fifty open pages costs."""
    paths = [f"/api/v2/dags/{dag_id}/details", f"/ui/grid/runs/{dag_id}", f"/ui/grid/structure/{dag_id}"]
    before, start = tidemill.asked, time.perf_counter()
    async with httpx.AsyncClient(base_url=url, timeout=120) as web:
        for _ in range(5):
            await asyncio.gather(*(web.get(path) for path in paths for _ in range(VIEWERS)))
            await asyncio.sleep(1)
    seconds = time.perf_counter() - start
    return Figure(f"queries of workflows by {VIEWERS} viewers of a DAG", "1/s", (tidemill.asked - before) / seconds)
