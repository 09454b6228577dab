"""Assets in a storm: a chain and a diamond of DAGs that wake each other, and the proof that no event went astray.

The proof reads Temporal's histories alone: what each run was made for is in its input.
"""

import asyncio
import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from support import dag, empty
from temporalio.client import Client
from tidemill.model.spec.dag import DagSpec

CHAIN, SIDES = 10, 8
"""With the diamond's top and bottom, twenty DAGs."""
SOURCES = ("chain_0", "top")


def leaf(name: str) -> dict[str, Any]:
    return {"kind": "asset", "name": name}


def waiting(dag_id: str, names: list[str], outlet: str) -> DagSpec:
    condition = {"kind": "all", "of": [leaf(name) for name in names]}
    task = {**empty("only"), "outlets": [leaf(outlet)]}
    return dag(dag_id, [task], schedule={"kind": "asset", "condition": condition}, max_active_runs=2)


def asset_dags() -> dict[str, tuple[DagSpec, list[str]]]:
    """By dag_id, the DAG and the assets that it waits for."""
    sides = [f"side_{n}" for n in range(SIDES)]
    waits = {f"asset_chain_{n}": ([f"chain_{n}"], f"chain_{n + 1}") for n in range(CHAIN)}
    waits["asset_top"] = (["top"], "sides")
    waits |= {f"asset_{side}": (["sides"], side) for side in sides}
    waits["asset_bottom"] = (sides, "end")
    return {dag_id: (waiting(dag_id, names, outlet), names) for dag_id, (names, outlet) in waits.items()}


@dataclass
class AssetRuns:
    """What the runs of asset DAGs were made for, by dag_id, oldest first."""

    events: dict[str, list[list[dict[str, Any]]]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    async def read(cls, client: Client) -> "AssetRuns":
        found: dict[str, dict[str, Any]] = {}
        async for execution in client.list_workflows('WorkflowType = "DagRun" AND WorkflowId STARTS_WITH "run:asset_"'):
            handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
            async for event in handle.fetch_history_events(page_size=1):
                start = event.workflow_execution_started_event_attributes
                if not start.continued_execution_run_id:
                    assert execution.id not in found, f"{execution.id} was started twice"
                    found[execution.id] = json.loads(start.input.payloads[0].data)["run"]
                break
        runs = cls()
        for run in sorted(found.values(), key=lambda run: run["run_after"]):
            runs.events[run["dag_id"]].append(run.get("asset_events", []))
        return runs

    def violations(self, emitted: dict[str, list[str]]) -> list[str]:
        """What does not hold: every event taken, once, by each DAG that waits for it; none early; the oldest first."""
        told: list[str] = []
        for dag_id, (_, names) in asset_dags().items():
            runs = self.events[dag_id]
            left: dict[str, int] = {}
            for name in names:
                taken = [event["cause"] for events in runs for event in events if event["name"] == name]
                told += [f"{dag_id}: {cause} was taken {n} times" for cause, n in Counter(taken).items() if n > 1]
                if name in emitted:
                    if taken != emitted[name]:
                        told.append(f"{dag_id}: {name}: taken were {taken}, told were {emitted[name]}")
                else:
                    left[name] = self._made_by(name) - len({*taken})
            # Of a DAG that waits for several assets, what is left of some waits for another event of the others: a run
            # takes all events that are there, and may have taken their last ones with earlier events of these.
            if any(n < 0 for n in left.values()) or (left and all(left.values())):
                told.append(f"{dag_id}: taken were all events but {left}")
            early = sum({event["name"] for event in events} != {*names} for events in runs)
            if early:
                told.append(f"{dag_id}: {early} runs were made before all of {names} were there")
        return told

    def _made_by(self, name: str) -> int:
        """How many events an asset has had: one of each run of the DAG that writes it."""
        writers = [d for d, (spec, _) in asset_dags().items() if any(o.name == name for o in spec.tasks[0].outlets)]
        return sum(len(self.events[dag_id]) for dag_id in writers)


async def no_violations(client: Client, emitted: dict[str, list[str]], within: float) -> list[str]:
    """Waits until all holds; what does not in the end."""
    deadline = time.monotonic() + within
    while (told := (await AssetRuns.read(client)).violations(emitted)) and time.monotonic() < deadline:
        await asyncio.sleep(3)
    return told
