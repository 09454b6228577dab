"""The same unmodified DAG file of Airflow's on tidemill, and on Airflow's own LocalExecutor: tasks, catch-up, crons."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
from figures import Figure
from temporalio.client import Client
from temporalio.worker import Worker
from tidemill.activities.attempts.supervision import Unattended
from tidemill.activities.bundles.parsing import PARSE_TIMEOUT, FileToParse, parsed
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import DagSpec, read_dag
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-airflow" / "bin" / "python"
CHAIN, FAN, TIMEOUT = 20, 100, 600
MISSED, AT_ONCE = 200, 16
CRONS, MINUTES = 20, 2
NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
FILE = f"""
from datetime import datetime
from airflow.sdk import DAG, task
from airflow.sdk import chain as in_a_chain

@task
def nothing(): ...

with DAG("bench_chain", schedule=None, is_paused_upon_creation=False):
    in_a_chain(*[nothing.override(task_id=f"t{{n}}")() for n in range({CHAIN})])

with DAG("bench_fan", schedule=None, is_paused_upon_creation=False, max_active_tasks=32):
    for n in range({FAN}):
        nothing.override(task_id=f"t{{n}}")()

missed = {{"start_date": datetime.fromisoformat("{(NOW - timedelta(hours=MISSED - 1)).isoformat()}"),
          "end_date": datetime.fromisoformat("{NOW.isoformat()}"), "catchup": True, "max_active_runs": {AT_ONCE}}}
with DAG("bench_missed", schedule="@hourly", is_paused_upon_creation=True, **missed):
    nothing()

for n in range({CRONS}):
    with DAG(f"bench_cron_{{n}}", schedule="* * * * *", is_paused_upon_creation=True, catchup=False,
             start_date=datetime.fromisoformat("{NOW.isoformat()}")):
        nothing()
"""
FORKS = "tidemill.activities.work.fork_server"
TASKS = {"bench_chain": CHAIN, "bench_fan": FAN}
CRON_IDS = [f"bench_cron_{n}" for n in range(CRONS)]
Found = dict[str, float]
"""What was measured, in milliseconds."""


async def airflow_tasks(address: str, folder: Path) -> list[Figure]:
    """On both: tidemill, and Airflow's LocalExecutor in the place of the floor."""
    if not PYTHON.exists():
        sys.exit("there is no Airflow: `make .venv-airflow/.ready`")
    ours = await _ours(address, folder)
    theirs = await asyncio.to_thread(_theirs, folder / "old")
    return [Figure(f"beside Airflow: {what}", "ms", found, theirs.get(what)) for what, found in ours.items()]


def _per_task(dag_id: str) -> str:
    return f"{dag_id}, per task"


PER_RUN = f"{MISSED} missed runs, {AT_ONCE} at once, per run"


def _delays(runs: list[float], tasks: list[float]) -> Found:
    """Seconds after each tick until the run, and until its task, had started."""
    found: Found = {}
    for what, delays in (("run", runs), ("task", tasks)):
        ordered = sorted(delays)
        found[f"{CRONS} crons of a minute: {what} starts after it is due, p50"] = 1000 * ordered[len(ordered) // 2]
        found[f"{CRONS} crons of a minute: {what} starts after it is due, at most"] = 1000 * ordered[-1]
    return found


def _specs(place: WorkerContext, folder: Path) -> list[DagSpec]:
    path = folder / "bench_airflow.py"
    path.write_text(FILE)
    watch = Unattended(PARSE_TIMEOUT, too_long=TimeoutError)
    answer = parsed(place.forks(), place.airflow_forks_of(None), FileToParse(folder, path.name, str(path)), watch)
    return [read_dag(dag) for dag in answer["dags"]]


async def _ours(address: str, folder: Path) -> Found:
    place = WorkerContext(home=folder / "home", airflow_python=str(PYTHON))
    client = await Client.connect(address, plugins=[TidemillPlugin(worker_context=place)])
    queue = f"bench-{uuid.uuid4().hex[:8]}"
    found: Found = {}
    async with Worker(client, task_queue=queue):
        tidemill = Tidemill(client, queue)
        for spec in await asyncio.to_thread(_specs, place, folder):
            await tidemill.dags.register(spec)
        for dag_id, n in TASKS.items():
            await tidemill.runs.wait(await tidemill.runs.trigger(dag_id, TriggerRequest()))  # warm
            start, before = time.perf_counter(), _processor_of_tasks()
            await tidemill.runs.wait(await tidemill.runs.trigger(dag_id, TriggerRequest(run_id=uuid.uuid4().hex)))
            found[_per_task(dag_id)] = 1000 * (time.perf_counter() - start) / n
            found[f"{dag_id}, processor of the task's process, per task"] = 1000 * (_processor_of_tasks() - before) / n
        start = time.perf_counter()
        await tidemill.dags.pause("bench_missed", False)
        while sum(run.state.finished for run in await tidemill.runs.list("bench_missed")) < MISSED:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        found[PER_RUN] = 1000 * (time.perf_counter() - start) / MISSED
        found |= await _our_crons(tidemill)
    return found


async def _our_crons(tidemill: Tidemill) -> Found:
    await asyncio.sleep(62 - time.time() % 60)  # behind a tick: the next ones are waited for
    for dag_id in CRON_IDS:
        await tidemill.dags.pause(dag_id, False)
    since = datetime.now(UTC)
    await asyncio.sleep(60 * MINUTES)
    for dag_id in CRON_IDS:
        await tidemill.dags.pause(dag_id)
    runs, tasks = [], []
    for dag_id in CRON_IDS:
        for run in await tidemill.runs.list(dag_id):
            if run.run_after > since and run.started_at is not None:
                [task] = (await tidemill.runs.describe(dag_id, run.run_id)).tasks
                runs.append((run.started_at - run.run_after).total_seconds())
                if task.started_at is not None:
                    tasks.append((task.started_at - run.run_after).total_seconds())
    return _delays(runs, tasks)


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


def _theirs(home: Path) -> Found:
    sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "airflow")]
    from old_airflow import OldAirflow
    from postgresql import postgresql

    old = OldAirflow(home)
    found: Found = {}
    old.environment["AIRFLOW__CORE__EXECUTOR"] = "LocalExecutor"
    old.dags.mkdir(parents=True)
    (old.dags / "bench_airflow.py").write_text(FILE)
    with ExitStack() as stack:  # SQLite would hold the LocalExecutor's processes up
        database = stack.enter_context(postgresql())
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
            found[_per_task(dag_id)] = 1000 * (time.perf_counter() - start) / n
        start = time.perf_counter()
        _pause(api, "bench_missed", False)
        while _total(api, "bench_missed", "success") < MISSED:
            time.sleep(0.1)
        found[PER_RUN] = 1000 * (time.perf_counter() - start) / MISSED
        found |= _their_crons(api)
    return found


def _pause(api: httpx.Client, dag_id: str, paused: bool = True) -> None:
    api.patch(f"/dags/{dag_id}", json={"is_paused": paused}).raise_for_status()


def _total(api: httpx.Client, dag_id: str, state: str) -> int:
    return int(_get(api, f"/dags/{dag_id}/dagRuns", state=state, limit=1)["total_entries"])


def _get(api: httpx.Client, path: str, **query: Any) -> Any:
    return api.get(path, params=query).raise_for_status().json()


def _their_crons(api: httpx.Client) -> Found:
    time.sleep(62 - time.time() % 60)
    for dag_id in CRON_IDS:
        _pause(api, dag_id, False)
    since = datetime.now(UTC)
    time.sleep(60 * MINUTES)
    for dag_id in CRON_IDS:
        _pause(api, dag_id)
    runs, tasks = [], []
    for dag_id in CRON_IDS:
        for run in _get(api, f"/dags/{dag_id}/dagRuns", limit=100)["dag_runs"]:
            due = datetime.fromisoformat(run["run_after"])
            if due <= since or run["start_date"] is None:
                continue
            runs.append((datetime.fromisoformat(run["start_date"]) - due).total_seconds())
            of_run = _get(api, f"/dags/{dag_id}/dagRuns/{run['dag_run_id']}/taskInstances")["task_instances"]
            tasks += [
                (datetime.fromisoformat(t["start_date"]) - due).total_seconds() for t in of_run if t["start_date"]
            ]
    return _delays(runs, tasks)


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
    run_id, deadline = made.json()["dag_run_id"], time.monotonic() + TIMEOUT
    while api.get(f"/dags/{dag_id}/dagRuns/{run_id}").raise_for_status().json()["state"] not in ("success", "failed"):
        if time.monotonic() > deadline:
            sys.exit(f"Airflow has not ended {run_id} of {dag_id} within {TIMEOUT} s")
        time.sleep(0.05)
