"""How long a simulation takes."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from figures import Figure
from tidemill.model.simulation.assumptions import Assumptions
from tidemill.model.simulation.load import tasks_that_run
from tidemill.model.simulation.simulate import simulate
from tidemill.model.simulation.summary import summaries
from tidemill.model.spec.dag import DagSpec, read_dag

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def spec(dag_id: str, schedule: str, tasks: int) -> DagSpec:
    chain = [
        {"kind": "bash", "task_id": f"t{i}", "command": "true", "upstream": [f"t{i - 1}"] if i else []}
        for i in range(tasks)
    ]
    fields = {"start_date": BEGIN.isoformat(), "catchup": True, "tasks": chain}
    return read_dag({"dag_id": dag_id, "schedule": schedule, **fields})


def took(specs: list[DagSpec], days: int, **assumed: Any) -> tuple[float, int]:
    """Seconds until all that `tidemill simulate` tells is there, and how many runs there were."""
    begun = time.perf_counter()
    found = simulate(specs, BEGIN, BEGIN + timedelta(days=days), Assumptions(**assumed))
    runs = sum(summary.runs for summary in summaries(found))
    tasks_that_run(found)
    return time.perf_counter() - begun, runs


async def simulation() -> list[Figure]:
    """A year of one DAG, and of many: alike, at different minutes, and with too few workers for all at once."""
    year, _ = took([spec("daily", "@daily", 3)], 365)
    hours, _ = took([spec("hourly", "@hourly", 3)], 365)
    alike, runs = took([spec(f"hourly_{n}", "@hourly", 1) for n in range(1000)], 365)
    minutes, _ = took([spec(f"hourly_{n}", f"{n % 60} * * * *", 3) for n in range(1000)], 365)
    short, _ = took([spec(f"hourly_{n}", "@hourly", 1) for n in range(1000)], 365, worker_slots=100)
    return [
        Figure("simulate: a year of a daily DAG of three tasks", "s", year),
        Figure("simulate: a year of an hourly DAG of three tasks", "s", hours),
        Figure(f"simulate: a year of 1,000 hourly DAGs ({runs:,} runs)", "s", alike),
        Figure("simulate: the same, of three tasks, at each minute of the hour", "s", minutes),
        Figure("simulate: the same with room for 100 tasks at a time", "s", short),
    ]
