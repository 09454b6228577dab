"""How late runs start, and how fast missed ones are caught up, beside the same timers and children by hand."""

import asyncio
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from statistics import quantiles

from figures import Figure
from floor import FloorCatchUp, FloorDue
from temporalio.client import Client
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.spec.dag import DagSpec, read_dag
from tidemill.worker.client import Tidemill

ONE_TASK = [{"kind": "empty", "task_id": "only"}]


async def due_at_once(client: Client, tidemill: Tidemill, queue: str, sizes: Sequence[int]) -> list[Figure]:
    """So many DAGs that fall due at one instant."""
    return [figure for n in sizes for figure in await _due_at_once(client, tidemill, queue, n)]


async def _due_at_once(client: Client, tidemill: Tidemill, queue: str, n: int) -> list[Figure]:
    """*n* DAGs that fall due at one instant: how long after it their runs have begun."""
    label = uuid.uuid4().hex[:6]
    due = soon(20 + n / 25)
    floor = [
        await client.start_workflow(FloorDue.run, due.isoformat(), id=f"due-{label}-{i}", task_queue=queue)
        for i in range(n)
    ]
    by_hand = spread(sorted(await asyncio.gather(*(handle.result() for handle in floor))))
    due = soon(20 + n / 25)
    specs = [at_instant(f"due_{label}_{i}", due) for i in range(n)]
    for spec in specs:
        await tidemill.dags.register(spec)
    await asyncio.sleep(max(0.0, (due - datetime.now(UTC)).total_seconds()) + 5)
    delays = [await delay_of(tidemill, spec.dag_id, due) for spec in specs]
    ours = spread(sorted(delays))
    return [
        Figure(f"{n} DAGs due at once: run started after due, p50", "ms", 1000 * ours[0], 1000 * by_hand[0]),
        Figure(f"{n} DAGs due at once: run started after due, p99", "ms", 1000 * ours[1], 1000 * by_hand[1]),
    ]


async def delay_of(tidemill: Tidemill, dag_id: str, due: datetime) -> float:
    while True:
        runs = [run for run in await tidemill.runs.list(dag_id) if run.started_at is not None]
        if runs:
            details = await tidemill.runs.describe_workflow(runs[0].workflow_id)
            if details.started_at is not None:
                return (details.started_at - due).total_seconds()
        await asyncio.sleep(0.2)


async def catch_up(client: Client, tidemill: Tidemill, queue: str, n: int) -> list[Figure]:
    """*n* missed runs of one task each, 16 at once."""
    label = uuid.uuid4().hex[:6]
    start = time.perf_counter()
    await client.execute_workflow(FloorCatchUp.run, n, id=f"catch-up-{label}", task_queue=queue)
    by_hand = n / (time.perf_counter() - start)
    first = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=n)
    spec = read_dag(
        {
            "dag_id": f"catch_up_{label}",
            "schedule": {"kind": "delta_interval", "delta": 60},
            "start_date": first.isoformat(),
            "end_date": (first + timedelta(minutes=n - 1)).isoformat(),
            "catchup": True,
            "max_active_runs": 16,
            "tasks": ONE_TASK,
        }
    )
    start = time.perf_counter()
    await tidemill.dags.register(spec)
    while True:
        view = await tidemill.dags.describe(spec.dag_id)
        if view.next_dagrun_note.startswith("no more runs") and not view.active_runs and not view.queued_runs:
            break
        await asyncio.sleep(0.1)
    return [Figure(f"catch-up of {n} runs, 16 at once", "runs/s", n / (time.perf_counter() - start), by_hand)]


async def backfill(tidemill: Tidemill, n: int) -> list[Figure]:
    """A backfill of *n* runs: how fast, and that it stays inside Temporal's limits."""
    label = uuid.uuid4().hex[:6]
    first = datetime(2020, 1, 1, tzinfo=UTC)
    spec = read_dag(
        {
            "dag_id": f"backfill_{label}",
            "schedule": {"kind": "delta_interval", "delta": 60},
            "start_date": (datetime.now(UTC) + timedelta(days=1)).isoformat(),
            "catchup": True,
            "tasks": ONE_TASK,
        }
    )
    await tidemill.dags.register(spec)
    request = BackfillRequest(from_date=first, to_date=first + timedelta(minutes=n - 1), max_active_runs=32)
    start = time.perf_counter()
    await tidemill.backfills.create(spec.dag_id, request)
    while True:
        [progress] = await tidemill.backfills.list(spec.dag_id)
        if progress.completed_at is not None:
            break
        await asyncio.sleep(2)
    took = time.perf_counter() - start
    assert (progress.succeeded, progress.failed, progress.skipped) == (n, 0, 0), progress
    client = tidemill.client
    lengths = [e.history_length async for e in client.list_workflows(f'WorkflowId = "dag:{spec.dag_id}"')]
    await asyncio.sleep(2)
    made = await client.count_workflows(f'WorkflowId STARTS_WITH "run:{spec.dag_id}:"')
    assert made.count == n, f"{made.count} runs of {n} dates"
    return [
        Figure(f"backfill of {n} runs, 32 at once", "runs/s", n / took),
        Figure(f"backfill of {n} runs: events in the longest history of its DAG", "", max(lengths)),
    ]


def at_instant(dag_id: str, due: datetime) -> DagSpec:
    schedule = {"kind": "events", "event_dates": [due.isoformat()]}
    return read_dag({"dag_id": dag_id, "schedule": schedule, "tasks": ONE_TASK})


def soon(seconds: float) -> datetime:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)


def spread(delays: list[float]) -> tuple[float, float]:
    """p50 and p99."""
    cuts = quantiles(delays, n=100, method="inclusive")
    return cuts[49], cuts[98]
