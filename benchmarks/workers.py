"""How throughput grows with workers: the same run by one, two and four processes of four tasks at a time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from figures import Figure
from temporalio.client import Client
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import read_dag
from tidemill.worker.client import Tidemill

TASKS, SECONDS, SLOTS = 96, 1, 4


async def workers(client: Client, address: str, home: Path) -> list[Figure]:
    """Tasks that wait, so that two cores are enough for four workers."""
    figures: list[Figure] = []
    for n in (1, 2, 4):
        queue = f"workers-{n}-{uuid.uuid4().hex[:6]}"
        env = {
            **os.environ,
            "TEMPORAL_ADDRESS": address,
            "TIDEMILL_HOME": str(home / queue),
            "TIDEMILL_TASK_QUEUE": queue,
            "TIDEMILL_MAX_CONCURRENT_ACTIVITIES": str(SLOTS),
            "TIDEMILL_MAX_CONCURRENT_SPARK": "0",
        }
        tidemill = Tidemill(client, queue)
        with ExitStack() as stack:
            for _ in range(n):
                stack.enter_context(_worker(env))
            took = await _run(tidemill, f"workers_{n}")
        figures.append(Figure(f"{TASKS} tasks of {SECONDS} s, {n} workers of {SLOTS} tasks", "tasks/s", TASKS / took))
    return figures


async def _run(tidemill: Tidemill, dag_id: str) -> float:
    """How long a run takes when its workers are warm."""
    warm: list[dict[str, Any]] = [{"kind": "bash", "task_id": f"t{i}", "command": "true"} for i in range(32)]
    await tidemill.dags.register(read_dag({"dag_id": f"{dag_id}_warm", "tasks": warm, "max_active_tasks": 100}))
    await tidemill.runs.wait(await tidemill.runs.trigger(f"{dag_id}_warm"))
    tasks = [{"kind": "bash", "task_id": f"t{i}", "command": f"sleep {SECONDS}"} for i in range(TASKS)]
    await tidemill.dags.register(read_dag({"dag_id": dag_id, "tasks": tasks, "max_active_tasks": 100}))
    begun = time.perf_counter()
    await tidemill.runs.wait(await tidemill.runs.trigger(dag_id, TriggerRequest()))
    return time.perf_counter() - begun


def _worker(env: dict[str, str]) -> subprocess.Popen[bytes]:
    """A worker, ended at the end of the block."""

    class Ended(subprocess.Popen[bytes]):
        def __exit__(self, *_: object) -> None:
            self.kill()
            self.wait()

    command = [str(Path(sys.executable).with_name("tidemill")), "worker"]
    return Ended(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
