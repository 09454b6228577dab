"""What the planner costs: the same no-op activities as tasks of a DAG, and by hand. Neither starts a process."""

import asyncio
import time
import uuid
from statistics import median
from typing import Any

from figures import Figure
from floor import FloorChain, FloorChains, FloorFan
from temporalio.client import Client
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.planner import RunPlan
from tidemill.model.spec.dag import DagSpec, read_dag
from tidemill.model.states import TaskState
from tidemill.worker.client import Tidemill

ROUNDS = 3


def noop(task_id: str, *upstream: str, **fields: Any) -> dict[str, Any]:
    """The floor's own activity as a task."""
    return {
        "kind": "activity",
        "task_id": task_id,
        "activity_type": "floor.noop",
        "args": [0],
        "upstream": list(upstream),
        **fields,
    }


def chain(dag_id: str, n: int) -> DagSpec:
    tasks = [noop(f"t{i}", *([f"t{i - 1}"] if i else [])) for i in range(n)]
    return read_dag({"dag_id": dag_id, "tasks": tasks})


def fan(dag_id: str, n: int) -> DagSpec:
    tasks = [noop("first"), *(noop(f"t{i}", "first") for i in range(n)), noop("last", *(f"t{i}" for i in range(n)))]
    return read_dag({"dag_id": dag_id, "tasks": tasks, "max_active_tasks": 200})


def mapped(dag_id: str, n: int) -> DagSpec:
    each = noop("each", "first", expand={"by": {"priority_weight": [1] * n}, "into": "fields"})
    return read_dag({"dag_id": dag_id, "tasks": [noop("first"), each, noop("last", "each")], "max_active_tasks": 200})


async def shapes_of_tasks(client: Client, tidemill: Tidemill, queue: str) -> list[Figure]:
    """Chains and fans of in-thread no-ops."""

    async def by_hand(workflow: Any, n: int) -> float:
        start = time.perf_counter()
        await client.execute_workflow(workflow.run, n, id=uuid.uuid4().hex, task_queue=queue)
        return time.perf_counter() - start

    async def ours(dag_id: str, times: int = 1) -> float:
        start = time.perf_counter()
        runs = [await tidemill.runs.trigger(dag_id, TriggerRequest(run_id=uuid.uuid4().hex)) for _ in range(times)]
        await asyncio.gather(*(tidemill.runs.wait(run) for run in runs))
        return time.perf_counter() - start

    figures = []
    for name, spec, workflow, n, per, times in (
        ("chain of 20 in-thread no-ops", chain("bench_t20", 20), FloorChain, 20, 20, 1),
        ("chain of 100 in-thread no-ops", chain("bench_t100", 100), FloorChain, 100, 100, 1),
        ("1 -> 200 -> 1 in-thread no-ops", fan("bench_f200", 200), FloorFan, 200, 202, 1),
        ("1 -> 1,000 -> 1 in-thread no-ops", fan("bench_f1000", 1000), FloorFan, 1000, 1002, 1),
        ("1,000 mapped instances", mapped("bench_m1000", 1000), FloorFan, 1000, 1002, 1),
        ("10 runs x chain of 100 at once", chain("bench_10x100", 100), FloorChains, 10, 1000, 10),
    ):
        await tidemill.dags.register(spec)
        await by_hand(workflow, n), await ours(spec.dag_id, times)
        floor, mine = [], []
        for _ in range(ROUNDS):
            floor.append(await by_hand(workflow, n))
            mine.append(await ours(spec.dag_id, times))
        figures.append(Figure(f"{name}: per task", "ms", 1000 * median(mine) / per, 1000 * median(floor) / per))
    return figures + planner_steps()


def planner_steps() -> list[Figure]:
    """What one step of the planner takes, from ten tasks to five thousand: it should not depend on them."""
    figures = []
    for n in (10, 100, 1000, 5000):
        tasks = [{"kind": "empty", "task_id": f"t{i}", "upstream": [f"t{i - 1}"] if i else []} for i in range(n)]
        plan = RunPlan(read_dag({"dag_id": "steps", "tasks": tasks}), {f"t{i}": TaskState.NONE for i in range(n)})
        start = time.perf_counter()
        for i in range(n):
            plan.decide()
            plan.record(f"t{i}", TaskState.SUCCESS)
        figures.append(
            Figure(f"one step of the planner in a run of {n} tasks", "us", 1e6 * (time.perf_counter() - start) / n)
        )
    return figures
