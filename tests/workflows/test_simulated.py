"""The same small world by simulation, and by workflows on a server whose time is skipped: run by run the same."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support import dag, empty, eventually
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker
from tidemill.model.pool.state import PoolSettings
from tidemill.model.simulation.assumptions import Assumptions
from tidemill.model.simulation.simulate import simulate
from tidemill.model.spec.dag import DagSpec
from tidemill.model.states import RunState
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin
from time_skipping import time_skipping_server, with_skipped_time

HOURS = 14
SEEDS = range(1, 13)
"""Worlds drawn by chance; `make chaos` compares all of them."""
World = Callable[[datetime], list[DagSpec]]
Told = dict[tuple[str, str], tuple[datetime, datetime, RunState]]
POOLS = {"narrow": PoolSettings(slots=1, include_deferred=True)}
"""Tasks that wait keep its slots: none of these worlds has other work, which would take no skipped time."""


def wait(task_id: str, minutes: int, *upstream: str, **more: Any) -> dict[str, Any]:
    return {"kind": "wait_until", "task_id": task_id, "delta": 60 * minutes, "upstream": [*upstream], **more}


def world(begin: datetime) -> list[DagSpec]:
    """A DAG that falls behind, one that looks back at the run before, one with a limit over its runs, one whose runs
    time out, and two that share a pool."""
    often = {"schedule": "@hourly", "start_date": begin.isoformat(), "catchup": True}
    return [
        dag("behind", [wait("a", 30), wait("b", 100, "a"), empty("c", "b")], **often, max_active_runs=1),
        dag("looking_back", [wait("a", 90, depends_on_past=True), wait("b", 95)], **often, max_active_runs=3),
        dag("limited", [wait("a", 150, max_active_tis_per_dag=2)], **often, max_active_runs=4),
        dag("timed", [wait("a", 30), wait("b", 90, "a"), empty("c", "b")], **often, dagrun_timeout=3630),
        dag("sharing", [wait("a", 35, pool="narrow"), wait("b", 55, "a", pool="narrow")], **often, max_active_runs=2),
        dag("heavier", [wait("a", 25, pool="narrow", priority_weight=9)], **{**often, "schedule": "10 */3 * * *"}),
    ]


def drawn_world(seed: int, begin: datetime) -> list[DagSpec]:
    """Some DAGs by chance: chains and joins of waits of whole minutes, limits, catch-up and looks at the run before."""
    draw = Random(seed)
    specs = []
    for n in range(draw.randint(2, 4)):
        tasks = []
        for i in range(draw.randint(1, 5)):
            upstream = draw.sample([f"t{j}" for j in range(i)], draw.randint(0, min(i, 2)))
            more: dict[str, Any] = {"depends_on_past": True} if draw.random() < 0.25 else {}
            if draw.random() < 0.25:
                more["max_active_tis_per_dag"] = draw.randint(1, 2)
            tasks.append(wait(f"t{i}", draw.randint(10, 100), *upstream, **more))
        has_limits = any("max_active_tis_per_dag" in task for task in tasks)
        specs.append(
            dag(
                f"drawn_{n}",
                tasks,
                schedule=draw.choice(["@hourly", "*/40 * * * *", "20 */2 * * *"]),
                # Of runs that begin at the same moment either may get a limit's only slot: there are none with limits.
                start_date=(begin - timedelta(hours=0 if has_limits else draw.randint(0, 3))).isoformat(),
                catchup=draw.random() < 0.7,
                max_active_runs=draw.randint(1, 4),
                # Between whole minutes, at which all else happens.
                dagrun_timeout=draw.randint(45, 150) * 60 + 30 if draw.random() < 0.3 else None,
            )
        )
    return specs


async def really(folder: Path, world: World) -> tuple[datetime, datetime, Told]:
    """When the DAGs were registered on a server, the hour after that, and when their runs began and ended."""
    async with await WorkflowEnvironment.start_time_skipping(test_server_existing_path=time_skipping_server()) as env:
        client = await Client.connect(env.client.service_client.config.target_host, plugins=[TidemillPlugin(folder)])
        queue = f"simulated-{uuid.uuid4()}"
        tidemill = Tidemill(client, queue)
        registered = await env.get_current_time()
        begin = registered.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        async with Worker(client, task_queue=queue):
            for name, settings in POOLS.items():
                await tidemill.pools.configure(name, settings)
            for spec in world(begin):
                await tidemill.dags.register(spec)
            at_once = simulate(
                world(begin), registered, registered + timedelta(seconds=1), Assumptions(pools=POOLS)
            ).runs
            for spec in world(begin):  # before time goes on: it does not wait for activities
                first = {(run.run_id, run.state.finished) for run in at_once if run.dag_id == spec.dag_id}
                await eventually(partial(stages, tidemill, spec.dag_id), lambda found, first=first: first <= found)
            for hour in range(HOURS + 1):  # each answer has half a minute to come, on however busy a machine
                await env.sleep(begin + timedelta(hours=hour, minutes=1) - await env.get_current_time())
            views = [(spec.dag_id, run) for spec in world(begin) for run in await tidemill.runs.list(spec.dag_id)]
    return (
        registered,
        begin,
        {
            (dag_id, run.run_id): (run.started_at, run.ended_at, run.state)
            for dag_id, run in views
            if run.started_at is not None and run.ended_at is not None
        },
    )


async def stages(tidemill: Tidemill, dag_id: str) -> set[tuple[str, bool]]:
    return {(run.run_id, run.state.finished) for run in await tidemill.runs.list(dag_id)}


@pytest.mark.parametrize(
    ("world", "at_least"),
    [
        pytest.param(world, 50, id="chosen", marks=pytest.mark.thorough),
        *(
            pytest.param(
                partial(drawn_world, seed), 6, id=f"drawn {seed}", marks=[pytest.mark.long] if seed > 2 else []
            )
            for seed in SEEDS
        ),
    ],
)
async def test_a_small_world_is_the_same_by_both(tmp_path: Path, world: World, at_least: int) -> None:
    registered, begin, real = await with_skipped_time(lambda: really(tmp_path / uuid.uuid4().hex, world))
    end = begin + timedelta(hours=HOURS)
    simulated = simulate(world(begin), registered, end + timedelta(hours=1), Assumptions(pools=POOLS))
    expected = {
        (run.dag_id, run.run_id): (run.started_at, run.ended_at, run.state)
        for run in simulated.runs
        if run.started_at and run.ended_at and run.ended_at < end
    }
    assert len(expected) >= at_least
    second = timedelta(seconds=1)
    found = {key: told for key, told in real.items() if told[1] < end}
    assert found.keys() == expected.keys()
    for key, (started, ended, state) in expected.items():
        assert found[key][2] is state, key
        # On the server, answers and messages between workflows take some of its time.
        assert abs(found[key][0] - started) < 60 * second, key
        assert abs(found[key][1] - ended) < 60 * second, key
