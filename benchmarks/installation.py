"""The shape of an installation: many DAG files with isolated Python tasks, and a worker in a process of its own."""

import asyncio
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
from figures import Figure
from scheduling import spread
from temporalio.client import Client, WorkflowExecution
from tidemill.model.bundle.data import BundleSettings
from tidemill.model.run.identity import TriggerRequest
from tidemill.worker.app.dev import DevServer
from tidemill.worker.client import Tidemill

FILES = 100
MISSED = 200
CRONS = 20
CRON_MINUTES = 3
IDLE = 200
IDLE_SECONDS = 30
TIMEOUT_SECONDS = 600

HEAD = "from datetime import datetime, timedelta, UTC\nfrom tidemill import DAG, Events, chain, task\n\n"
NOOP = "def noop():\n    return None\n\n"
CHAIN = HEAD + NOOP + (
    "with DAG({dag_id!r}, schedule={schedule}, **{fields}):\n"
    "    chain(*[task(task_id=f't{{i}}')(noop)() for i in range({n})])\n"
)  # fmt: skip
FAN = HEAD + NOOP + (
    "with DAG({dag_id!r}, max_active_tasks=200):\n"
    "    chain(task(task_id='first')(noop)(), [task(task_id=f't{{i}}')(noop)() for i in range({n})],\n"
    "          task(task_id='last')(noop)())\n"
)  # fmt: skip


class Installation:
    """A server, a worker process, and a folder of DAG files."""

    def __init__(self, client: Client, server: DevServer, place: Path) -> None:
        self.queue = f"installation-{uuid.uuid4().hex[:8]}"
        self.tidemill = Tidemill(client, self.queue)
        self.client = client
        self._server = server
        self._place = place

    @contextmanager
    def worker(self) -> Iterator[psutil.Process]:
        """A worker process, as long as the block."""
        env = {
            **os.environ,
            "TEMPORAL_ADDRESS": self._server.address,
            "TIDEMILL_HOME": str(self._place / "home"),
            "TIDEMILL_TASK_QUEUE": self.queue,
            "TIDEMILL_DRAIN_SECONDS": "0",
        }
        with (self._place / "worker.log").open("wb") as log:
            command = [str(Path(sys.executable).with_name("tidemill")), "worker"]
            process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
            try:
                yield psutil.Process(process.pid)
            finally:
                process.terminate()
                process.wait(60)

    async def files(self, name: str, texts: list[str]) -> str:
        """Registers a folder of files as a bundle; its name."""
        folder = self._place / name
        folder.mkdir()
        for number, text in enumerate(texts):
            (folder / f"file_{number}.py").write_text(text)
        settings = {
            "name": name,
            "path": str(folder),
            "parsing_processes": 4,
            "min_file_process_interval": timedelta(0),
        }
        await self.tidemill.bundles.configure(BundleSettings.model_validate(settings))
        await self.tidemill.bundles.look(name)
        view = await self.tidemill.bundles.describe(name)
        assert (view.files, view.errors) == (len(texts), 0), view
        return name

    async def runs(self, prefix: str, n: int) -> list[WorkflowExecution]:
        """The *n* runs of DAGs whose ids begin so, once all have ended."""
        query = f'WorkflowId STARTS_WITH "run:{prefix}"'
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            ended = await self.client.count_workflows(f"{query} AND ExecutionStatus != 'Running'")
            if ended.count >= n:
                return [found async for found in self.client.list_workflows(query)]
            await asyncio.sleep(0.2)
        raise TimeoutError(f"{prefix}: not {n} runs after {TIMEOUT_SECONDS} s")


async def installation(client: Client, server: DevServer, place: Path) -> list[Figure]:
    """All shapes, one after another, with one worker process."""
    here = Installation(client, server, place)
    with here.worker() as worker:
        figures = [*await _shapes_of_one(here, worker), *await _due_at_once(here, worker)]
        figures += [*await _chains(here, 10, 100), *await _chains(here, 100, 10)]
        figures += [*await _missed(here), *await _crons(here), *await _idle(here, worker)]
    return figures


async def _shapes_of_one(here: Installation, worker: psutil.Process) -> list[Figure]:
    label = uuid.uuid4().hex[:6]
    chain = CHAIN.format(dag_id=f"one_chain_{label}", schedule=None, fields={"max_active_tasks": 1}, n=20)
    await here.files(f"one-{label}", [chain, FAN.format(dag_id=f"one_fan_{label}", n=200)])
    figures = []
    for dag_id, tasks, what in ((f"one_chain_{label}", 20, "chain of 20"), (f"one_fan_{label}", 202, "1 -> 200 -> 1")):
        await _once(here, dag_id)
        used = cpu_seconds(worker)
        times = [await _once(here, dag_id) for _ in range(3)]
        busy = (cpu_seconds(worker) - used) / 3
        figures.append(Figure(f"{what}, isolated, worker of its own: per task", "ms", 1000 * min(times) / tasks))
        figures.append(
            Figure(f"{what}: processor time of the worker and its children per task", "ms", 1000 * busy / tasks)
        )
        figures.append(Figure(f"{what}: tasks a second", "/s", tasks / min(times)))
    return figures


async def _once(here: Installation, dag_id: str) -> float:
    start = time.perf_counter()
    run = await here.tidemill.runs.trigger(dag_id, TriggerRequest(run_id=uuid.uuid4().hex))
    await here.tidemill.runs.wait(run)
    return time.perf_counter() - start


async def _due_at_once(here: Installation, worker: psutil.Process) -> list[Figure]:
    label = uuid.uuid4().hex[:6]
    due = (datetime.now(UTC) + timedelta(seconds=45)).replace(microsecond=0)
    schedule = f"Events(event_dates=[datetime.fromisoformat({due.isoformat()!r})])"
    texts = [CHAIN.format(dag_id=f"due_{label}_{i}", schedule=schedule, fields={}, n=1) for i in range(FILES)]
    await here.files(f"due-{label}", texts)
    used = cpu_seconds(worker)
    runs = await here.runs(f"due_{label}", FILES)
    busy = cpu_seconds(worker) - used
    created = max(run.start_time for run in runs)
    ended = max(run.close_time for run in runs if run.close_time is not None)
    what = f"{FILES} one-task DAGs in {FILES} files, due at once"
    return [
        Figure(f"{what}: last run created", "s", (created - due).total_seconds()),
        Figure(f"{what}: last run ended", "s", (ended - due).total_seconds()),
        Figure(f"{what}: processor time of the worker and its children", "s", busy),
    ]


async def _chains(here: Installation, files: int, length: int) -> list[Figure]:
    label = uuid.uuid4().hex[:6]
    texts = [CHAIN.format(dag_id=f"ch_{label}_{i}", schedule=None, fields={}, n=length) for i in range(files)]
    await here.files(f"ch-{label}", texts)
    start = time.perf_counter()
    await asyncio.gather(*(here.tidemill.runs.trigger(f"ch_{label}_{i}") for i in range(files)))
    await here.runs(f"ch_{label}", files)
    took = time.perf_counter() - start
    what = f"{files} x chain of {length} in {files} files"
    return [Figure(f"{what}: until all have ended", "s", took), Figure(what, "tasks/s", files * length / took)]


async def _missed(here: Installation) -> list[Figure]:
    label = uuid.uuid4().hex[:6]
    first = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=MISSED)
    end = first + timedelta(minutes=MISSED - 1)
    fields = {"start_date": first.isoformat(), "end_date": end.isoformat(), "catchup": True, "max_active_runs": 16}
    text = CHAIN.format(dag_id=f"missed_{label}", schedule="timedelta(minutes=1)", fields=fields, n=1)
    text = text.replace(f"'{first.isoformat()}'", f"datetime.fromisoformat({first.isoformat()!r})")
    text = text.replace(f"'{end.isoformat()}'", f"datetime.fromisoformat({end.isoformat()!r})")
    start = time.perf_counter()
    await here.files(f"missed-{label}", [text])
    await here.runs(f"missed_{label}", MISSED)
    return [Figure(f"{MISSED} missed runs, 16 at once", "runs/s", MISSED / (time.perf_counter() - start))]


async def _crons(here: Installation) -> list[Figure]:
    label = uuid.uuid4().hex[:6]
    texts = [CHAIN.format(dag_id=f"cron_{label}_{i}", schedule="'* * * * *'", fields={}, n=1) for i in range(CRONS)]
    await here.files(f"cron-{label}", texts)
    await here.runs(f"cron_{label}", CRONS * (CRON_MINUTES + 1))
    runs, tasks = [], []
    for i in range(CRONS):
        for run in (await here.tidemill.runs.list(f"cron_{label}_{i}"))[:CRON_MINUTES]:
            details = await here.tidemill.runs.describe_workflow(run.workflow_id)
            started = details.tasks[0].started_at
            if details.started_at is not None and started is not None:
                runs.append((details.started_at - run.run_after).total_seconds())
                tasks.append((started - run.run_after).total_seconds())
        await here.tidemill.dags.pause(f"cron_{label}_{i}")
    what = f"{CRONS} one-minute crons in {CRONS} files"
    return [
        Figure(f"{what}: {part} after due, {name}", "s", value)
        for part, delays in (("run starts", runs), ("first task starts", tasks))
        for name, value in zip(("p50", "p99"), spread(sorted(delays)), strict=True)
    ]


async def _idle(here: Installation, worker: psutil.Process) -> list[Figure]:
    label = uuid.uuid4().hex[:6]
    texts = [CHAIN.format(dag_id=f"idle_{label}_{i}", schedule="'@yearly'", fields={}, n=1) for i in range(IDLE)]
    await here.files(f"idle-{label}", texts)
    await asyncio.sleep(10)
    used = cpu_seconds(worker)
    await asyncio.sleep(IDLE_SECONDS)
    busy = cpu_seconds(worker) - used
    return [
        Figure(
            f"{IDLE} idle DAGs in {IDLE} files: processor of the worker and its children",
            "%",
            100 * busy / IDLE_SECONDS,
        ),
        Figure(f"{IDLE} idle DAGs in {IDLE} files: proportional memory of the same", "MiB", pss_megabytes(worker)),
    ]


def cpu_seconds(process: psutil.Process) -> float:
    """What *process*, its children and those that have ended have used of processors."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        try:
            times = each.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def pss_megabytes(process: psutil.Process) -> float:
    total = 0
    for each in (process, *process.children(recursive=True)):
        try:
            total += each.memory_full_info().pss
        except psutil.Error:
            continue
    return total / 2**20
