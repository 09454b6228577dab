"""Backfills of DAGs."""

import builtins

from ...model.dag.backfill_request import BackfillRequest
from ...model.dag.backfills import BackfillPlan, BackfillProgress
from ...model.interfaces.dag import DagInterface
from .caller import Caller

BACKFILL_CHANGES = {
    "pause": DagInterface.pause_backfill,
    "unpause": DagInterface.unpause_backfill,
    "cancel": DagInterface.cancel_backfill,
}


class Backfills:
    """The backfills of DAGs."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(self, dag_id: str, request: BackfillRequest) -> BackfillPlan:
        """Runs the DAG over a range of the past; with `dry_run` only tells over what."""
        return await self._caller.change_dag(dag_id, DagInterface.create_backfill(request))

    async def change(self, dag_id: str, backfill_id: str, change: str) -> BackfillProgress:
        """Pauses, unpauses or cancels a backfill (*change* is "pause", "unpause" or "cancel")."""
        return await self._caller.change_dag(dag_id, BACKFILL_CHANGES[change](backfill_id))

    async def list(self, dag_id: str) -> builtins.list[BackfillProgress]:
        """The DAG's backfills, oldest first."""
        return await self._caller.ask_dag(dag_id, DagInterface.backfills())
