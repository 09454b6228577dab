"""What a server knows for a simulation: its DAGs, where their schedules stand, how long their tasks took, its pools."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from ...model.pool.state import PoolSettings
from ...model.run.views import RunDetails
from ...model.simulation.learning import durations_of
from ...model.spec.dag import DagSpec
from ...model.spec.timetables import Custom, DataInterval
from ...model.states import RunState
from ..client import Tidemill
from ..service.connection import NotFoundError

RUNS_LOOKED_AT = 10
"""Of each DAG, so many of its last successful runs."""
AT_ONCE = 20
"""DAGs that are asked at a time."""


@dataclass(frozen=True)
class SimulationInput:
    """What the simulation begins with."""

    specs: list[DagSpec] = field(default_factory=list)
    last_intervals: dict[str, DataInterval] = field(default_factory=dict)
    durations: dict[str, timedelta] = field(default_factory=dict)
    pools: dict[str, PoolSettings] = field(default_factory=dict)
    dag_ids: list[str] = field(default_factory=list)
    """All DAGs that are registered, whether they are simulated or not."""
    left_out: dict[str, str] = field(default_factory=dict)
    """By DAG, why it is none of them."""


async def simulation_input(wanted: set[str]) -> SimulationInput:
    """The DAGs that make runs: neither paused, stale nor broken; or those of *wanted*, whatever they are."""
    tidemill = await Tidemill.connect()
    rows, _ = await tidemill.dags.list()
    dag_ids = [row.dag_id for row in rows if (row.dag_id in wanted if wanted else row.status == "active")]
    room = asyncio.Semaphore(AT_ONCE)

    async def read(dag_id: str) -> SimulationInput:
        async with room:
            return await _of_dag(tidemill, dag_id)

    found = SimulationInput(dag_ids=[row.dag_id for row in rows])
    for one in await asyncio.gather(*map(read, dag_ids)):
        found.specs.extend(one.specs)
        found.last_intervals.update(one.last_intervals)
        found.durations.update(one.durations)
        found.left_out.update(one.left_out)
    for pool in await tidemill.pools.list():
        found.pools[pool.name] = pool.settings
    return found


async def _of_dag(tidemill: Tidemill, dag_id: str) -> SimulationInput:
    """What is known of one DAG."""
    try:
        spec, view = await tidemill.dags.spec(dag_id), await tidemill.dags.describe(dag_id)
    except NotFoundError as error:  # ended meanwhile
        return SimulationInput(left_out={dag_id: str(error)})
    if isinstance(spec.schedule, Custom):
        return SimulationInput(left_out={dag_id: "its timetable is a class of its own"})
    last = view.last_automated_interval
    return SimulationInput(
        specs=[spec],
        last_intervals={dag_id: last} if last is not None else {},
        durations=durations_of(await _last_runs(tidemill, dag_id)),
    )


async def _last_runs(tidemill: Tidemill, dag_id: str) -> list[RunDetails]:
    ended = [view for view in await tidemill.runs.list(dag_id) if view.state is RunState.SUCCESS]
    found = []
    for view in ended[:RUNS_LOOKED_AT]:
        with suppress(NotFoundError):  # Temporal has forgotten it
            found.append(await tidemill.runs.describe_workflow(view.workflow_id))
    return found
