"""The same shapes at 100, 1,000 and 5,000 tasks, and many runs of large DAGs: whether time grows as size does."""

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from figures import Figure
from installation import Installation
from temporalio.client import Client
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.pool.state import PoolSettings
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import read_dag
from tidemill.worker.app.dev import DevServer

SIZES = (100, 1000, 5000)
POOL_SLOTS = 16
LARGE_RUNS = 16
DUE_RUNS, BACKFILLED = 200, 100
Tasks = list[dict[str, Any]]


def empty(task_id: str, *upstream: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "empty", "task_id": task_id, "upstream": list(upstream), **fields}


def wide(n: int) -> Tasks:
    middle = [f"t{i}" for i in range(n)]
    return [empty("first"), *(empty(task, "first") for task in middle), empty("last", *middle)]


def on_the_past(n: int) -> Tasks:
    return [{**task, "depends_on_past": True} for task in wide(n)]


def failing(n: int) -> Tasks:
    """The root fails, so that nothing after it runs."""
    first, *others = on_the_past(n)
    return [{**first, "kind": "bash", "command": "exit 1"}, *others]


def in_a_pool(n: int) -> Tasks:
    return [empty(f"t{i}", pool="sixteen") for i in range(n)]


SHAPES: list[tuple[str, Callable[[int], Tasks], str]] = [
    ("1 -> n -> 1", wide, "success"),
    ("the same, depends_on_past", on_the_past, "success"),
    ("the same, depends_on_past, the root fails", failing, "failed"),
    (f"n through a pool of {POOL_SLOTS}", in_a_pool, "success"),
]


async def sizes(client: Client, server: DevServer, place: Path) -> list[Figure]:
    """All of it, with a worker in a process of its own."""
    here = Installation(client, server, place)
    figures = []
    with here.worker():
        await here.tidemill.pools.configure("sixteen", PoolSettings(slots=POOL_SLOTS))
        for what, tasks, state in SHAPES:
            figures += [await _one_run(here, what, tasks(n), n, state) for n in SIZES]
        figures.append(await _many_runs(here, max(SIZES), LARGE_RUNS))
        figures.append(await _due_and_backfilled(here))
    return figures


async def _one_run(here: Installation, what: str, tasks: Tasks, n: int, state: str) -> Figure:
    """The second of two runs, so that there is a past."""
    dag_id = f"size_{uuid.uuid4().hex[:8]}"
    await here.tidemill.dags.register(read_dag({"dag_id": dag_id, "tasks": tasks, "max_active_tasks": 500}))
    took = 0.0
    for _ in range(2):
        start = time.perf_counter()
        run = await here.tidemill.runs.trigger(dag_id, TriggerRequest(run_id=uuid.uuid4().hex))
        await here.tidemill.runs.wait(run)
        took = time.perf_counter() - start
    [ended, *_] = await here.tidemill.runs.list(dag_id)
    assert ended.state == state, ended
    return Figure(f"{what}, n = {n}: per task", "ms", 1000 * took / n)


async def _many_runs(here: Installation, tasks: int, runs: int) -> Figure:
    first = datetime(2024, 1, 1, tzinfo=UTC)
    dag_id = f"large_{uuid.uuid4().hex[:8]}"
    spec = {
        "dag_id": dag_id,
        "tasks": [{**task, "doc_md": "what it is for, in so many words: " * 4} for task in wide(tasks)],
        "schedule": "@daily",
        "start_date": first.isoformat(),
        "end_date": (first + timedelta(days=runs - 1)).isoformat(),
        "catchup": True,
        "max_active_runs": runs,
        "max_active_tasks": 500,
    }
    start = time.perf_counter()
    await here.tidemill.dags.register(read_dag(spec))
    await here.runs(dag_id, runs)
    took = time.perf_counter() - start
    return Figure(f"{runs} runs due at once of {tasks} tasks each: per task", "ms", 1000 * took / runs / tasks)


async def _due_and_backfilled(here: Installation) -> Figure:
    """A spec of about 90 KB, its missed runs, and two backfills beside each other."""
    first = datetime(2024, 1, 1, tzinfo=UTC)
    dag_id = f"due_{uuid.uuid4().hex[:8]}"
    spec = {
        "dag_id": dag_id,
        "tasks": [empty(f"t{i}", doc_md="a text that makes the DAG large " * 56) for i in range(50)],
        "schedule": "@daily",
        "start_date": first.isoformat(),
        "end_date": (first + timedelta(days=DUE_RUNS - 1)).isoformat(),
        "catchup": True,
        "max_active_runs": DUE_RUNS,
    }
    start = time.perf_counter()
    await here.tidemill.dags.register(read_dag(spec))
    for year in (2021, 2022):
        day = datetime(year, 1, 1, tzinfo=UTC)
        asked = BackfillRequest(from_date=day, to_date=day + timedelta(days=BACKFILLED - 1), max_active_runs=50)
        await here.tidemill.backfills.create(dag_id, asked)
    runs = DUE_RUNS + 2 * BACKFILLED
    await here.runs(dag_id, runs)
    took = time.perf_counter() - start
    return Figure(f"{DUE_RUNS} due runs and two backfills of {BACKFILLED}, a spec of 90 KB", "runs/s", runs / took)
