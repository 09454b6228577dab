"""Brings what DAG files say to the workflows of their DAGs."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import activity
from temporalio.client import (
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ...model.base import Model
from ...model.bundle.data import DagFileState, ParsedDag, bundle_workflow_id
from ...model.dag.row import DagRow
from ...model.dag.views import Registration
from ...model.errors import InvalidInputError
from ...model.interfaces.dag import DagInterface
from ...model.run.identity import dag_workflow_id
from ...model.spec.dag import DagSpec, read_dag
from ..attempts.supervision import HEARTBEAT_EVERY
from ..calling import signal
from ..names import FILES_SUFFIX, OTHER_BUNDLE
from ..worker_context import WorkerContext
from .files import spec_name
from .register_dag import register_dag

AT_ONCE = 8
"""How many DAGs are spoken to at a time."""
ANSWER_TIMEOUT = 60.0
RUNNING_DAGS = DagInterface.running()
REFUSALS = (RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.PERMISSION_DENIED)
"""What no other attempt changes soon, such as a DAG that is too large."""


@asynccontextmanager
async def beating_meanwhile() -> AsyncIterator[None]:
    """Heartbeats as long as the block: it waits for others, and is alive."""

    async def beat() -> None:
        while True:
            activity.heartbeat()
            await asyncio.sleep(HEARTBEAT_EVERY)

    beats = asyncio.create_task(beat())
    try:
        yield
    finally:
        beats.cancel()


class RegisterQuestion(Model):
    """Versions of DAGs that their workflows are to have."""

    dags: tuple[ParsedDag, ...]


class Registered(Model):
    """What came of registering."""

    errors: dict[str, str | None]
    """By dag_id, why it was refused; None: it has the version now."""
    versions: dict[str, str] = {}
    """By dag_id, the version that its workflow says that it has: an equal DAG keeps the one that it had."""
    undone: dict[str, str] = {}
    """By dag_id, why it could not be asked. It has to be tried again."""


class CompareQuestion(Model):
    """What the DAGs of a bundle should be."""

    bundle: str
    versions: dict[str, str]
    """By dag_id, the version that its workflow has said that it has."""


class Compared(Model):
    """How DAGs are found."""

    strays: tuple[str, ...] = ()
    """Those whose workflow is gone, or has a version of somebody else's or none of the bundle's; whose code is gone."""


class TellQuestion(Model):
    """What DAGs are told of their files."""

    states: dict[str, DagFileState]


class RegisterActivities:
    def __init__(self, worker_context: WorkerContext) -> None:
        self._worker_context = worker_context

    @activity.defn(name="tidemill.register_dags")
    async def register_dags(self, question: RegisterQuestion) -> Registered:
        """Registers what was parsed. Asked again, it changes nothing."""
        room = asyncio.Semaphore(AT_ONCE)
        done = Registered(errors={})

        async def register(dag: ParsedDag) -> None:
            async with room:
                try:
                    made = await self._register(dag)
                    done.errors[dag.dag_id] = made if isinstance(made, str) else None
                    if isinstance(made, Registration):
                        done.versions[dag.dag_id] = made.version
                except FileNotFoundError:
                    done.undone[dag.dag_id] = self._worker_context.snapshots.missing(f"version {dag.version}")
                except TimeoutError:
                    done.undone[dag.dag_id] = f"its workflow has not answered within {ANSWER_TIMEOUT:g} s"
                except LookupError as error:
                    done.undone[dag.dag_id] = str(error)
                except ValueError as error:  # a version that another release has kept, say
                    done.undone[dag.dag_id] = f"{type(error).__name__}: {error}"
                except RPCError as error:
                    if error.status not in REFUSALS:
                        raise  # the service is away: the whole activity is tried again, and soon
                    done.undone[dag.dag_id] = f"Temporal refuses it: {error}"

        async with beating_meanwhile():
            await asyncio.gather(*(register(dag) for dag in question.dags))
        return done

    async def _register(self, dag: ParsedDag) -> Registration | str:
        """What registering the version came to, or why the DAG's workflow refuses it."""
        text = await asyncio.to_thread(self._worker_context.snapshots.get_text, spec_name(dag.dag_id, dag.version))
        spec, queue = read_dag(json.loads(text)), activity.info().task_queue.removesuffix(FILES_SUFFIX)
        snapshot = spec.source.snapshot if spec.source is not None else None
        if snapshot is not None and not await asyncio.to_thread(self._worker_context.snapshots.has, snapshot):
            raise FileNotFoundError(snapshot)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                try:
                    return await register_dag(activity.client(), spec, queue)
                except WorkflowUpdateFailedError as error:
                    if not (isinstance(error.cause, ApplicationError) and error.cause.type == OTHER_BUNDLE):
                        raise
                    if not await _end_claim(dag.dag_id, error.cause.details[0]):
                        self._keep_refusal(dag.dag_id, spec, error.cause.message)
                        raise LookupError(error.cause.message) from None  # it may be moving: asked again
                    return await register_dag(activity.client(), spec, queue)
        except InvalidInputError as error:
            return str(error)
        except WorkflowUpdateFailedError as error:
            reason = error.cause.message if isinstance(error.cause, ApplicationError) else str(error.cause)
            self._keep_refusal(dag.dag_id, spec, reason)
            return reason

    def _keep_refusal(self, dag_id: str, spec: DagSpec, reason: str) -> None:
        source = spec.source
        about = {"dag_id": dag_id, "file": source.path if source is not None else ""}
        self._worker_context.refusals.add("dag.register", reason, source.bundle if source is not None else None, about)

    @activity.defn(name="tidemill.compare_dags")
    async def compare_dags(self, question: CompareQuestion) -> Compared:
        """Find the DAGs of a bundle that are not as the bundle believes.

        Their workflow was ended or deleted, or is another's, or their code is gone, as where a home was removed. By the
        lines that lists show of them, which lag by moments. Raises RPCError where the service cannot be asked.
        """
        found: dict[str, DagRow | None] = {}
        """By workflow id; None: its line cannot be read here, or is kept by no release as old as its own."""
        try:
            async with beating_meanwhile():
                kept = await asyncio.to_thread(self._worker_context.snapshots.dag_ids)
                async for listed in activity.client().list_workflows(RUNNING_DAGS):
                    found[listed.id] = await _row_of(listed)
        except RPCError as error:
            if error.status is RPCStatusCode.UNIMPLEMENTED:  # the SDK's test server has no lists
                return Compared()
            raise

        def is_astray(dag_id: str, version: str) -> bool:
            if dag_workflow_id(dag_id) not in found or dag_id not in kept:
                return True
            row = found[dag_workflow_id(dag_id)]
            return row is not None and (row.bundle, row.version) != (question.bundle, version)

        strays = tuple(dag_id for dag_id, version in question.versions.items() if is_astray(dag_id, version))
        return Compared(strays=strays)


async def _end_claim(dag_id: str, bundle: str) -> bool:
    """Tells a DAG that its bundle has no file of it any more. False if somebody looks after that bundle still."""
    client = activity.client()
    try:
        found = await client.get_workflow_handle(bundle_workflow_id(bundle)).describe()
        if found.status is WorkflowExecutionStatus.RUNNING:
            return False
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    state = DagFileState(bundle=bundle, is_stale=True)
    await signal(client.get_workflow_handle(dag_workflow_id(dag_id)), DagInterface.file_state(state))
    return True


@activity.defn(name="tidemill.tell_dags")
async def tell_dags(question: TellQuestion) -> None:
    """Tells DAGs how their files are. One that does not exist is passed over."""
    room = asyncio.Semaphore(AT_ONCE)

    async def tell(dag_id: str, state: DagFileState) -> None:
        async with room:
            try:
                dag = activity.client().get_workflow_handle(dag_workflow_id(dag_id))
                await signal(dag, DagInterface.file_state(state))
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise

    async with beating_meanwhile():
        await asyncio.gather(*(tell(dag_id, state) for dag_id, state in question.states.items()))


async def _row_of(listed: WorkflowExecution) -> DagRow | None:
    try:
        view = (await listed.memo()).get("view")
        return None if view is None else DagRow.model_validate(view)
    except (KeyError, ValueError, RuntimeError):
        return None
