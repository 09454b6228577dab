"""Runs of other DAGs that a task of Airflow's starts while it runs: one for each try, however often that begins."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...model.base import to_utc
from ...model.errors import InvalidInputError
from ...model.run.attempts import TaskAttempt
from ..dag_handle import DagHandle
from ..workflow_caller import WorkflowCaller
from .key_values import KeyValues

TRIGGERS, CLEARS = "triggers", "clears"
"""What a try has begun to do about a run."""


@dataclass(frozen=True)
class RunStarts:
    """Starts runs with the worker's client. *key_values* knows which of them a try has begun to start."""

    caller: WorkflowCaller
    key_values: KeyValues

    async def start(self, attempt: TaskAttempt, wanted: dict[str, Any]) -> dict[str, Any]:
        """Starts the run, or clears one that is there if that is wanted: `exists`, an `error`, or nothing."""
        try:
            return await self._start(attempt, wanted, DagHandle(self.caller, wanted["dag_id"]))
        except InvalidInputError as error:
            return {"error": str(error)}

    async def _start(self, attempt: TaskAttempt, wanted: dict[str, Any], dag: DagHandle) -> dict[str, Any]:
        run_id, scope = wanted["run_id"], f"{attempt.path}/{attempt.uuid}"
        date = to_utc(datetime.fromisoformat(wanted["logical_date"])) if wanted.get("logical_date") else None
        held = await dag.run(run_id, date)
        begun = (await asyncio.to_thread(self.key_values.get, scope, run_id)).get("value")
        if held is not None and begun == TRIGGERS:
            return {}
        if held is not None and not wanted.get("reset_dag_run"):
            return {"exists": True}
        await asyncio.to_thread(self.key_values.put, scope, run_id, TRIGGERS if held is None else CLEARS)
        if held is not None:  # asked again, it is not done again
            await dag.clear(held, f"reset/{attempt.uuid}/{run_id}")
        else:
            names = ("run_id", "logical_date", "run_after", "conf")
            request = {name: wanted[name] for name in names if wanted.get(name) is not None}
            await dag.trigger({"logical_date": None, **request})
        return {}
