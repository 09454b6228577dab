"""The service's store is brought back from a copy while a worker has more in memory than the copy has."""

import asyncio
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from forked_commands import forked
from support import Stack, dag, empty, eventually, free_port, stack, worker_environment
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from tidemill.activities.processes.supervised import start_supervised, stop
from tidemill.model.errors import InvalidInputError
from tidemill.model.pool.state import PoolSettings
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.views import RunView
from tidemill.model.spec.dag import read_dag
from tidemill.model.states import RunState
from tidemill.worker.app.dev import server_command, wait_until_ready
from tidemill.worker.supervision import store_watch
from tidemill.worker.supervision.repair import Standing, all_standing, failed_task, silent_tasks

pytestmark = pytest.mark.faults

TICKS = {
    "dag_id": "ticks",
    "schedule": "* * * * * */5",
    "max_active_runs": 3,
    "tasks": [{"kind": "bash", "task_id": "a", "command": "true", "pool": "few"}],
}


class Service:
    """A Temporal server whose store can be copied, and brought back."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._database, self._copy = folder / "temporal.db", folder / "copy.db"
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        folder.mkdir()

    async def start(self) -> None:
        """Returns when it answers."""
        command = server_command(port=self.port, database=self._database, ui_port=None)
        self._process = await asyncio.to_thread(start_supervised, self._folder, command, self._folder / "server.log")
        await wait_until_ready(self.address, self._process, self._folder / "server.log")

    async def stop(self) -> None:
        """As a machine that goes down."""
        await asyncio.to_thread(stop, self._process)

    def copy(self) -> None:
        """Copies the store as it is."""
        with closing(sqlite3.connect(self._database)) as source, closing(sqlite3.connect(self._copy)) as target:
            source.backup(target)

    async def bring_back(self) -> None:
        """Starts again with the copy."""
        await self.stop()
        for path in self._folder.glob("temporal.db*"):
            path.unlink()
        shutil.copy(self._copy, self._database)
        await self.start()


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    made = Service(tmp_path / "server")
    await made.start()
    yield made
    await made.stop()


@asynccontextmanager
async def restored(service: Service, home: Path) -> AsyncIterator[tuple[Stack, datetime]]:
    """A worker that has seen more runs of a DAG than the service knows now, and when the service was brought back."""
    async with stack(service.address, home) as here:
        await here.tidemill.pools.configure("few", PoolSettings(slots=2))
        await here.tidemill.dags.register(read_dag(TICKS))
        await ended(here, 2)
        await asyncio.to_thread(service.copy)
        await ended(here, 5)
        await service.bring_back()
        yield here, datetime.now(UTC)


async def ended(here: Stack, n: int, after: datetime | None = None) -> None:
    """Waits until *n* runs have ended well of dates that came *after*."""

    def enough(runs: list[RunView]) -> bool:
        good = [run for run in runs if run.state is RunState.SUCCESS and (after is None or run.run_after > after)]
        return len(good) >= n

    await eventually(lambda: here.tidemill.runs.list("ticks"), enough)


@pytest.mark.thorough
async def test_a_worker_sees_it_and_repairs_what_it_has_answered_since(
    service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with restored(service, tmp_path / "home") as (here, back):
        await ended(here, 3, after=back)
        await nothing_stands(here)
    assert "the service's store has gone back" in caplog.text


@pytest.mark.thorough
async def test_the_doctor_repairs_what_a_worker_has_left_that_has_ended(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # As by the end of the worker: what it has in memory is dropped, and nobody repairs what it has answered. Before
    # it has answered anything it is not to be dropped: then nothing stands.
    monkeypatch.setattr(store_watch, "standing_among", nothing)
    may_look, look = asyncio.Event(), store_watch.StoreWatch.look

    async def look_later(watch: store_watch.StoreWatch) -> None:
        if may_look.is_set():
            await look(watch)

    monkeypatch.setattr(store_watch.StoreWatch, "look", look_later)
    async with restored(service, tmp_path / "home") as (here, back):
        while (found := await standing_or_going_on(here, back)) is None:
            await service.bring_back()
            back = datetime.now(UTC)
        assert found.kind == "Dag"
        assert "ahead of the service's store" in found.problem
        may_look.set()
        await eventually(lambda: asyncio.sleep(0.2, caplog.text), lambda text: "store has gone back" in text)
        done = await repaired(here, "--yes")
        assert "dag:ticks" in done
        assert "were reset, and go on" in done
        await ended(here, 3, after=back)
        await nothing_stands(here)
        assert "no workflow stands still" in await repaired(here)


async def standing_or_going_on(here: Stack, back: datetime) -> Standing | None:
    """How `ticks` stands still; None where it goes on: what a worker was about to answer as the service went away, the
    SDK drops by itself."""

    async def look() -> tuple[list[Standing], bool]:
        standing = [one for one in await all_standing(here.tidemill.client) if one.workflow_id == "dag:ticks"]
        runs = [] if standing else await here.tidemill.runs.list("ticks")
        return standing, any(run.run_after > back and run.state is RunState.SUCCESS for run in runs)

    standing, _ = await eventually(look, any)
    return standing[0] if standing else None


async def nothing(*_: object) -> list[Standing]:
    return []


async def nothing_stands(here: Stack) -> None:
    assert await all_standing(here.tidemill.client) == []


async def repaired(here: Stack, *options: str) -> str:
    """What `tidemill doctor --repair` prints."""
    command = [forked(), "doctor", "--repair", *options]
    env = worker_environment(here.address, here.home, here.task_queue)
    told = await asyncio.to_thread(subprocess.run, command, env=env, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout


def history(*kinds: str) -> list[HistoryEvent]:
    """Events of *kinds*; a command of the workflow task before is `ordered`."""
    events: list[HistoryEvent] = []
    for number, kind in enumerate(kinds, 1):
        event = HistoryEvent(event_id=number)
        if kind == "completed":
            event.event_type = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
            event.workflow_task_completed_event_attributes.started_event_id = number - 1
        elif kind == "failed":
            event.event_type = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
        elif kind == "ordered":
            before = max(e.event_id for e in events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
            event.timer_started_event_attributes.workflow_task_completed_event_id = before
        events.append(event)
    return events


def test_tasks_without_orders_count_at_the_end_of_a_history_only() -> None:
    assert silent_tasks(history("started", "completed", "ordered")) == []
    assert silent_tasks(history("started", "completed", "started", "completed", "ordered")) == []
    later = history("started", "completed", "ordered", "started", "completed", "fired", "started", "completed")
    assert silent_tasks(later) == [(4, 5), (7, 8)]


def test_a_failed_task_counts_until_one_is_completed() -> None:
    assert failed_task(history("started", "completed", "started", "failed")) == 4
    assert failed_task(history("started", "failed", "started", "completed")) is None


async def test_what_people_do_every_day_looks_like_no_restored_store(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is deleted is unknown to the service, and a refused update came with a task that it does not keep."""
    monkeypatch.setattr(store_watch, "LOOKS_EVERY", 0.05)
    monkeypatch.setattr(store_watch, "SURE_AFTER", 0.05)
    async with stack(server, tmp_path / "home") as here:
        for dag_id in ("deleted", "refuses"):
            await here.run_once(dag(dag_id, [empty("a")]))
        await here.tidemill.dags.delete("deleted")
        await here.tidemill.runs.trigger("refuses", TriggerRequest(run_id="same"))
        for n in range(5):
            with pytest.raises(InvalidInputError):
                await here.tidemill.runs.trigger("refuses", TriggerRequest(run_id="same"))
            await here.tidemill.runs.trigger("refuses", TriggerRequest(run_id=f"other_{n}"))
        await here.tidemill.client.get_workflow_handle("dag:refuses").terminate()
        await asyncio.sleep(1)
    assert "gone back" not in caplog.text
    assert "could not be compared" not in caplog.text
