"""What tests share: a stack of real parts, and words for time and waiting."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar, cast

import psutil
from forked_commands import forked
from temporalio.client import Client
from temporalio.worker import Worker
from tidemill.activities.processes.call import CallEnd, Checks, ForkSettings
from tidemill.activities.processes.children import Children
from tidemill.activities.processes.forks import Forks
from tidemill.activities.processes.supervised import start_supervised, stop
from tidemill.activities.processes.users import RunAs
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.run.views import RunDetails, RunView
from tidemill.model.spec.dag import DagSpec, read_dag
from tidemill.worker.app.dev import free_port, server_command, wait_until_ready
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin
from tidemill.worker.service.connection import NotFoundError, NoWorkerError

T = TypeVar("T")
LAST_TICK = (datetime.now(UTC) - timedelta(hours=6)).replace(minute=0, second=0, microsecond=0)
"""The last tick of `EVERY_DAY`: hours ago, and the next one hours ahead, so that none falls due while tests run."""
EVERY_DAY = f"0 {LAST_TICK.hour} * * *"
"""A daily schedule that does not tick at midnight, which tests may run over."""


def at(text: str) -> datetime:
    """`at("2024-01-01")`, `at("2024-01-01 06:30")`: an instant in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def dag(dag_id: str, tasks: list[dict[str, Any]], **fields: Any) -> DagSpec:
    return read_dag({"dag_id": dag_id, "tasks": tasks, "heartbeat_timeout": 4, **fields})


def empty(task_id: str, *upstream: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "empty", "task_id": task_id, "upstream": list(upstream), **fields}


def bash(task_id: str, command: str, *upstream: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "bash", "task_id": task_id, "command": command, "upstream": list(upstream), **fields}


async def eventually(look: Callable[[], Awaitable[T]], wanted: Callable[[T], Any], within: float = 300) -> T:
    """What *look* finds as soon as it is *wanted*. Fails with the last thing found."""
    deadline = time.monotonic() + within
    found: Any = None
    while True:
        with contextlib.suppress(
            NoWorkerError, NotFoundError
        ):  # busy, or not there yet: asked again until the deadline
            found = await look()
            if wanted(found):
                return cast(T, found)
        assert time.monotonic() < deadline, f"still not so after {within} s: {found}"
        await asyncio.sleep(0.1)


ONE_PARTITION: dict[str, object] = {
    "matching.numTaskqueueReadPartitions": 1,
    "matching.numTaskqueueWritePartitions": 1,
}
"""Four are the default, each loaded for every worker of every test. Not for a database that had four: what waits in the
others would never be read."""


@contextmanager
def temporal_server(folder: Path, **config: object) -> Iterator[str]:
    """A real server with a database file, tuned as the embedded one is. Yields its address.

    Of another release where TEST_TEMPORAL_CLI names its command line, as `make temporal` does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = server_command(
        port=port, database=folder / "temporal.db", ui_port=None, config={**ONE_PARTITION, **config}
    )
    command[0] = os.environ.get("TEST_TEMPORAL_CLI", command[0])
    # A collection of garbage for each doubling would cost more time here than the memory is worth.
    process = start_supervised(folder, command, folder / "server.log", {**os.environ, "GOGC": "400"})
    try:
        address = f"127.0.0.1:{port}"
        with ThreadPoolExecutor(1) as elsewhere:  # the caller's own event loop may be running
            elsewhere.submit(asyncio.run, wait_until_ready(address, process, folder / "server.log")).result()
        yield address
    finally:
        stop(process)


@contextmanager
def suspended(folder: Path) -> Iterator[None]:
    """The server of `temporal_server(folder)` answers nobody as long as the block."""
    found = [one for one in processes_with(str(folder / "temporal.db")) if "temporal" in one.name()]
    assert found
    for process in found:
        process.suspend()
    try:
        yield
    finally:
        for process in found:
            process.resume()


def newest_wheel() -> Path:
    """Return the wheel of the last release."""
    wheels = Path(__file__).with_name("releases").joinpath("wheels").glob("tidemill-*.whl")
    return max(wheels, key=lambda path: [int(part) for part in path.name.split("-")[1].split(".")])


def unpacked(folder: Path) -> Path:
    """Unpack the last release into *folder*: `PYTHONPATH` of a worker that is to be of it."""
    with zipfile.ZipFile(newest_wheel()) as wheel:
        wheel.extractall(folder)
    return folder


@dataclass
class Stack:
    """A worker on a task queue of its own, and the way in to it."""

    tidemill: Tidemill
    address: str
    home: Path
    task_queue: str

    async def run_once(self, spec: DagSpec, **trigger: Any) -> RunDetails:
        """Registers *spec*, triggers one run and follows it to its end."""
        from tidemill.model.run.identity import TriggerRequest

        await self.tidemill.dags.register(spec)
        run = await self.tidemill.runs.trigger(spec.dag_id, TriggerRequest(**trigger))
        return await self.finished(spec.dag_id, run.run_id)

    async def finished(self, dag_id: str, run_id: str, within: float = 300) -> RunDetails:
        await eventually(lambda: self.tidemill.runs.find(dag_id, run_id), lambda run: run.state.finished, within)
        return await eventually(lambda: self.tidemill.runs.describe(dag_id, run_id), bool, within)

    async def all_finished(self, dag_id: str, n: int, within: float = 300) -> list[RunView]:
        """The runs of the DAG, oldest first, once there are *n* and all have ended."""
        runs = await eventually(
            lambda: self.tidemill.runs.list(dag_id),
            lambda found: len(found) >= n and all(run.state.finished for run in found),
            within,
        )
        return sorted(runs, key=lambda run: run.logical_date or run.run_after)

    async def result_of(self, details: RunDetails, key: str, xcom: str = "return_value") -> Any:
        """What an instance returned, or told as *xcom*; of a large result, where it is kept."""
        from tidemill.workflows.run.workflow import DagRunWorkflow

        handle = self.tidemill.client.get_workflow_handle_for(DagRunWorkflow.run, details.run.workflow_id)
        state = await handle.query(DagRunWorkflow.whole_state)
        return state.instances[key].xcom.get(xcom)

    def log_of(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        from tidemill.model.run.attempts import attempt_path

        return messages(self.home / "logs" / f"{attempt_path(dag_id, run_id, task_id, try_number)}.log")


def most_at_once(runs: list[RunDetails]) -> int:
    """How many tasks of *runs* ran at the same time, at most."""
    changes = [(task.started_at, 1) for run in runs for task in run.tasks if task.started_at is not None]
    changes += [(task.ended_at, -1) for run in runs for task in run.tasks if task.ended_at is not None]
    return max(accumulate(change for _, change in sorted(changes)))


def messages(log: Path) -> str:
    """What is in the log of an attempt, without the time and the level of each line."""
    return without_times(log.read_text())


def without_times(log: str) -> str:
    """What tasks have said: without what the worker says of the try's beginning and end."""
    said = re.sub(r"(?m)^\S+\+00:00 [A-Z]+ +", "", log)
    return re.sub(r"(?m)^(tidemill: .*, try \d+|task: command: .*|tidemill: the try has .*)(\n|\Z)", "", said)


class Over(Exception):  # noqa: N818
    """The worker that has begun a call is closed."""


@dataclass
class Lent:
    """A fork server that other workers use, too: what one of them has begun ends with it."""

    forks: Forks
    over: threading.Event

    def __getattr__(self, name: str) -> Any:
        return getattr(self.forks, name)

    def call(self, *arguments: Any, checks: Checks, **more: Any) -> CallEnd:
        """As `Forks.call`, until its worker is closed."""
        over = self.over

        class UntilOver:
            def check(self) -> None:
                if over.is_set():
                    raise Over
                checks.check()

        return self.forks.call(*arguments, checks=UntilOver(), **more)


class LentChildren(Children):
    """Fork servers that live as long as the process of the tests: each costs a second, or with Airflow several."""

    def __init__(self, shared: Children) -> None:
        self._shared, self._over = shared, threading.Event()

    def of(self, run_as: RunAs | None, airflow_python: str | None = None) -> Forks:
        """The one for code of *user*."""
        return cast(Forks, Lent(self._shared.of(run_as, airflow_python), self._over))

    def close(self) -> None:
        """Ends what this worker has begun."""
        self._over.set()


SHARED: dict[tuple[str, ...], Children] = {}
"""By what DAG files may read when they are imported: those of the last test that has set something are kept."""


def sharing(place: WorkerContext) -> WorkerContext:
    """*place* with fork servers that other tests use, too: for tests in which nobody ends or counts these."""
    set_by_test = sorted(f"{name}={value}" for name, value in os.environ.items() if re.match("TEST_|MODES_", name))
    key = (*place.environment, *set_by_test)
    if key not in SHARED:
        for other in [other for other in SHARED if set_by_test and len(other) > len(place.environment)]:
            SHARED.pop(other).close()
        home = Path(tempfile.mkdtemp(prefix="tidemill-tests-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        SHARED[key] = Children(ForkSettings(log=home / "dag_files.log", environment=place.environment), home)
        atexit.register(SHARED[key].close)
    place.__dict__["_children"] = LentChildren(SHARED[key])
    return place


@asynccontextmanager
async def stack(
    address: str,
    home: Path,
    *,
    cached: int = 100,
    place: WorkerContext | None = None,
    parallelism: int | None = None,
    **worker_options: Any,
) -> AsyncIterator[Stack]:
    task_queue = f"test-{uuid.uuid4().hex[:8]}"
    place = place or sharing(WorkerContext(home=home, environment=("TEST_*", "MODES_*")))
    client = await Client.connect(
        address, plugins=[TidemillPlugin(home, worker_context=place, parallelism=parallelism)]
    )
    async with patient(Worker(client, task_queue=task_queue, max_cached_workflows=cached, **worker_options)):
        made = Stack(Tidemill(client, task_queue), address, home, task_queue)
        try:
            yield made
        finally:
            await end_workflows(client, task_queue)
    await replay_all(client, task_queue, home)


def patient(worker: Worker) -> Worker:
    """*worker* with a longer watch for steps that hang.

    A worker's own two seconds of wall clock interrupt a large step on a starved machine. The server gives it another
    try, but the interruption may come up in whatever pytest does at that moment. It cannot be set by an argument.
    """
    inner = worker._workflow_worker
    assert inner is not None
    assert inner._deadlock_timeout_seconds == 2
    inner._deadlock_timeout_seconds = 60
    return worker


async def replay_all(client: Client, task_queue: str, home: Path) -> None:
    """Replays every workflow of a test, without a cache: what a worker does after a restart.

    What holds of every installation is checked on the way, after each step and of all histories together.
    """
    from properties.real import violated_by

    violated = await violated_by(client, f'TaskQueue = "{task_queue}"', home)
    assert not violated, "\n".join(violated[:5])


async def end_workflows(client: Client, task_queue: str) -> None:
    """Terminates what a test started, so that nothing of it wakes up under the next one.

    Lists lag, and what is ended may have started more meanwhile: until nothing is found.
    """
    running = f'TaskQueue = "{task_queue}" AND ExecutionStatus = "Running"'
    for _ in range(20):
        found = [each.id async for each in client.list_workflows(running)]
        if not found:
            return
        for workflow_id in found:
            with contextlib.suppress(Exception):
                await client.get_workflow_handle(workflow_id).terminate("the test is over")
        await asyncio.sleep(0.1)


def worker_environment(stack_address: str, home: Path, task_queue: str) -> dict[str, str]:
    """The environment of a `tidemill` command that works on a test's server."""
    return {
        **os.environ,
        "TEMPORAL_ADDRESS": stack_address,
        "TIDEMILL_HOME": str(home),
        "TIDEMILL_TASK_QUEUE": task_queue,
        "TIDEMILL_DRAIN_SECONDS": "0",
        "TIDEMILL_TASK_ENVIRONMENT": '["TEST_*"]',
        "COLUMNS": "200",
    }


@contextmanager
def worker_process(env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A `tidemill worker` process; killed at the end if the test has not."""
    command = [str(Path(sys.executable).with_name("tidemill")), "worker"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def processes_with(text: str) -> list[psutil.Process]:
    """Running processes that have *text* as a word in their command line or environment."""
    word = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")  # 4711 is not meant by a port 47110
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            told = [*process.cmdline(), *process.environ().values()]
            if process.status() != psutil.STATUS_ZOMBIE and any(word.search(part) for part in told):
                found.append(process)
    return [process for process in found if process.pid != psutil.Process().pid]


KILLING_WORKER = Path(__file__).parent / "workflows" / "killing_worker.py"


@contextmanager
def killing_worker(here: Stack, when: str, mark: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that ends itself once at the boundary *when*; *mark* tells that it did."""
    command = [
        sys.executable,
        "-P",
        str(KILLING_WORKER),
        here.address,
        str(here.home),
        here.task_queue,
        when,
        str(mark),
    ]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def run_command(here: Stack, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = worker_environment(here.address, here.home, here.task_queue)
    for _ in range(3):  # a busy machine may take longer than a command waits for a service's first word
        done = subprocess.run([forked(), *arguments], env=env, capture_output=True, text=True, timeout=60)
        if "no word within" not in done.stderr:
            break
    return done


def command(here: Stack, *arguments: str, code: int = 0) -> str:
    """What `tidemill` prints. Fails unless it ends with *code*."""
    done = run_command(here, *arguments)
    assert done.returncode == code, f"exit code {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout if code == 0 else done.stderr


async def told(here: Stack, *arguments: str, code: int = 0) -> Any:
    output = await asyncio.to_thread(command, here, *arguments, code=code)
    return json.loads(output) if "--json" in arguments else output
