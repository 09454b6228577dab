"""Judges a storm from Temporal's histories alone. Shares no code with the engine: plain JSON, plain arithmetic.

What has to hold afterwards: every expected run exactly once, none before its time, never more at once
than the limit lets in, none lost, no slot left occupied.
"""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from temporalio.client import Client


@dataclass
class Expected:
    """What a DAG has to have done: run ids by kind, and its limits."""

    scheduled: set[str] = field(default_factory=set)
    triggered: set[str] = field(default_factory=set)
    backfilled: set[str] = field(default_factory=set)
    max_active_runs: int = 16
    backfill_limit: int = 10


@dataclass
class Run:
    """One run as its histories tell of it."""

    dag_id: str
    key: str
    run_type: str
    run_after: datetime
    begun: datetime
    ended: datetime | None
    chains: int


@dataclass
class Verdict:
    """What was found: figures for the table, and every violation in words."""

    runs: int
    executions: int
    dag_executions: int
    violations: list[str]


async def judge(client: Client, expected: dict[str, Expected]) -> Verdict:
    executions = [e async for e in client.list_workflows('WorkflowType = "DagRun"')]
    by_id = defaultdict(list)
    for execution in executions:
        by_id[execution.id].append(execution)
    runs = [await read_run(client, workflow_id, found) for workflow_id, found in by_id.items()]
    dag_executions = [e async for e in client.list_workflows('WorkflowType = "Dag"')]
    violations = []
    for dag_id, wanted in expected.items():
        mine = [run for run in runs if run.dag_id == dag_id]
        violations += check_dag(dag_id, wanted, mine)
        handle = client.get_workflow_handle(f"dag:{dag_id}")
        view: dict[str, Any] = await handle.query("describe", result_type=dict)
        held = (view["active_runs"], view["queued_runs"])
        if held != (0, 0):
            violations.append(f"{dag_id}: slots are still held when all is over: {held}")
    return Verdict(len(runs), len(executions), len(dag_executions), violations)


def check_dag(dag_id: str, wanted: Expected, runs: list[Run]) -> list[str]:
    found = defaultdict(set)
    for run in runs:
        found[run.run_type].add(run.key)
    told = []
    for kind, keys in (("manual", wanted.triggered), ("backfill", wanted.backfilled), ("scheduled", wanted.scheduled)):
        missing, surplus = keys - found[kind], found[kind] - keys
        if missing:
            told.append(f"{dag_id}: {len(missing)} {kind} runs are missing, such as {min(missing)}")
        if surplus:
            told.append(f"{dag_id}: {len(surplus)} {kind} runs too many, such as {min(surplus)}")
    for run in runs:
        if run.chains != 1:
            told.append(f"{dag_id}: {run.key} was started {run.chains} times")
        if run.begun < run.run_after:
            told.append(f"{dag_id}: {run.key} began at {run.begun}, before {run.run_after}")
        if run.ended is None:
            told.append(f"{dag_id}: {run.key} never ended")
    for backfill, limit in ((False, wanted.max_active_runs), (True, wanted.backfill_limit)):
        most = overlap([run for run in runs if (run.run_type == "backfill") == backfill])
        if most > limit:
            told.append(f"{dag_id}: {most} runs at once, the limit is {limit} (backfill: {backfill})")
    return told


def overlap(runs: list[Run]) -> int:
    moments = [(run.begun, 1) for run in runs] + [(run.ended, -1) for run in runs if run.ended]
    level = most = 0
    for _, step in sorted(moments):
        level += step
        most = max(most, level)
    return most


async def read_run(client: Client, workflow_id: str, executions: list[Any]) -> Run:
    """A run from all its executions: it begins with the first and ends when it says so to its DAG."""
    begun, ended, chains, identity = None, None, 0, {}
    for execution in executions:
        handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
        history = await handle.fetch_history()
        start = history.events[0].workflow_execution_started_event_attributes
        if not start.continued_execution_run_id:
            chains += 1
            begun = history.events[0].event_time.ToDatetime(UTC)
            identity = json.loads(start.input.payloads[0].data)["run"]
        for event in history.events:
            if event.HasField("signal_external_workflow_execution_initiated_event_attributes"):
                ended = event.event_time.ToDatetime(UTC)
    assert begun is not None
    return Run(
        dag_id=identity["dag_id"],
        key=identity["logical_date"] if identity["run_type"] in ("scheduled", "backfill") else identity["run_id"],
        run_type=identity["run_type"],
        run_after=datetime.fromisoformat(identity["run_after"]),
        begun=begun,
        ended=ended,
        chains=chains,
    )
