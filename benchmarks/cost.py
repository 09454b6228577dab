"""What runs cost a Temporal service: actions, events and bytes of history, as Temporal Cloud bills them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from figures import Figure
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from tidemill.model.pool.state import PoolSettings
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import read_dag
from tidemill.worker.client import Tidemill

BILLED = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED: 1,
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED: 1,
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: 1,
    EventType.EVENT_TYPE_TIMER_STARTED: 1,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED: 1,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED: 1,
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES: 1,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW: 1,
}
"""Actions by event, as Temporal Cloud's documentation counts them; a child's start is two. Not in histories, and not
counted here: heartbeats (each that reaches the server is one), queries, and retries of activities by the server."""


@dataclass(frozen=True)
class Cost:
    """What has been written to histories."""

    actions: int
    events: int
    size: int

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.actions - other.actions, self.events - other.events, self.size - other.size)

    def per(self, n: int) -> tuple[float, float, float]:
        return self.actions / n, self.events / n, self.size / n


async def of_histories(client: Client, ids: list[str]) -> Cost:
    """The cost of all that these workflows have done, in all their executions."""
    counts: Counter[int] = Counter()
    size = 0
    for workflow_id in ids:
        async for history in executions(client, workflow_id):
            counts.update(event.event_type for event in history.events)
            size += sum(event.ByteSize() for event in history.events)
    return Cost(sum(BILLED.get(kind, 0) * n for kind, n in counts.items()), counts.total(), size)  # type: ignore[call-overload]


async def executions(client: Client, workflow_id: str) -> AsyncIterator[Any]:
    run_id: str | None = None
    while run_id != "":
        history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
        yield history
        run_id = history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id


def bash(task_id: str, command: str = "true", *upstream: str, **more: Any) -> dict[str, Any]:
    return {"kind": "bash", "task_id": task_id, "command": command, "upstream": [*upstream], **more}


async def run_cost(client: Client, tidemill: Tidemill, dag_id: str, tasks: list[dict[str, Any]], *also: str) -> Cost:
    """One manual run of a DAG of *tasks*: its own workflow, what it adds to the DAG's, and to *also*."""
    await tidemill.dags.register(read_dag({"dag_id": dag_id, "tasks": tasks}))
    first = await tidemill.runs.trigger(dag_id, TriggerRequest(run_id="first"))
    await tidemill.runs.wait(first)
    shared = [f"dag:{dag_id}", *also]
    before = await of_histories(client, shared)
    run = await tidemill.runs.trigger(dag_id, TriggerRequest(run_id="second"))
    await tidemill.runs.wait(run)
    await asyncio.sleep(1)  # what is told of its end is written
    return (await of_histories(client, [*shared, run.workflow_id])) - before


async def cost(client: Client, tidemill: Tidemill) -> list[Figure]:
    """By shape, beside a run of one task that does nothing."""
    empty = await run_cost(client, tidemill, "cost_empty", [{"kind": "empty", "task_id": "a"}])
    chain = [bash("t0"), *(bash(f"t{i}", "true", f"t{i - 1}") for i in range(1, 10))]
    tens = await run_cost(client, tidemill, "cost_chain", chain)
    fan = await run_cost(client, tidemill, "cost_fan", [bash(f"t{i}") for i in range(10)])
    one = await run_cost(client, tidemill, "cost_one", [bash("a")])
    retry = bash("a", 'test "{{ ti.try_number }}" = 4', retries=3, retry_delay=1)
    retried = await run_cost(client, tidemill, "cost_retry", [retry])
    await tidemill.pools.configure("cost", PoolSettings(slots=5))
    pooled = await run_cost(client, tidemill, "cost_pool", [bash(f"t{i}", pool="cost") for i in range(10)], "pool:cost")
    poke = {"kind": "bash_sensor", "task_id": "a", "command": "test {{ ti.try_number }} -gt 9", "poke_interval": 1}
    pokes = await run_cost(client, tidemill, "cost_pokes", [{**poke, "timeout": 10.5, "soft_fail": True}])
    idle = await idle_cost(client, tidemill)
    figures = []
    for name, (actions, events, size) in (
        ("a run, with one task that does nothing", empty.per(1)),
        ("each task of a chain of ten", (tens - empty).per(10)),
        ("each of ten tasks side by side", (fan - empty).per(10)),
        ("each further try of a task", (retried - one).per(3)),
        ("a task's slots of a pool, beside the task", (pooled - fan).per(10)),
        ("each poke of a sensor, of ten", (pokes - empty).per(10)),
        ("a DAG that waits for its next run, each minute", idle.per(1)),
    ):
        figures += [
            Figure(f"{name}: actions", "", actions),
            Figure(f"{name}: events", "", events),
            Figure(f"{name}: history", "B", size),
        ]
    return figures


async def idle_cost(client: Client, tidemill: Tidemill) -> Cost:
    """A minute of a DAG whose next run is tomorrow."""
    start = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    spec = {
        "dag_id": "cost_idle",
        "schedule": "@daily",
        "start_date": start,
        "tasks": [{"kind": "empty", "task_id": "a"}],
    }
    await tidemill.dags.register(read_dag(spec))
    await asyncio.sleep(10)  # the run that was due has ended
    assert all(run.state.finished for run in await tidemill.runs.list("cost_idle"))
    before = await of_histories(client, ["dag:cost_idle"])
    await asyncio.sleep(60)
    return (await of_histories(client, ["dag:cost_idle"])) - before
