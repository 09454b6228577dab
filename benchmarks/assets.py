"""Assets: how long it takes from data to the run that waits for it, one to many, many to one, and a chain."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from assets_by_hand import by_hand
from figures import Figure
from installation import Installation
from temporalio.client import Client
from tidemill.model.spec.dag import read_dag
from tidemill.worker.app.dev import DevServer

ROUNDS = 30
MANY = 500
CHAIN = 50
LOOK = 0.02


def leaf(name: str) -> dict[str, Any]:
    return {"kind": "asset", "name": name}


def waiting(dag_id: str, *names: str, outlets: tuple[str, ...] = ()) -> dict[str, Any]:
    """A DAG that waits for all of *names*, with one task that does nothing."""
    condition = {"kind": "all", "of": [leaf(name) for name in names]}
    task = {"kind": "empty", "task_id": "first", "outlets": [leaf(name) for name in outlets]}
    return {"dag_id": dag_id, "schedule": {"kind": "asset", "condition": condition}, "tasks": [task]}


async def assets(client: Client, server: DevServer, place: Path) -> list[Figure]:
    """All of it, with a worker in a process of its own."""
    here = Installation(client, server, place)
    floor = await by_hand(client)
    with here.worker():
        return [*await _latency(here, floor), await _to_many(here), await _from_many(here), await _chain(here)]


async def _latency(here: Installation, floor: float) -> list[Figure]:
    """From the end of a producer's task to the start of the consumer's first."""
    tag = uuid.uuid4().hex[:6]
    source, end = f"source_{tag}", f"end_{tag}"
    await _register(here, [waiting(f"first_{tag}", source, outlets=(end,)), waiting(f"second_{tag}", end)])
    await _known(here, {source: f"first_{tag}", end: f"second_{tag}"})
    took = []
    for number in range(ROUNDS):
        await here.tidemill.assets.emit(source)
        await _runs(here, f"second_{tag}", number + 1)
    firsts = {view.run_id: view for view in await here.tidemill.runs.list(f"first_{tag}")}
    for view in await here.tidemill.runs.list(f"second_{tag}"):
        details = await here.tidemill.runs.describe(f"second_{tag}", view.run_id)
        [event] = details.run.asset_events
        before = await here.tidemill.runs.describe(f"first_{tag}", firsts[str(event.source_run_id)].run_id)
        began, ended = details.tasks[0].started_at, before.tasks[0].ended_at
        assert began is not None
        assert ended is not None
        took.append(1000 * (began - ended).total_seconds())
    what = "from a producer's end to the consumer's first task"
    return [Figure(f"{what}: p50", "ms", median(took), floor), Figure(f"{what}: p95", "ms", quantiles(took, n=20)[-1])]


async def _to_many(here: Installation) -> Figure:
    tag = uuid.uuid4().hex[:6]
    dag_ids = [f"many_{tag}_{number}" for number in range(MANY)]
    await _register(here, [waiting(dag_id, f"one_{tag}") for dag_id in dag_ids])
    await _until(lambda: _consumers(here, f"one_{tag}"), MANY)
    start = time.perf_counter()
    await here.tidemill.assets.emit(f"one_{tag}")
    for dag_id in dag_ids:
        await _runs(here, dag_id, 1)
    return Figure(f"1 asset -> {MANY} DAGs: until all of their runs have ended", "s", time.perf_counter() - start)


async def _from_many(here: Installation) -> Figure:
    tag = uuid.uuid4().hex[:6]
    names = [f"part_{tag}_{number}" for number in range(MANY)]
    await _register(here, [waiting(f"all_{tag}", *names)])
    await _known(here, dict.fromkeys(names, f"all_{tag}"))
    start = time.perf_counter()
    await asyncio.gather(*(here.tidemill.assets.emit(name) for name in names))
    await _runs(here, f"all_{tag}", 1)
    return Figure(f"{MANY} assets -> 1 DAG: until its run has ended", "s", time.perf_counter() - start)


async def _chain(here: Installation) -> Figure:
    tag = uuid.uuid4().hex[:6]
    links = [f"link_{tag}_{number}" for number in range(CHAIN + 1)]
    dags = [waiting(f"dag_{name}", name, outlets=(after,)) for name, after in pairwise(links)]
    await _register(here, dags)
    await _known(here, {name: f"dag_{name}" for name in links[:-1]})
    start = time.perf_counter()
    await here.tidemill.assets.emit(links[0])
    await _runs(here, f"dag_{links[-2]}", 1)
    return Figure(f"a chain of {CHAIN} DAGs: per DAG", "ms", 1000 * (time.perf_counter() - start) / CHAIN)


async def _register(here: Installation, specs: list[dict[str, Any]]) -> None:
    for spec in specs:
        await here.tidemill.dags.register(read_dag(spec))


async def _known(here: Installation, waits: dict[str, str]) -> None:
    for name, dag_id in waits.items():
        await _until(lambda name=name, dag_id=dag_id: _waits(here, name, dag_id), 1)  # type: ignore[misc]


async def _waits(here: Installation, name: str, dag_id: str) -> int:
    try:
        return int(dag_id in (await here.tidemill.assets.describe(name)).consumers)
    except LookupError:
        return 0


async def _consumers(here: Installation, name: str) -> int:
    return len((await here.tidemill.assets.describe(name)).consumers)


async def _runs(here: Installation, dag_id: str, n: int) -> None:
    async def ended() -> int:
        return sum(view.state.finished for view in await here.tidemill.runs.list(dag_id))

    await _until(ended, n)


async def _until(count: Callable[[], Awaitable[int]], n: int) -> None:
    while await count() < n:  # noqa: ASYNC110 - it is asked over the network
        await asyncio.sleep(LOOK)
