"""A quiet life: DAGs that do nothing, and crons that tick once a minute."""

import asyncio
import os
import time
import uuid
from datetime import UTC, datetime, timedelta

import psutil
from figures import Figure
from floor import FloorDue
from scheduling import ONE_TASK, spread
from temporalio.client import Client
from tidemill.model.spec.dag import read_dag
from tidemill.worker.client import Tidemill

MINUTES = 3
IDLE_SECONDS = 30


async def crons(client: Client, tidemill: Tidemill, queue: str, n: int) -> list[Figure]:
    """*n* DAGs on one-minute crons for some minutes: how late their runs begin, beside *n* timers by hand."""
    label = uuid.uuid4().hex[:6]
    now = datetime.now(UTC)
    for i in range(n):
        fields = {"schedule": "* * * * *", "start_date": now.isoformat(), "catchup": True, "tasks": ONE_TASK}
        await tidemill.dags.register(read_dag({"dag_id": f"cron_{label}_{i}", **fields}))
    ticks = [now.replace(second=0, microsecond=0) + timedelta(minutes=2 + m) for m in range(MINUTES)]
    floor = [
        await client.start_workflow(
            FloorDue.run, (tick + timedelta(seconds=30)).isoformat(), id=f"c-{label}-{i}-{tick}", task_queue=queue
        )
        for tick in ticks
        for i in range(n)
    ]
    by_hand = spread(sorted(await asyncio.gather(*(handle.result() for handle in floor))))
    delays = []
    for i in range(n):
        for run in await tidemill.runs.list(f"cron_{label}_{i}"):
            details = await tidemill.runs.describe_workflow(run.workflow_id)
            if details.started_at is not None and run.run_after >= ticks[0]:
                delays.append((details.started_at - run.run_after).total_seconds())
        await tidemill.dags.pause(f"cron_{label}_{i}")
    ours = spread(sorted(delays))
    return [
        Figure(f"{n} one-minute crons: run started after due, p50", "ms", 1000 * ours[0], 1000 * by_hand[0]),
        Figure(f"{n} one-minute crons: run started after due, p99", "ms", 1000 * ours[1], 1000 * by_hand[1]),
    ]


async def idle(tidemill: Tidemill, server_pid: int, n: int) -> list[Figure]:
    """*n* DAGs that wait for next year: what they cost the server and the worker."""
    before = _memory(server_pid), _memory(os.getpid())
    label = uuid.uuid4().hex[:6]
    fields = {"schedule": "@yearly", "start_date": f"{datetime.now(UTC).year}-01-01T00:00:00Z", "catchup": True}
    for i in range(n):
        await tidemill.dags.register(read_dag({"dag_id": f"idle_{label}_{i}", **fields, "tasks": ONE_TASK}))
    await asyncio.sleep(10)
    processes = [*_tree(server_pid), psutil.Process()]
    start, used = time.perf_counter(), sum(sum(p.cpu_times()[:2]) for p in processes)
    await asyncio.sleep(IDLE_SECONDS)
    busy = sum(sum(p.cpu_times()[:2]) for p in processes) - used
    return [
        Figure(f"{n} idle DAGs: CPU of server and worker", "%", 100 * busy / (time.perf_counter() - start)),
        Figure(f"{n} idle DAGs: memory of the server, more than before", "MB", _memory(server_pid) - before[0]),
        Figure(f"{n} idle DAGs: memory of the worker, more than before", "MB", _memory(os.getpid()) - before[1]),
    ]


def _tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _memory(pid: int) -> float:
    return sum(process.memory_info().rss for process in _tree(pid)) / 1e6
