"""The typed way in: registers DAGs, triggers and reads runs, as a program of yours or the CLI does it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

from temporalio.api.enums.v1 import PendingActivityState, TaskQueueType
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode

from ..activities.bundles.register_dag import register_dag
from ..activities.calling import query, signal, starting, update, update_with_start
from ..activities.single_flight import SingleFlight
from ..model.asset.events import AssetEvent
from ..model.asset.gathering import Gathered, Unqueue
from ..model.asset.state import AssetView, ReportedEvent, Tie, asset_workflow_id
from ..model.asset.watching import WatcherView, watcher_workflow_id
from ..model.bundle.data import BundleSettings, BundleView, FileView, bundle_workflow_id
from ..model.bundle.state import BundleState
from ..model.dag.assets import wanted_ties
from ..model.dag.assignment import Assignment
from ..model.dag.backfill_request import BackfillRequest
from ..model.dag.backfills import BackfillPlan, BackfillProgress
from ..model.dag.explaining import Explanation
from ..model.dag.hand_over import HandOver
from ..model.dag.manual_runs import ConfChange
from ..model.dag.previews import Preview
from ..model.dag.row import DagRow
from ..model.dag.ticks import Ticks
from ..model.dag.views import DagView, QueuedRun, Registration
from ..model.errors import InvalidInputError
from ..model.interfaces.asset import AssetInterface, WatcherInterface
from ..model.interfaces.bundle import BundleInterface
from ..model.interfaces.calls import QueryCall, UpdateCall
from ..model.interfaces.dag import DagInterface
from ..model.interfaces.pool import PoolInterface
from ..model.interfaces.run import RunInterface
from ..model.pool.state import (
    PARALLELISM,
    PoolSettings,
    PoolState,
    PoolView,
    check_pool_name,
    pool_workflow_id,
)
from ..model.run.forms import check_answer
from ..model.run.identity import RunIdentity, TriggeredBy, TriggerRequest, dag_workflow_id
from ..model.run.messages import Answer
from ..model.run.revisions import ClearRequest, MarkRequest, ReviseQuestion, RunMark
from ..model.run.state import DagRunState, queued_state
from ..model.run.views import RunDetails, RunView, TaskView, queued_details
from ..model.spec.dag import DagSpec
from ..model.spec.timetables import DagRunInfo
from ..model.states import RunState, TaskState
from .attempt_starts import AttemptStart, attempt_starts
from .connection import (
    QUERY_TIMEOUT,
    REFRESH_TIMEOUT,
    UPDATE_TIMEOUT,
    EndedError,
    NotFoundError,
    NoWorkerError,
    clear_errors,
    connect,
    is_under_way_elsewhere,
)
from .deleting import delete_histories, delete_run_histories, until_forgotten
from .listing import dag_rows
from .older_runs import older_run
from .pollers import pollers_of
from .settings import Settings, read_settings

T = TypeVar("T")
ENDLESS = ("dag:", "pool:", "bundle:", "asset:", "asset-alias:", "watcher:")
"""Workflows that go on for as long as what they are of exists."""

BACKFILL_CHANGES = {
    "pause": DagInterface.pause_backfill,
    "unpause": DagInterface.unpause_backfill,
    "cancel": DagInterface.cancel_backfill,
}
UPDATES_AT_ONCE = 8
"""The service takes ten updates of a workflow at a time, and refuses others."""
SHORTEST_WAIT, LONGEST_WAIT = 0.01, 2.0


class Tidemill:
    """Tidemill on a Temporal service."""

    def __init__(self, client: Client, task_queue: str = "tidemill") -> None:
        self.client = client
        self.task_queue = task_queue
        self._shared = SingleFlight()
        self._rooms: WeakValueDictionary[Any, asyncio.Semaphore] = WeakValueDictionary()

    @classmethod
    async def connect(cls, settings: Settings | None = None, **overrides: Any) -> Tidemill:
        """Connects as Temporal's environment configuration says; *overrides* go to `Client.connect`."""
        settings = settings or read_settings()
        return cls(await connect(**overrides), settings.task_queue)

    # DAGs

    async def register(self, spec: DagSpec) -> Registration:
        """Registers a DAG, or puts its new version in place."""
        async with clear_errors(f"DAG {spec.dag_id!r}", self.task_queue):
            return await register_dag(self.client, spec, self.task_queue, within=UPDATE_TIMEOUT)

    async def pause(self, dag_id: str, paused: bool = True) -> None:
        """Stops the making of runs, or lets it go on. Runs that have started go on either way."""
        async with clear_errors(f"DAG {dag_id!r}", self.task_queue):
            await signal(self._dag(dag_id), DagInterface.pause() if paused else DagInterface.unpause())

    async def take_over(self, dag_id: str, handed: HandOver) -> bool:
        """Has a DAG go on after the last run that another scheduler has made. False if it did already."""
        return await self._change_dag(dag_id, DagInterface.take_over(handed))

    async def assign(self, dag_id: str, bundle: str | None) -> bool:
        """Have one bundle alone, or with None no bundle, register a DAG from now on. False if it was so already.

        Raises NotFoundError for a bundle, or a DAG, that there is not.
        """
        if bundle is not None:
            await self.bundle(bundle)
        return await self._change_dag(dag_id, DagInterface.assign(Assignment(bundle=bundle)))

    async def trigger(self, dag_id: str, request: TriggerRequest | None = None) -> RunIdentity:
        """Creates a manual run. Raises InvalidInputError, naming the run that holds the date if one does."""
        request = request or TriggerRequest()
        while True:
            try:
                return await self._change_dag(dag_id, DagInterface.trigger_run(request))
            except InvalidInputError as error:
                # A DAG of the release before, which does not know a field yet: the run is worth more than that.
                plain = request.without_later(name for name in request.later_fields if name in str(error))
                if plain == request:
                    raise
                request = plain

    async def trigger_runs(self, dag_id: str, requests: Sequence[TriggerRequest]) -> list[RunIdentity]:
        """Creates several manual runs in one step, or none of them if one is refused. Raises InvalidInputError."""
        return await self._change_dag(dag_id, DagInterface.trigger_runs(list(requests)))

    async def set_conf(self, dag_id: str, run_id: str, conf: dict[str, Any]) -> RunIdentity:
        """Gives a run another conf that is still queued. Raises InvalidInputError for one that has begun."""
        return await self._change_dag(dag_id, DagInterface.set_conf(ConfChange(run_id=run_id, conf=conf)))

    async def describe(self, dag_id: str) -> DagView:
        return await self._ask_dag(dag_id, DagInterface.describe())

    async def spec(self, dag_id: str) -> DagSpec:
        """The version of the DAG that is in place."""
        return await self._ask_dag(dag_id, DagInterface.spec())

    async def dags(self) -> tuple[list[DagRow], dict[str, str]]:
        """Every registered DAG; and by dag_id, what is the matter with those that cannot be shown.

        Visibility may lag behind by a moment.
        """
        return await dag_rows(self.client, self.task_queue)

    async def explain(self, dag_id: str) -> Explanation:
        """Why the DAG does what it does, or nothing."""
        return await self._ask_dag(dag_id, DagInterface.explain())

    async def gathered(self, dag_id: str) -> list[Gathered]:
        """The assets that are there for the DAG's next run."""
        return await self._ask_dag(dag_id, DagInterface.gathered())

    async def unqueue(self, dag_id: str, asset: str | None = None, before: datetime | None = None) -> int:
        """Has an asset, or with None all, count as not there for the DAG's next run. Returns how many did."""
        return await self._change_dag(dag_id, DagInterface.unqueue(Unqueue(name=asset, before=before)))

    async def upcoming(self, dag_id: str, n: int) -> list[DagRunInfo]:
        """The DAG's next *n* scheduled runs as things are."""
        return list((await self.ticks(dag_id, n)).infos)

    async def ticks(self, dag_id: str, n: int) -> Ticks:
        """The same, with whether the schedule ends behind them. Of a timetable class of one's own, those known yet."""
        return await self._ask_dag(dag_id, DagInterface.upcoming(n))

    async def preview(self, spec: DagSpec) -> Preview:
        """What registering *spec* would do to the schedule of the DAG of its name."""
        return await self._ask_dag(spec.dag_id, DagInterface.preview(spec))

    # Assets

    async def assets(self) -> list[str]:
        """The names of all assets that somebody has named. Visibility may lag behind by a moment."""
        found = [execution.id async for execution in self.client.list_workflows(AssetInterface.running())]
        return sorted(name.removeprefix("asset:") for name in found if name.startswith("asset:"))

    async def asset(self, name: str) -> AssetView:
        """The asset, who writes it, who waits for it."""
        async with clear_errors(f"asset {name!r}", self.task_queue):
            return await self._query(asset_workflow_id(name), AssetInterface.describe())

    async def asset_events(self, name: str) -> list[AssetEvent]:
        """Its last events, oldest first."""
        async with clear_errors(f"asset {name!r}", self.task_queue):
            return await self._query(asset_workflow_id(name), AssetInterface.events())

    async def watchers(self, name: str) -> list[WatcherView]:
        """What looks for events of an asset outside of tidemill."""
        views = []
        for watcher in (await self.asset(name)).watchers:
            try:
                async with clear_errors(f"watcher {watcher!r} of asset {name!r}", self.task_queue):
                    views.append(await self._query(watcher_workflow_id(name, watcher), WatcherInterface.describe()))
            except NotFoundError as error:  # somebody has ended it; the next registration begins it anew
                fields = {"asset": name, "name": watcher, "trigger": None, "found": 0, "last_found_at": None}
                views.append(WatcherView.model_validate({**fields, "error": str(error)}))
        return views

    async def pause_asset(self, name: str, paused: bool = True) -> None:
        """Holds the asset's events back from DAGs, or has them told; its watchers rest meanwhile."""
        async with clear_errors(f"asset {name!r}", self.task_queue):
            handle = self.client.get_workflow_handle(asset_workflow_id(name))
            await signal(handle, AssetInterface.pause() if paused else AssetInterface.unpause())

    async def emit(
        self,
        name: str,
        *,
        extra: dict[str, Any] | None = None,
        partition_key: str | None = None,
        cause: str | None = None,
    ) -> AssetEvent | None:
        """Tells an asset of an event from outside. None if one of that *cause* is known already.

        Raises NotFoundError for an asset that nobody has named.
        """
        fields = {"extra": extra or {}, "partition_key": partition_key}
        told = ReportedEvent.model_validate({"cause": cause or f"client/{uuid4()}", **fields})
        async with clear_errors(f"asset {name!r}", self.task_queue):
            return await self._update(asset_workflow_id(name), AssetInterface.emit(told))

    async def materialize(self, name: str, request: TriggerRequest | None = None) -> RunIdentity:
        """Has the DAG run that writes the asset, as *request* says (Airflow: materialize an asset).

        Raises InvalidInputError if no DAG writes it, or several do.
        """
        producers = [*(await self.asset(name)).producers]
        if len(producers) != 1:
            told = f"is written by {', '.join(producers)}: trigger one of them" if producers else "is written by no DAG"
            raise InvalidInputError(f"asset {name!r} {told}")
        fields = {"run_type": "asset_materialization", "triggered_by": TriggeredBy.CLIENT}
        return await self.trigger(producers[0], (request or TriggerRequest()).model_copy(update=fields))

    # Backfills

    async def create_backfill(self, dag_id: str, request: BackfillRequest) -> BackfillPlan:
        """Runs the DAG over a range of the past; with `dry_run` only tells over what."""
        return await self._change_dag(dag_id, DagInterface.create_backfill(request))

    async def backfills(self, dag_id: str) -> list[BackfillProgress]:
        """The DAG's backfills, oldest first."""
        return await self._ask_dag(dag_id, DagInterface.backfills())

    async def change_backfill(self, dag_id: str, backfill_id: str, change: str) -> BackfillProgress:
        """Pauses, unpauses or cancels a backfill (*change* is "pause", "unpause" or "cancel")."""
        return await self._change_dag(dag_id, BACKFILL_CHANGES[change](backfill_id))

    # Runs

    async def runs(self, dag_id: str) -> list[RunView]:
        """Queued, running and recent runs, newest first."""
        return await self._ask_dag(dag_id, DagInterface.runs())

    async def run(self, dag_id: str, run_id: str) -> RunDetails:
        """A run with its tasks. A task whose worker has taken it up shows as running, with what it tells of itself."""
        return await self.run_as_listed(dag_id, await self.find_run(dag_id, run_id))

    async def state_of(self, workflow_id: str) -> DagRunState:
        """All that a run knows, with the results that are kept in its history."""
        async with clear_errors(f"run {workflow_id!r}", self.task_queue):
            state = await self._query(workflow_id, RunInterface.whole_state())
            while state.revision is not None:  # it has not taken up yet what its last execution has left behind
                state = await self._query_of(workflow_id, state.revision.execution, RunInterface.whole_state())
            return state

    async def queued_run(self, dag_id: str, run_id: str) -> QueuedRun | None:
        """Return a run that is queued for the first time, and why it waits; None where it is not."""
        with suppress(InvalidInputError):  # a worker of the release before does not know the question
            async with clear_errors(f"DAG {dag_id!r}", self.task_queue):
                return await self._query(dag_workflow_id(dag_id), DagInterface.queued_run(run_id))
        return None

    async def attempt_starts(self, workflow_id: str) -> list[AttemptStart]:
        """Which workers have begun which tries of a run."""
        async with clear_errors(f"run {workflow_id!r}", self.task_queue):
            return await attempt_starts(self.client, workflow_id)

    async def find_run(self, dag_id: str, run_id: str) -> RunView:
        for view in await self.runs(dag_id):
            if view.run_id == run_id:
                return view
        # Older than what its DAG keeps a list of: Temporal may still know it.
        if (row := await older_run(self.client, dag_id, run_id)) is not None:
            return row
        raise NotFoundError(f"DAG {dag_id!r} has no run {run_id!r}. `tidemill runs list {dag_id}` shows its runs")

    async def wait(self, run: RunIdentity) -> RunState:
        """Waits until a run that was triggered has ended, and says how. One that is queued may take its time."""
        handle = self.client.get_workflow_handle(run.workflow_id)
        pause = SHORTEST_WAIT
        while True:
            try:
                await handle.result()
                return RunState.SUCCESS
            except WorkflowFailureError:
                return RunState.FAILED
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
            await asyncio.sleep(pause)  # queued: its workflow does not exist yet
            pause = min(2 * pause, LONGEST_WAIT)

    async def run_as_listed(self, dag_id: str, run: RunView) -> RunDetails:
        """Return *run* with its tasks, also while it is queued. Raises NotFoundError where it is forgotten."""
        if run.state is RunState.QUEUED and (queued := await self.queued_run(dag_id, run.run_id)) is not None:
            return queued_details(queued_state(queued.run, await self.spec(dag_id)), queued.why)
        return await self.run_by_workflow(run.workflow_id)

    async def run_by_workflow(self, workflow_id: str) -> RunDetails:
        async with clear_errors(f"run {workflow_id!r}", self.task_queue):
            asked = self._query(workflow_id, RunInterface.describe())
            handle = self.client.get_workflow_handle(workflow_id)
            details, description = await asyncio.gather(asked, handle.describe())
            while details.goes_on_from is not None:
                before = await self._query_of(workflow_id, details.goes_on_from, RunInterface.describe())
                details = before.model_copy(update={"run": details.run, "state": RunState.RUNNING})
        running, unclaimed, lost = {}, set(), {}
        for pending in description.raw_description.pending_activities:
            key = pending.activity_id.split("/")[0]
            if pending.attempt > 1 and pending.HasField("last_failure"):
                lost[key] = str(await self.client.data_converter.decode_failure(pending.last_failure))
            if pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED:
                decoded = await self.client.data_converter.decode(pending.heartbeat_details.payloads) or [None]
                running[key] = (decoded[0], pending.last_started_time.ToDatetime(UTC), pending.attempt)
            elif pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED:
                unclaimed.add(key)
        deserted = await self._deserted(
            {queue_of(view, description.task_queue) for view in details.tasks if view.key in unclaimed}
        )
        return _with_pending(details, running, dict.fromkeys(unclaimed, description.task_queue), deserted, lost)

    async def _deserted(self, queues: set[str]) -> set[str]:
        """Those task queues that no worker polls for activities."""
        kind = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
        return {queue for queue in queues if not await pollers_of(self.client, queue, kind)}

    # Changing runs

    async def clear(self, dag_id: str, run_id: str, request: ClearRequest | None = None) -> list[str]:
        """Has tasks of a run run again; a run that has ended goes on under its run_id. Returns the instances."""
        request = request or ClearRequest()
        if request.run_on_latest_version and await self._has_latest(dag_id, run_id):
            request = request.model_copy(update={"run_on_latest_version": None})
        return await self._revise(dag_id, run_id, clear=request)

    async def _has_latest(self, dag_id: str, run_id: str) -> bool:
        """Whether a run that is under way has the version in place: it cannot be given another, and need not be."""
        view = await self.find_run(dag_id, run_id)
        if view.state is not RunState.RUNNING:
            return False
        state, spec = await asyncio.gather(self.state_of(view.workflow_id), self.spec(dag_id))
        return state.spec.version == spec.version

    async def mark_tasks(self, dag_id: str, run_id: str, request: MarkRequest) -> list[str]:
        """Gives tasks a state without running them. Returns the instances."""
        return await self._revise(dag_id, run_id, mark=request)

    async def mark_run(self, dag_id: str, run_id: str, mark: RunMark) -> None:
        """Ends a run as success or failed, or changes how an ended one counts."""
        await self._revise(dag_id, run_id, mark_run=mark)

    async def _revise(self, dag_id: str, run_id: str, **change: Any) -> list[str]:
        view = await self.find_run(dag_id, run_id)
        question = ReviseQuestion(workflow_id=view.workflow_id, **change)
        async with clear_errors(f"run {run_id!r}", self.task_queue):
            return await self._update(dag_workflow_id(dag_id), DagInterface.revise_run(question))

    async def cancel_runs(self, dag_id: str) -> list[str]:
        """Ends every run of the DAG that is under way, as `cancel_run` does. Returns their run_ids."""
        running = [view.run_id for view in await self.runs(dag_id) if view.state is RunState.RUNNING]
        for run_id in running:
            await self.cancel_run(dag_id, run_id)
        return running

    async def cancel_run(self, dag_id: str, run_id: str) -> None:
        """Ends a run that is under way, or queued: what runs is stopped, and the run has failed."""
        view = await self.find_run(dag_id, run_id)
        if view.state is RunState.QUEUED:
            await self.mark_run(dag_id, run_id, RunMark(state="failed"))
            return
        async with clear_errors(f"run {run_id!r}", self.task_queue):
            await self.client.get_workflow_handle(view.workflow_id).cancel()

    async def delete_dag(self, dag_id: str, *, wait: bool = True) -> int:
        """Ends a DAG and forgets it, with the histories of its runs; how many those were.

        Raises InvalidInputError while runs are under way. A DAG whose file is still in a bundle comes back when its
        bundle looks at its DAGs again, within minutes. Without *wait*, a DAG of that name that is registered within
        the next half minute may take runs for its own that Temporal has not forgotten yet.
        """
        known: list[str] = []
        with suppress(EndedError):
            known = await self._end_dag(dag_id)
        deleted = await delete_histories(self.client, dag_id, known)
        if wait:
            await until_forgotten(self.client, deleted)
        return len(deleted)

    async def _end_dag(self, dag_id: str) -> list[str]:
        """Ends the DAG; the workflows of its last runs, which have ended."""
        was_paused = (await self.describe(dag_id)).is_paused
        await self.pause(dag_id)  # so that no run begins after this has looked for some
        runs = await self.runs(dag_id)
        running = [view.run_id for view in runs if view.state is RunState.RUNNING]
        if running:
            await self.pause(dag_id, was_paused)
            raise InvalidInputError(f"DAG {dag_id!r} has runs under way: {', '.join(running[:5])}. Cancel them first")
        spec = await self.spec(dag_id)
        async with clear_errors(f"DAG {dag_id!r}", self.task_queue):
            await self._dag(dag_id).terminate("deleted")
        for workflow_id in wanted_ties(spec):
            with suppress(RPCError):  # an asset that nobody has heard of
                await signal(self.client.get_workflow_handle(workflow_id), AssetInterface.tie(Tie(dag_id=dag_id)))
        return [view.workflow_id for view in runs if view.state.finished]

    async def delete_run(self, dag_id: str, run_id: str) -> None:
        """Forgets a run that is queued or has ended, with its history: its date can be run again."""
        view = await self.find_run(dag_id, run_id)
        await self._change_dag(dag_id, DagInterface.delete_run(run_id))
        await delete_run_histories(self.client, view.workflow_id)

    async def respond(self, dag_id: str, run_id: str, answer: Answer) -> str:
        """Answers an approval task. Raises InvalidInputError for an answer that it does not offer, or would fail of."""
        view = await self.find_run(dag_id, run_id)
        for task in (await self.run_as_listed(dag_id, view)).tasks:
            if task.key == answer.task and task.form is not None:
                check_answer(task.form, answer)
        async with clear_errors(f"run {run_id!r}", self.task_queue):
            return await self._update(view.workflow_id, RunInterface.respond(answer))

    # Bundles of DAG files

    async def set_bundle(self, settings: BundleSettings) -> BundleView:
        """Has a folder or repository looked after, or changes how it is."""
        workflow_id, state = bundle_workflow_id(settings.name), BundleState(settings=settings)
        start = starting(BundleInterface, state, workflow_id, self.task_queue)
        async with clear_errors(f"bundle {settings.name!r}", self.task_queue):
            call = BundleInterface.configure(settings)
            return await update_with_start(self.client, start, call, within=UPDATE_TIMEOUT)

    async def bundle(self, name: str) -> BundleView:
        """How the bundle *name* is."""
        async with clear_errors(f"bundle {name!r}", self.task_queue):
            return await self._query(bundle_workflow_id(name), BundleInterface.describe())

    async def bundles(self) -> list[BundleView]:
        """Every bundle that is looked after, by name."""
        names = sorted(
            [found.id.removeprefix("bundle:") async for found in self.client.list_workflows(BundleInterface.running())]
        )
        return [await self.bundle(name) for name in names]

    async def dag_files(self, bundle: str) -> list[FileView]:
        """The files of a bundle, with what is wrong with them."""
        async with clear_errors(f"bundle {bundle!r}", self.task_queue):
            return await self._query(bundle_workflow_id(bundle), BundleInterface.files())

    async def refresh_bundle(self, name: str, paths: Sequence[str] = (), *, all_removed: bool = False) -> BundleView:
        """Has files parsed now, changed or not; returns when their DAGs are registered.

        *all_removed*: most of the files may be gone, and are meant to be.
        """
        async with clear_errors(f"bundle {name!r}", self.task_queue):
            if all_removed:
                await self._update(bundle_workflow_id(name), BundleInterface.confirm_removals())
            try:
                call = BundleInterface.refresh([*paths])
                return await self._update(bundle_workflow_id(name), call, within=REFRESH_TIMEOUT)
            except WorkflowUpdateFailedError as error:
                if not is_under_way_elsewhere(error):
                    raise
        await self.look_at_bundle(name)  # what is to be parsed is known already
        return await self.bundle(name)

    async def look_at_bundle(self, name: str) -> list[FileView]:
        """Has changed files parsed now; returns when their DAGs are registered."""
        async with clear_errors(f"bundle {name!r}", self.task_queue):
            while True:
                try:
                    call = BundleInterface.look_now()
                    return await self._update(bundle_workflow_id(name), call, within=REFRESH_TIMEOUT)
                except WorkflowUpdateFailedError as error:
                    if not is_under_way_elsewhere(error):
                        raise

    async def delete_bundle(self, name: str) -> None:
        """Looks after the files no more. Their DAGs stay as they are."""
        async with clear_errors(f"bundle {name!r}", self.task_queue):
            await self.client.get_workflow_handle(bundle_workflow_id(name)).terminate("deleted")

    # Pools

    async def set_pool(self, name: str, settings: PoolSettings) -> PoolView:
        """Makes a pool, or changes it. Slots that are held stay held. Raises InvalidInputError for a bad name."""
        check_pool_name(name)
        state = PoolState(name=name, settings=settings)
        start = starting(PoolInterface, state, pool_workflow_id(name), self.task_queue)
        async with clear_errors(f"pool {name!r}", self.task_queue):
            return await update_with_start(self.client, start, PoolInterface.set(settings), within=UPDATE_TIMEOUT)

    async def pool(self, name: str) -> PoolView:
        async with clear_errors(f"pool {name!r}", self.task_queue):
            return await self._query(pool_workflow_id(name), PoolInterface.describe())

    async def delete_pool(self, name: str) -> None:
        """Ends a pool. Raises InvalidInputError while somebody holds slots of it or waits for some.

        A limit is made again when a task asks for it.
        """
        view = await self.pool(name)
        if view.holders or view.queued:
            used = ", ".join([*view.holders, *view.queued][:5])
            raise InvalidInputError(f"pool {name!r} is in use by {used}. Wait for them, or set its slots to 0")
        async with clear_errors(f"pool {name!r}", self.task_queue):
            await self.client.get_workflow_handle(pool_workflow_id(name)).terminate("deleted")

    async def pools(self) -> list[PoolView]:
        """Every pool that a person has made, by name, and the limit of the installation, where there is one."""
        ids = [found.id async for found in self.client.list_workflows(PoolInterface.running())]
        names = sorted(id_.removeprefix("pool:") for id_ in ids if id_.startswith("pool:") or id_ == PARALLELISM)
        return [await self.pool(name) for name in names]

    # Workflows by their interfaces: whoever calls them needs none of their code

    def _dag(self, dag_id: str) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(dag_workflow_id(dag_id))

    async def _ask_dag(self, dag_id: str, call: QueryCall[T]) -> T:
        async with clear_errors(f"DAG {dag_id!r}", self.task_queue):
            return await self._query(dag_workflow_id(dag_id), call)

    async def _change_dag(self, dag_id: str, call: UpdateCall[T]) -> T:
        async with clear_errors(f"DAG {dag_id!r}", self.task_queue):
            return await self._update(dag_workflow_id(dag_id), call)

    async def _query_of(self, workflow_id: str, execution: str, call: QueryCall[T]) -> T:
        """Asks an execution that has ended."""
        return await query(self.client.get_workflow_handle(workflow_id, run_id=execution), call, within=QUERY_TIMEOUT)

    async def _query(self, workflow_id: str, call: QueryCall[T]) -> T:
        handle = self.client.get_workflow_handle(workflow_id)
        reject = QueryRejectCondition.NOT_OPEN if workflow_id.startswith(ENDLESS) else None
        ask = partial(query, handle, call, within=QUERY_TIMEOUT, reject=reject)

        async def question() -> T:
            try:
                return await ask()
            except WorkflowQueryRejectedError as error:
                if error.status is not WorkflowExecutionStatus.CONTINUED_AS_NEW:
                    raise
            return await ask()  # it went on as another execution while it was asked

        if all(isinstance(given, str | int) for given in call.arguments):
            return await self._shared.ask((workflow_id, call.name, call.arguments), question)
        return await question()

    async def _update(self, workflow_id: str, call: UpdateCall[T], *, within: timedelta = UPDATE_TIMEOUT) -> T:
        handle = self.client.get_workflow_handle(workflow_id)
        room = self._rooms.setdefault((asyncio.get_running_loop(), workflow_id), asyncio.Semaphore(UPDATES_AT_ONCE))
        try:
            await asyncio.wait_for(room.acquire(), within.total_seconds())
        except TimeoutError:  # it has not been sent: nobody has to ask whether it was done all the same
            raise NoWorkerError(
                f"{workflow_id} is busy with other changes, and this one was not made: no worker polls its task queue, "
                "or there are too many at a time. Try again"
            ) from None
        try:
            return await update(handle, call, within=within)
        finally:
            room.release()


def queue_of(task: TaskView, of_run: str) -> str:
    """The task queue that the work of *task* goes to."""
    return task.queue or of_run + task.queue_suffix


def _with_pending(
    details: RunDetails,
    running: Mapping[str, tuple[Any, Any, int]],
    unclaimed: Mapping[str, str],
    deserted: set[str],
    lost: Mapping[str, str],
) -> RunDetails:
    """The run as the server sees it too: the workflow is only told of an attempt when it ends.

    *lost*: why the start before of an attempt did not come to an end.
    """
    tasks = []
    for task in details.tasks:
        if task.key in running and task.state is TaskState.QUEUED:
            told, started, starts = running[task.key]
            before = lost.get(task.key, "a worker was lost")
            why = "is running" if starts == 1 else f"is running, started for the {starts}. time: {before}"
            update = {"state": TaskState.RUNNING, "progress": told, "started_at": started, "why": why}
            task = task.model_copy(update=update)
        elif task.key in unclaimed and (queue := queue_of(task, unclaimed[task.key])) in deserted:
            why = f"no worker polls task queue {queue!r}. Start one for it, or correct the task's queue"
            task = task.model_copy(update={"why": why})
        elif task.key in unclaimed and task.key in lost:
            task = task.model_copy(update={"why": f"begins again: {lost[task.key]}"})
        waits_for = [key for key in running if f"{key} is queued" in task.why]
        for key in waits_for:  # whom it waits for is further than the workflow knows
            task = task.model_copy(update={"why": task.why.replace(f"{key} is queued", f"{key} is running")})
        tasks.append(task)
    return details.model_copy(update={"tasks": tuple(tasks)})
