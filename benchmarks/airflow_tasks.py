"""The same unmodified DAG file of Airflow's on tidemill, and on Airflow's own LocalExecutor, per task."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
from figures import Figure
from temporalio.client import Client
from temporalio.worker import Worker
from tidemill.activities.attempts.watch import Unattended
from tidemill.activities.bundles.parsing import PARSE_TIMEOUT, FileToParse, parsed
from tidemill.activities.workplace import Workplace
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import DagSpec, read_dag
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-airflow" / "bin" / "python"
CHAIN, FAN, WITHIN = 20, 100, 600
FILE = f"""
from airflow.sdk import DAG, task
from airflow.sdk import chain as in_a_chain

@task
def nothing(): ...

with DAG("bench_chain", schedule=None, is_paused_upon_creation=False):
    in_a_chain(*[nothing.override(task_id=f"t{{n}}")() for n in range({CHAIN})])

with DAG("bench_fan", schedule=None, is_paused_upon_creation=False, max_active_tasks=32):
    for n in range({FAN}):
        nothing.override(task_id=f"t{{n}}")()
"""
FORKS = "tidemill.activities.processes.fork_server"
TASKS = {"bench_chain": CHAIN, "bench_fan": FAN}


async def airflow_tasks(address: str, folder: Path) -> list[Figure]:
    """Per task, on both."""
    if not PYTHON.exists():
        sys.exit("there is no Airflow: `make .venv-airflow/.ready`")
    ours = await _ours(address, folder)
    theirs = await asyncio.to_thread(_theirs, folder / "old")
    return [
        Figure(f"{dag_id}: {what} per task, beside Airflow's LocalExecutor", "ms", found, theirs.get((dag_id, what)))
        for (dag_id, what), found in ours.items()
    ]


def _specs(place: Workplace, folder: Path) -> list[DagSpec]:
    path = folder / "bench_airflow.py"
    path.write_text(FILE)
    watch = Unattended(PARSE_TIMEOUT, too_long=TimeoutError)
    answer = parsed(place.forks, place.airflow_forks_of(None), FileToParse(folder, path.name, str(path)), watch)
    return [read_dag(dag) for dag in answer["dags"]]


async def _ours(address: str, folder: Path) -> dict[tuple[str, str], float]:
    place = Workplace(home=folder / "home", airflow_python=str(PYTHON))
    client = await Client.connect(address, plugins=[TidemillPlugin(workplace=place)])
    queue, found = f"bench-{uuid.uuid4().hex[:8]}", {}
    async with Worker(client, task_queue=queue):
        tidemill = Tidemill(client, queue)
        for spec in await asyncio.to_thread(_specs, place, folder):
            await tidemill.register(spec)
        for dag_id, n in TASKS.items():
            await tidemill.wait(await tidemill.trigger(dag_id, TriggerRequest()))  # warm
            start, before = time.perf_counter(), _processor_of_tasks()
            await tidemill.wait(await tidemill.trigger(dag_id, TriggerRequest(run_id=uuid.uuid4().hex)))
            found[dag_id, "time"] = 1000 * (time.perf_counter() - start) / n
            found[dag_id, "processor of the task's process"] = 1000 * (_processor_of_tasks() - before) / n
    return found


def _processor_of_tasks() -> float:
    """Seconds that the processes of tasks have used that have ended, from their fork on."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            if FORKS not in process.cmdline():
                continue
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.children_user + times.children_system
    return total


def _theirs(home: Path) -> dict[tuple[str, str], float]:
    sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "airflow")]
    from old_airflow import OldAirflow
    from postgresql import postgresql

    old, found = OldAirflow(home), {}
    old.environment["AIRFLOW__CORE__EXECUTOR"] = "LocalExecutor"
    old.dags.mkdir(parents=True)
    (old.dags / "bench_airflow.py").write_text(FILE)
    with ExitStack() as stack:  # SQLite would hold the LocalExecutor's processes up
        database = stack.enter_context(postgresql(home.with_name("postgresql")))
        old.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = database.replace("://", "+psycopg2://", 1)
        old.run("db", "migrate")
        old.run("dag-processor", "--num-runs", "1")
        url, token = stack.enter_context(old.api())
        old.environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] = f"{url}/execution/"
        stack.enter_context(_running(old, "scheduler"))
        headers = {"Authorization": f"Bearer {token}"}
        api = stack.enter_context(httpx.Client(base_url=f"{url}/api/v2", headers=headers, timeout=60))
        for dag_id, n in TASKS.items():
            _run(api, dag_id)  # warm
            start = time.perf_counter()
            _run(api, dag_id)
            found[dag_id, "time"] = 1000 * (time.perf_counter() - start) / n
    return found


@contextmanager
def _running(old: Any, command: str) -> Iterator[None]:
    with (old.home / f"{command}.log").open("w") as log:
        process = subprocess.Popen(
            [str(PYTHON), "-m", "airflow", command], env=old.environment, cwd=old.home, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        for child in psutil.Process(process.pid).children(recursive=True):
            child.terminate()
        process.terminate()
        process.wait(60)


def _run(api: httpx.Client, dag_id: str) -> None:
    made = api.post(f"/dags/{dag_id}/dagRuns", json={"logical_date": None})
    made.raise_for_status()
    run_id, deadline = made.json()["dag_run_id"], time.monotonic() + WITHIN
    while api.get(f"/dags/{dag_id}/dagRuns/{run_id}").raise_for_status().json()["state"] not in ("success", "failed"):
        if time.monotonic() > deadline:
            sys.exit(f"Airflow has not ended {run_id} of {dag_id} within {WITHIN} s")
        time.sleep(0.05)
