"""A worker whose clock is minutes ahead or behind, and is set while it works: dates and limits are the service's."""

from __future__ import annotations

import asyncio
import shutil
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from support import Stack, bash, dag, eventually, worker_environment, worker_process
from temporalio.client import Client
from tidemill.model.run.views import RunView
from tidemill.worker.client import Tidemill
from tidemill.worker.service.converter import ModelsPlugin

pytestmark = [pytest.mark.faults, pytest.mark.long]

EVERY_FIVE_SECONDS = {"schedule": "* * * * * */5", "catchup": True}
"""With catchup, no date is passed over where the step itself takes a worker's time."""


@pytest.fixture
def library() -> str:
    """libfaketime, by which a process sees another time."""
    faketime = shutil.which("faketime")
    found = [*Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")]
    if faketime is None or not found:
        pytest.skip("libfaketime is not installed")
    return str(found[0])


@pytest.mark.parametrize(("clock", "then"), [("+600", "-600"), ("-600", "+600")])
async def test_no_date_is_early_and_no_limit_too_short(
    server: str, tmp_path: Path, library: str, clock: str, then: str
) -> None:
    queue = f"clocks_{clock.strip('+')}"
    client = await Client.connect(server, plugins=[ModelsPlugin()])
    stack = Stack(Tidemill(client, queue), server, tmp_path / "home", queue)
    ticks, long_task = f"ticks_{queue}", f"long_{queue}"
    setting = tmp_path / "clock"
    setting.write_text(clock)
    env = {
        **worker_environment(server, stack.home, stack.task_queue),
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(setting),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }

    async def ended(n: int) -> list[RunView]:
        return await eventually(
            lambda: stack.tidemill.runs.list(ticks),
            lambda runs: sum(str(run.state) == "success" for run in runs) >= n,
            120,
        )

    with worker_process(env):
        long = dag(
            long_task,
            [bash("sleeps", "sleep 15", execution_timeout="PT60S", retries=1)],
            heartbeat_timeout="PT10S",
        )
        await stack.tidemill.dags.register(long)
        await stack.tidemill.dags.register(
            dag(ticks, [bash("a", "true")], **EVERY_FIVE_SECONDS, start_date=datetime.now(UTC))
        )
        run = await stack.tidemill.runs.trigger(long_task)
        await ended(2)
        await asyncio.to_thread(setting.write_text, then)
        details = await stack.finished(long_task, run.run_id)
        runs = await ended(len(await stack.tidemill.runs.list(ticks)) + 2)
    assert [(str(task.state), task.try_number) for task in details.tasks] == [("success", 1)]
    runs.sort(key=lambda run: run.run_after)
    assert all(run.started_at >= run.run_after for run in runs if run.started_at is not None)
    assert {(after.run_after - before.run_after).total_seconds() for before, after in pairwise(runs)} == {5}
