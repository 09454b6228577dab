"""The same small world by simulation, and by workflows on a server whose time is skipped: run by run the same."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from support import dag, empty
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker
from tidemill.model.simulation.assumptions import Assumptions
from tidemill.model.simulation.world import simulate
from tidemill.model.spec.dag import DagSpec
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin
from time_skipping import time_skipping_server, with_skipped_time

HOURS = 14
Told = dict[tuple[str, str], tuple[datetime, datetime]]


def wait(task_id: str, minutes: int, *upstream: str, **more: Any) -> dict[str, Any]:
    return {"kind": "wait_until", "task_id": task_id, "delta": 60 * minutes, "upstream": [*upstream], **more}


def world(begin: datetime) -> list[DagSpec]:
    """A DAG that falls behind, one that looks back at the run before, and one with a limit over its runs."""
    often = {"schedule": "@hourly", "start_date": begin.isoformat(), "catchup": True}
    return [
        dag("behind", [wait("a", 30), wait("b", 100, "a"), empty("c", "b")], **often, max_active_runs=1),
        dag("looking_back", [wait("a", 90, depends_on_past=True), wait("b", 95)], **often, max_active_runs=3),
        dag("limited", [wait("a", 150, max_active_tis_per_dag=2)], **often, max_active_runs=4),
    ]


async def really(folder: Path) -> tuple[datetime, Told]:
    """When the runs began and ended on a server."""
    async with await WorkflowEnvironment.start_time_skipping(test_server_existing_path=time_skipping_server()) as env:
        client = await Client.connect(env.client.service_client.config.target_host, plugins=[TidemillPlugin(folder)])
        queue = f"simulated-{uuid.uuid4()}"
        tidemill = Tidemill(client, queue)
        begin = (await env.get_current_time()).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        async with Worker(client, task_queue=queue):
            for spec in world(begin):
                await tidemill.register(spec)
            await env.sleep(begin + timedelta(hours=HOURS, minutes=1) - await env.get_current_time())
            views = [(spec.dag_id, run) for spec in world(begin) for run in await tidemill.runs(spec.dag_id)]
    return begin, {
        (dag_id, run.run_id): (run.started_at, run.ended_at)
        for dag_id, run in views
        if run.started_at is not None and run.ended_at is not None
    }


async def test_a_small_world_is_the_same_by_both(tmp_path: Path) -> None:
    begin, real = await with_skipped_time(lambda: really(tmp_path / uuid.uuid4().hex))
    end = begin + timedelta(hours=HOURS)
    simulated = simulate(world(begin), begin, end + timedelta(hours=1), Assumptions())
    expected = {
        (run.dag_id, run.run_id): (run.started_at, run.ended_at)
        for run in simulated.runs
        if run.started_at and run.ended_at and run.ended_at < end
    }
    assert len(expected) > 25
    second = timedelta(seconds=1)
    found = {key: (told[0], told[1]) for key, told in real.items() if told[1] < end}
    assert found.keys() == expected.keys()
    for key, (started, ended) in expected.items():
        # On the server, answers and messages between workflows take some of its time.
        assert abs(found[key][0] - started) < 60 * second, key
        assert abs(found[key][1] - ended) < 60 * second, key
