"""A rolling upgrade and its rollback: the workers of the last release and of this one, by turns, under way with all.

`wheels/` keeps a wheel of each release; the last one is tested here. Nothing may fail, and each date runs once.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support import end_workflows, eventually, temporal_server, unpacked, worker_environment, worker_process
from temporalio.client import Client, WorkflowExecutionStatus
from tidemill.model.bundle.data import BundleSettings
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.errors import InvalidInputError
from tidemill.model.pool.state import PoolSettings
from tidemill.model.run.identity import TriggerRequest
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin

pytestmark = pytest.mark.thorough

TURN_SECONDS = 6
TURNS = 4
CHAINED, POOLED, BACKFILLED = 40, 30, 30
FILE = f"""
from datetime import datetime, timedelta, timezone
from tidemill import DAG, BashOperator, PythonSensor, task

START = datetime(2024, 1, 1, tzinfo=timezone.utc)
NOW = datetime.fromisoformat({datetime.now(UTC).isoformat()!r})
NO_END = None

with DAG("up_past", schedule="@daily", start_date=START, end_date=START + timedelta(days={CHAINED - 1}), catchup=True,
         max_active_runs=3, heartbeat_timeout=4):

    @task(depends_on_past=True)
    def first(ds=None):
        return ds

    @task(retries=2, retry_delay=timedelta(seconds=1))
    def second(day):
        return day + "!"

    second(first())

with DAG("up_pool", schedule="@daily", start_date=START, end_date=START + timedelta(days={POOLED - 1}), catchup=True,
         heartbeat_timeout=4):
    for n in range(3):
        BashOperator(task_id=f"in_pool_{{n}}", bash_command="sleep 0.2", pool="up_pool")

with DAG("up_seconds", schedule=timedelta(seconds=2), start_date=NOW, end_date=NO_END,
         heartbeat_timeout=4):

    @task
    def tick():
        return 1

    @task
    def twice(values):
        return len(values)

    @task
    def numbers():
        return [1, 2, 3]

    tick() >> twice.expand(values=[["a"], ["b"]])
    numbers()

with DAG("up_manual", heartbeat_timeout=4):
    PythonSensor(task_id="wait", python_callable=lambda: False, poke_interval=1, mode="reschedule", timeout=3600)

with DAG("up_backfill", schedule="@daily", start_date=START, catchup=False, heartbeat_timeout=4):
    BashOperator(task_id="a", bash_command="true")
"""


@asynccontextmanager
async def release(env: dict[str, str], installed: Path | None) -> AsyncIterator[None]:
    """A worker of the release that is unpacked at *installed*, or of this one, for a while."""
    old = {} if installed is None else {"PYTHONPATH": str(installed)}
    with worker_process({**env, **old}) as worker:
        await asyncio.sleep(TURN_SECONDS)
        yield
        worker.terminate()
        await asyncio.to_thread(worker.wait, 60)


@pytest.fixture
def last_release(tmp_path: Path) -> Path:
    return unpacked(tmp_path / "last")


@pytest.mark.parametrize("events", [4096, 60])
async def test_workers_of_two_releases_by_turns_lose_nothing_and_run_nothing_twice(
    tmp_path: Path, last_release: Path, events: int
) -> None:
    """*events*: after how many the server suggests to continue as new; either release acts on what the other began."""
    queue = f"test-{uuid.uuid4().hex[:8]}"
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "upgraded.py").write_text(FILE)
    suggest = {"limit.historyCount.suggestContinueAsNew": events}
    with temporal_server(tmp_path / "server", **suggest) as address:
        client = await Client.connect(address, plugins=[TidemillPlugin(tmp_path / "own")])
        tidemill = Tidemill(client, queue)
        env = worker_environment(address, tmp_path / "home", queue)
        try:
            await by_turns(tidemill, env, tmp_path, last_release)
            await everything_ended_once(tidemill)
        finally:
            await end_workflows(client, queue)


async def by_turns(tidemill: Tidemill, env: dict[str, str], folder: Path, last_release: Path) -> None:
    async with release(env, last_release):
        await tidemill.pools.configure("up_pool", PoolSettings(slots=2))
        at_once = timedelta()
        await tidemill.bundles.configure(
            BundleSettings(name="up", path=str(folder / "dags"), min_file_process_interval=at_once)
        )
        [file] = await eventually(lambda: tidemill.bundles.look("up"), bool)
        assert file.error is None
        await eventually(lambda: triggered(tidemill), bool)
        days = {"from_date": "2025-01-01T00:00:00Z", "to_date": datetime(2025, 1, BACKFILLED, tzinfo=UTC)}
        request = BackfillRequest(**days, max_active_runs=2)
        await eventually(lambda: tidemill.backfills.create("up_backfill", request), bool)
    for turn in range(TURNS):
        async with release(env, None if turn % 2 == 0 else last_release):
            if turn % 2 == 0:  # to the older one, what this release has marked does not answer
                await eventually(lambda: tidemill.dags.describe("up_past"), bool)
    with worker_process(env):
        end_the_cadence(folder / "dags" / "upgraded.py")
        await eventually(lambda: tidemill.bundles.look("up"), bool)
        for dag_id, runs in (("up_past", CHAINED), ("up_pool", POOLED), ("up_backfill", BACKFILLED)):
            await ended(tidemill, dag_id, runs)
        await eventually(
            lambda: tidemill.dags.describe("up_seconds"), lambda dag: "no more runs" in dag.next_dagrun_note
        )
        await ended(tidemill, "up_seconds", 1)
        view = await tidemill.bundles.describe("up")
        assert view.problem is None
        assert (await tidemill.runs.describe("up_manual", "waits")).state == "running"


def end_the_cadence(file: Path) -> None:
    """Has the DAG of every two seconds start no more runs; those under way end, which a paused DAG's would not."""
    now = datetime.now(UTC)
    file.write_text(FILE.replace("NO_END = None", f"NO_END = datetime.fromisoformat({now.isoformat()!r})"))


async def triggered(tidemill: Tidemill) -> bool:
    """Has the run that waits made, also if an answer is lost on a busy machine."""
    try:
        await tidemill.runs.trigger("up_manual", TriggerRequest(run_id="waits"))
    except InvalidInputError as error:
        return "is taken by run 'waits'" in str(error)
    return True


async def ended(tidemill: Tidemill, dag_id: str, runs: int) -> None:
    """Waits until nothing of the DAG is under way, and at least so many runs have ended."""
    found = await eventually(
        lambda: tidemill.runs.list(dag_id),
        lambda views: len(views) >= runs and not any(view.state in ("queued", "running") for view in views),
    )
    assert {str(view.state) for view in found} == {"success"}, [view.reason for view in found if view.reason]


async def everything_ended_once(tidemill: Tidemill) -> None:
    """As the server saw it: no workflow failed, and no date had two runs, or none."""
    dates: Counter[str] = Counter()
    bad: list[Any] = []
    fine = (
        WorkflowExecutionStatus.RUNNING,
        WorkflowExecutionStatus.COMPLETED,
        WorkflowExecutionStatus.CONTINUED_AS_NEW,
    )
    async for found in tidemill.client.list_workflows(f'TaskQueue = "{tidemill.task_queue}"'):
        if found.status not in fine:
            bad.append((found.id, found.status))
        if found.workflow_type == "DagRun" and found.status is WorkflowExecutionStatus.COMPLETED:
            dates[found.id] += 1
    assert not bad
    assert {id_: n for id_, n in dates.items() if n != 1} == {}
    days = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=n) for n in range(CHAINED)]
    assert all(f"run:up_past:{day.isoformat()}" in dates for day in days)
