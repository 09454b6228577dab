"""DAGs: registers, pauses, explains and deletes them."""

import builtins
from contextlib import suppress
from datetime import datetime

from temporalio.service import RPCError

from ...activities.bundles.register_dag import register_dag
from ...activities.calling import signal
from ...model.asset.gathering import Gathered, Unqueue
from ...model.asset.state import Tie
from ...model.bundle.data import bundle_workflow_id
from ...model.dag.assets import wanted_ties
from ...model.dag.assignment import Assignment
from ...model.dag.explaining import Explanation
from ...model.dag.hand_over import HandOver
from ...model.dag.previews import Preview
from ...model.dag.row import DagRow
from ...model.dag.ticks import Ticks
from ...model.dag.views import DagView, Registration
from ...model.errors import InUseError
from ...model.interfaces.asset import AssetInterface
from ...model.interfaces.bundle import BundleInterface
from ...model.interfaces.dag import DagInterface
from ...model.spec.dag import DagSpec
from ...model.spec.timetables import DagRunInfo
from ...model.states import RunState
from ..service.connection import UPDATE_TIMEOUT, EndedError, clear_errors
from ..service.deleting import delete_histories, until_forgotten
from ..service.listing import dag_rows
from .caller import Caller


class Dags:
    """The DAGs of an installation."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def register(self, spec: DagSpec) -> Registration:
        """Registers a DAG, or puts its new version in place."""
        async with clear_errors(f"DAG {spec.dag_id!r}", self._caller.task_queue):
            return await register_dag(self._caller.client, spec, self._caller.task_queue, rpc_timeout=UPDATE_TIMEOUT)

    async def pause(self, dag_id: str, paused: bool = True) -> None:
        """Stops the making of runs, or lets it go on. Runs that have started go on either way."""
        async with clear_errors(f"DAG {dag_id!r}", self._caller.task_queue):
            await signal(self._caller.dag(dag_id), DagInterface.pause() if paused else DagInterface.unpause())

    async def take_over(self, dag_id: str, handed: HandOver) -> bool:
        """Has a DAG go on after the last run that another scheduler has made. False if it did already."""
        return await self._caller.change_dag(dag_id, DagInterface.take_over(handed))

    async def assign(self, dag_id: str, bundle: str | None) -> bool:
        """Have one bundle alone, or with None no bundle, register a DAG from now on. False if it was so already.

        Raises NotFoundError for a bundle, or a DAG, that there is not.
        """
        if bundle is not None:
            await self._caller.ask(f"bundle {bundle!r}", bundle_workflow_id(bundle), BundleInterface.describe())
        return await self._caller.change_dag(dag_id, DagInterface.assign(Assignment(bundle=bundle)))

    async def describe(self, dag_id: str) -> DagView:
        return await self._caller.ask_dag(dag_id, DagInterface.describe())

    async def spec(self, dag_id: str) -> DagSpec:
        """The version of the DAG that is in place."""
        return await self._caller.ask_dag(dag_id, DagInterface.spec())

    async def explain(self, dag_id: str) -> Explanation:
        """Why the DAG does what it does, or nothing."""
        return await self._caller.ask_dag(dag_id, DagInterface.explain())

    async def gathered(self, dag_id: str) -> builtins.list[Gathered]:
        """The assets that are there for the DAG's next run."""
        return await self._caller.ask_dag(dag_id, DagInterface.gathered())

    async def unqueue(self, dag_id: str, asset: str | None = None, before: datetime | None = None) -> int:
        """Has an asset, or with None all, count as not there for the DAG's next run. Returns how many did."""
        return await self._caller.change_dag(dag_id, DagInterface.unqueue(Unqueue(name=asset, before=before)))

    async def upcoming(self, dag_id: str, n: int) -> builtins.list[DagRunInfo]:
        """The DAG's next *n* scheduled runs as things are."""
        return list((await self.ticks(dag_id, n)).infos)

    async def ticks(self, dag_id: str, n: int) -> Ticks:
        """The same, with whether the schedule ends behind them. Of a timetable class of one's own, those known yet."""
        return await self._caller.ask_dag(dag_id, DagInterface.upcoming(n))

    async def preview(self, spec: DagSpec) -> Preview:
        """What registering *spec* would do to the schedule of the DAG of its name."""
        return await self._caller.ask_dag(spec.dag_id, DagInterface.preview(spec))

    async def delete(self, dag_id: str, *, wait: bool = True) -> int:
        """Ends a DAG and forgets it, with the histories of its runs; how many those were.

        Raises InUseError while runs are under way. A DAG whose file is still in a bundle comes back when its
        bundle looks at its DAGs again, within minutes. Without *wait*, a DAG of that name that is registered within
        the next half minute may take runs for its own that Temporal has not forgotten yet.
        """
        known: builtins.list[str] = []
        with suppress(EndedError):
            known = await self._end(dag_id)
        deleted = await delete_histories(self._caller.client, dag_id, known)
        if wait:
            await until_forgotten(self._caller.client, deleted)
        return len(deleted)

    async def _end(self, dag_id: str) -> builtins.list[str]:
        """Ends the DAG; the workflows of its last runs, which have ended."""
        was_paused = (await self.describe(dag_id)).is_paused
        await self.pause(dag_id)  # so that no run begins after this has looked for some
        runs = await self._caller.ask_dag(dag_id, DagInterface.runs())
        running = [view.run_id for view in runs if view.state is RunState.RUNNING]
        if running:
            await self.pause(dag_id, was_paused)
            raise InUseError(f"DAG {dag_id!r} has runs under way: {', '.join(running[:5])}. Cancel them first")
        spec = await self.spec(dag_id)
        async with clear_errors(f"DAG {dag_id!r}", self._caller.task_queue):
            await self._caller.dag(dag_id).terminate("deleted")
        for workflow_id in wanted_ties(spec):
            with suppress(RPCError):  # an asset that nobody has heard of
                await signal(self._caller.handle(workflow_id), AssetInterface.tie(Tie(dag_id=dag_id)))
        return [view.workflow_id for view in runs if view.state.finished]

    async def list(self) -> tuple[builtins.list[DagRow], dict[str, str]]:
        """Every registered DAG; and by dag_id, what is the matter with those that cannot be shown.

        Visibility may lag behind by a moment.
        """
        return await dag_rows(self._caller.client, self._caller.task_queue)
