"""A worker that runs Airflow's tasks is killed at each boundary of a task: one end, by the right way."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from airflow_stack import DAGS, PYTHON, airflow_place, needs_airflow, read_file
from support import Stack, end_workflows, eventually, replay_all, worker_environment, worker_process
from temporalio.client import Client
from tidemill.model.run.identity import TriggerRequest
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin

pytestmark = needs_airflow


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
async def alone(server: str, tmp_path: Path) -> AsyncIterator[tuple[Stack, dict[str, str]]]:
    """A way in to a task queue that no worker polls yet, and the environment of those that will."""
    queue, home = f"test-{uuid.uuid4().hex[:8]}", tmp_path / "home"
    out = tmp_path / "out"
    out.mkdir()
    client = await Client.connect(server, plugins=[TidemillPlugin(home)])
    env = worker_environment(server, home, queue)
    env |= {"TIDEMILL_AIRFLOW_PYTHON": str(PYTHON), "TEST_OUT": str(out)}
    try:
        yield Stack(Tidemill(client, queue), server, home, queue), env
    finally:
        await end_workflows(client, queue)
    await replay_all(client, queue, home)


async def test_a_process_that_ends_in_a_callback_changes_nothing(alone: tuple[Stack, dict[str, str]]) -> None:
    """The task has succeeded by then, and its one effect is there."""
    stack, env = alone
    out = Path(env["TEST_OUT"])
    place = airflow_place(stack.home)
    try:
        spec = (await asyncio.to_thread(read_file, place, DAGS / "killed_at.py"))["killed_leaving"]
    finally:
        place.close()
    with worker_process(env):
        await stack.tidemill.dags.register(spec)
        run = await stack.tidemill.runs.trigger(spec.dag_id, TriggerRequest())
        details = await stack.finished(spec.dag_id, run.run_id)
    assert [(str(task.state), task.try_number) for task in details.tasks] == [("success", 1)]
    assert lines(out / "leaving.ended") == ["1"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("running", marks=pytest.mark.long),
        "deferred",
        "resuming",
        pytest.param("calling", marks=pytest.mark.long),
    ],
)
async def test_a_killed_worker_costs_no_try_and_ends_nothing_twice(
    alone: tuple[Stack, dict[str, str]], moment: str
) -> None:
    stack, env = alone
    out = Path(env["TEST_OUT"])
    place = airflow_place(stack.home)
    try:
        spec = (await asyncio.to_thread(read_file, place, DAGS / "killed_at.py"))[f"killed_{moment}"]
    finally:
        place.close()
    spec = spec.model_copy(update={"heartbeat_timeout": spec.heartbeat_timeout.__class__(seconds=4)})
    with worker_process(env) as first:
        await stack.tidemill.dags.register(spec)
        run = await stack.tidemill.runs.trigger(spec.dag_id, TriggerRequest())
        await eventually(lambda: asyncio.to_thread(lines, out / f"{moment}.reached"), bool)
        os.kill(first.pid, signal.SIGKILL)
    (out / "go").touch()
    with worker_process(env):
        details = await stack.finished(spec.dag_id, run.run_id)
        assert [str(task.state) for task in details.tasks] == ["success"]
        assert details.tasks[0].try_number == 1
    assert lines(out / f"{moment}.ended") == ["1"]
    assert lines(out / f"{moment}.told") == ["success"]  # its callback, once
