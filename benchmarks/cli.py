"""Processor time of commands, and lists of many DAGs."""

import asyncio
import resource
import subprocess
import sys
import time
import uuid
from pathlib import Path
from statistics import median
from typing import Any

from figures import Figure
from temporalio.client import Client, WorkflowHandle
from tidemill.model.dag.row import DagRow
from tidemill.worker.service.listing import dag_rows

TIDEMILL = Path(sys.executable).with_name("tidemill")
ROUNDS = 7
COMMANDS = (["--help"], ["dags", "list", "--help"], ["dags", "list"])


def processor_seconds(argv: list[str], env: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def cli(client: Client, address: str, listed: tuple[int, ...]) -> list[Figure]:
    """The floor is Python with Temporal's client imported."""
    env = {"PATH": "/usr/bin:/bin", "TEMPORAL_ADDRESS": address}
    floor = median(processor_seconds([sys.executable, "-c", "import temporalio.client"], env) for _ in range(ROUNDS))
    figures = []
    for arguments in COMMANDS:
        took = median(processor_seconds([str(TIDEMILL), *arguments], env) for _ in range(ROUNDS))
        figures.append(Figure(f"tidemill {' '.join(arguments)}: processor time", "s", took, floor))
    return figures + [await lists(client, n) for n in listed]


async def begin_listed(client: Client, n: int) -> list[WorkflowHandle[Any, Any]]:
    """*n* DAGs that nobody works on: their memos are all that there is."""
    room = asyncio.Semaphore(64)

    async def begin(number: int) -> WorkflowHandle[Any, Any]:
        row = DagRow(dag_id=f"listed_{uuid.uuid4().hex}_{number}", timetable_summary="0 6 * * *", tags=("bench",))
        memo = {"view": row.model_dump(mode="json", exclude_defaults=True)}
        async with room:
            return await client.start_workflow("Dag", id=f"dag:{row.dag_id}", task_queue="nobody", memo=memo)

    begun = await asyncio.gather(*(begin(number) for number in range(n)))
    while (await client.count_workflows('WorkflowType = "Dag" AND ExecutionStatus = "Running"')).count < n:  # noqa: ASYNC110
        await asyncio.sleep(0.5)
    return begun


async def lists(client: Client, n: int) -> Figure:
    """A list of *n* such DAGs."""
    begun = await begin_listed(client, n)
    start = time.perf_counter()
    rows, _ = await dag_rows(client, "tidemill")
    took = time.perf_counter() - start
    assert len(rows) >= n
    for part in range(0, n, 500):
        await asyncio.gather(*(handle.terminate() for handle in begun[part : part + 500]))
    return Figure(f"list of {n:,} DAGs", "s", took)
