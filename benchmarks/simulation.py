"""How long a simulation takes."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from figures import Figure
from tidemill.model.simulation.assumptions import Assumptions
from tidemill.model.simulation.world import simulate
from tidemill.model.spec.dag import DagSpec, read_dag

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def spec(dag_id: str, schedule: str, tasks: int) -> DagSpec:
    chain = [
        {"kind": "bash", "task_id": f"t{i}", "command": "true", "upstream": [f"t{i - 1}"] if i else []}
        for i in range(tasks)
    ]
    fields = {"start_date": BEGIN.isoformat(), "catchup": True, "tasks": chain}
    return read_dag({"dag_id": dag_id, "schedule": schedule, **fields})


def took(specs: list[DagSpec], days: int) -> tuple[float, int]:
    """Seconds, and how many runs there were."""
    begun = time.perf_counter()
    found = simulate(specs, BEGIN, BEGIN + timedelta(days=days), Assumptions())
    return time.perf_counter() - begun, len(found.runs)


async def simulation() -> list[Figure]:
    """A year of one DAG, and a day of many."""
    year, _ = took([spec("daily", "@daily", 3)], 365)
    hours, _ = took([spec("hourly", "@hourly", 3)], 365)
    day, runs = took([spec(f"hourly_{n}", "@hourly", 1) for n in range(1000)], 1)
    return [
        Figure("simulate: a year of a daily DAG of three tasks", "s", year),
        Figure("simulate: a year of an hourly DAG of three tasks", "s", hours),
        Figure(f"simulate: a day of 1,000 hourly DAGs ({runs:,} runs)", "s", day),
    ]
