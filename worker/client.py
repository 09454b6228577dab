"""The typed way in: registers DAGs, triggers and reads runs, as a program of yours or the CLI does it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, timedelta
from typing import Any, cast

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ..model.backfills import BackfillPlan, BackfillProgress, BackfillRequest
from ..model.dag import DagSpec
from ..model.errors import InvalidInputError
from ..model.explaining import Explanation
from ..model.previews import Preview
from ..model.runs import RunIdentity, TriggerRequest, dag_workflow_id
from ..model.states import RunState, TaskState
from ..model.timetables import DagRunInfo
from ..model.views import DagView, Registration, RunDetails, RunView
from ..workflows.dag import DagWorkflow
from ..workflows.dag_run import DagRunWorkflow
from .plugin import TidemillPlugin
from .settings import Settings

SHORTEST_WAIT, LONGEST_WAIT = 0.01, 2.0
QUERY_TIMEOUT = timedelta(seconds=10)
UPDATE_TIMEOUT = timedelta(seconds=30)


class NotFoundError(LookupError):
    """There is no such DAG or run. The message says which and what to do."""


class NoWorkerError(RuntimeError):
    """Nobody polls the task queue, so nobody answers."""


class Tidemill:
    """Tidemill on a Temporal service."""

    def __init__(self, client: Client, task_queue: str = "tidemill") -> None:
        self.client = client
        self.task_queue = task_queue

    @classmethod
    async def connect(cls, settings: Settings | None = None, **overrides: Any) -> Tidemill:
        """Connects as Temporal's environment configuration says; *overrides* go to `Client.connect`."""
        settings = settings or Settings()
        return cls(await connect(TidemillPlugin(settings.home), **overrides), settings.task_queue)

    # DAGs

    async def register(self, spec: DagSpec) -> Registration:
        """Registers a DAG, or puts its new version in place."""
        start: WithStartWorkflowOperation[Any, None] = WithStartWorkflowOperation(
            "Dag",
            spec,
            id=dag_workflow_id(spec.dag_id),
            task_queue=self.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            static_summary=spec.description or spec.dag_id,
        )
        async with _clear_errors(f"DAG {spec.dag_id!r}", self):
            made: Registration = await self.client.execute_update_with_start_workflow(
                "register",
                spec,
                start_workflow_operation=start,
                result_type=Registration,
                rpc_timeout=UPDATE_TIMEOUT,
            )
            return made

    async def pause(self, dag_id: str, paused: bool = True) -> None:
        """Stops the making of runs, or lets it go on. Runs that have started go on either way."""
        async with _clear_errors(f"DAG {dag_id!r}", self):
            await self._dag(dag_id).signal("pause" if paused else "unpause")

    async def trigger(self, dag_id: str, request: TriggerRequest | None = None) -> RunIdentity:
        """Creates a manual run. Raises InvalidInputError, naming the run that holds the date if one does."""
        async with _clear_errors(f"DAG {dag_id!r}", self):
            made: RunIdentity = await self._dag(dag_id).execute_update(
                "trigger_run", request or TriggerRequest(), result_type=RunIdentity, rpc_timeout=UPDATE_TIMEOUT
            )
            return made

    async def describe(self, dag_id: str) -> DagView:
        async with _clear_errors(f"DAG {dag_id!r}", self):
            return await self._dag(dag_id).query(DagWorkflow.describe, rpc_timeout=QUERY_TIMEOUT)

    async def spec(self, dag_id: str) -> DagSpec:
        """The version of the DAG that is in place."""
        async with _clear_errors(f"DAG {dag_id!r}", self):
            return await self._dag(dag_id).query(DagWorkflow.spec, rpc_timeout=QUERY_TIMEOUT)

    async def dag_ids(self) -> list[str]:
        """Every registered DAG, by name. Visibility may lag behind by a moment."""
        found = self.client.list_workflows('WorkflowType = "Dag" AND ExecutionStatus = "Running"')
        return sorted([execution.id.removeprefix("dag:") async for execution in found])

    async def dags(self) -> list[DagView]:
        return list(await asyncio.gather(*(self.describe(dag_id) for dag_id in await self.dag_ids())))

    async def explain(self, dag_id: str) -> Explanation:
        """Why the DAG does what it does, or nothing."""
        async with _clear_errors(f"DAG {dag_id!r}", self):
            return await self._dag(dag_id).query(DagWorkflow.explain, rpc_timeout=QUERY_TIMEOUT)

    async def upcoming(self, dag_id: str, n: int) -> list[DagRunInfo]:
        """The DAG's next *n* scheduled runs as things are."""
        async with _clear_errors(f"DAG {dag_id!r}", self):
            found = await self._dag(dag_id).query(DagWorkflow.upcoming, n, rpc_timeout=QUERY_TIMEOUT)
            return list(found.infos)

    async def preview(self, spec: DagSpec) -> Preview:
        """What registering *spec* would do to the schedule of the DAG of its name."""
        async with _clear_errors(f"DAG {spec.dag_id!r}", self):
            found: Preview = await self._dag(spec.dag_id).query(
                "preview", spec, result_type=Preview, rpc_timeout=QUERY_TIMEOUT
            )
            return found

    # Backfills

    async def create_backfill(self, dag_id: str, request: BackfillRequest) -> BackfillPlan:
        """Runs the DAG over a range of the past; with `dry_run` only tells over what."""
        async with _clear_errors(f"DAG {dag_id!r}", self):
            return await self._dag(dag_id).execute_update(
                DagWorkflow.create_backfill, request, rpc_timeout=UPDATE_TIMEOUT
            )

    async def backfills(self, dag_id: str) -> list[BackfillProgress]:
        """The DAG's backfills, oldest first."""
        async with _clear_errors(f"DAG {dag_id!r}", self):
            return await self._dag(dag_id).query(DagWorkflow.backfills, rpc_timeout=QUERY_TIMEOUT)

    async def change_backfill(self, dag_id: str, backfill_id: str, change: str) -> BackfillProgress:
        """Pauses, unpauses or cancels a backfill (*change* is "pause", "unpause" or "cancel")."""
        async with _clear_errors(f"DAG {dag_id!r}", self):
            progress: BackfillProgress = await self._dag(dag_id).execute_update(
                f"{change}_backfill", backfill_id, result_type=BackfillProgress, rpc_timeout=UPDATE_TIMEOUT
            )
            return progress

    # Runs

    async def runs(self, dag_id: str) -> list[RunView]:
        """Queued, running and recent runs, newest first."""
        async with _clear_errors(f"DAG {dag_id!r}", self):
            return await self._dag(dag_id).query(DagWorkflow.runs, rpc_timeout=QUERY_TIMEOUT)

    async def run(self, dag_id: str, run_id: str) -> RunDetails:
        """A run with its tasks. A task whose worker has taken it up shows as running, with what it tells of itself."""
        view = await self.find_run(dag_id, run_id)
        return await self.run_by_workflow(view.workflow_id)

    async def find_run(self, dag_id: str, run_id: str) -> RunView:
        for view in await self.runs(dag_id):
            if view.run_id == run_id:
                return view
        raise NotFoundError(f"DAG {dag_id!r} has no run {run_id!r}. `tidemill runs list {dag_id}` shows its runs")

    async def wait(self, run: RunIdentity) -> RunState:
        """Waits until a run that was triggered has ended, and says how. One that is queued may take its time."""
        handle = self.client.get_workflow_handle_for(DagRunWorkflow.run, run.workflow_id)
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

    async def run_by_workflow(self, workflow_id: str) -> RunDetails:
        handle = self.client.get_workflow_handle_for(DagRunWorkflow.run, workflow_id)
        async with _clear_errors(f"run {workflow_id!r}", self):
            details, description = await asyncio.gather(
                handle.query(DagRunWorkflow.describe, rpc_timeout=QUERY_TIMEOUT), handle.describe()
            )
        running = {}
        for pending in description.raw_description.pending_activities:
            if pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED:
                decoded = await self.client.data_converter.decode(pending.heartbeat_details.payloads) or [None]
                task_id, _, _ = pending.activity_id.rpartition("/")
                running[task_id] = (decoded[0], pending.last_started_time.ToDatetime(UTC), pending.attempt)
        return _with_pending(details, running)

    # Connections

    def _dag(self, dag_id: str) -> WorkflowHandle[DagWorkflow, None]:
        return self.client.get_workflow_handle_for(DagWorkflow.run, dag_workflow_id(dag_id))


def _with_pending(details: RunDetails, running: Mapping[str, tuple[Any, Any, int]]) -> RunDetails:
    """The run as the server sees it too: the workflow is only told of an attempt when it ends."""
    tasks = []
    for task in details.tasks:
        if task.task_id in running and task.state is TaskState.QUEUED:
            told, started, starts = running[task.task_id]
            why = "is running" if starts == 1 else f"is running, started for the {starts}. time after a worker was lost"
            update = {"state": TaskState.RUNNING, "progress": told, "started_at": started, "why": why}
            task = task.model_copy(update=update)
        tasks.append(task)
    return details.model_copy(update={"tasks": tuple(tasks)})


async def connect(plugin: TidemillPlugin, **overrides: Any) -> Client:
    """A client by Temporal's environment configuration. Raises ConnectionError if nothing answers."""
    config = cast(dict[str, Any], ClientConfig.load_client_connect_config())
    config = {"target_host": "localhost:7233", **config, **overrides}
    try:
        return await Client.connect(**config, plugins=[plugin])
    except RuntimeError as error:
        raise ConnectionError(
            f"no Temporal service answers at {config['target_host']} ({error}). "
            "Start one with `tidemill dev`, or set TEMPORAL_ADDRESS"
        ) from None


@asynccontextmanager
async def _clear_errors(what: str, tidemill: Tidemill) -> AsyncIterator[None]:
    """Turns what the service answers into errors that say what to do."""
    try:
        yield
    except WorkflowUpdateFailedError as error:
        cause = error.cause
        message = cause.message if isinstance(cause, ApplicationError) else str(cause)
        raise InvalidInputError(message) from None
    except WorkflowQueryFailedError as error:
        raise InvalidInputError(f"{what}: {error}") from None
    except WorkflowUpdateRPCTimeoutOrCancelledError:
        raise NoWorkerError(
            f"{what} did not answer within {UPDATE_TIMEOUT.total_seconds():g} s: no worker polls task queue "
            f"{tidemill.task_queue!r}, or it is very busy. Start one with `tidemill worker`; the request may still be "
            "followed then"
        ) from None
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise NotFoundError(f"{what} is not there. `tidemill dags list` shows what is registered") from None
        if error.status in (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED):
            raise NoWorkerError(
                f"{what} does not answer: no worker polls task queue {tidemill.task_queue!r}. "
                "Start one with `tidemill worker`"
            ) from None
        raise
