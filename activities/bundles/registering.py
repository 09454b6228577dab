"""Brings what DAG files say to the workflows of their DAGs."""

import asyncio
import json
from typing import Any

from temporalio import activity
from temporalio.client import Client, WithStartWorkflowOperation, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ...model.base import Model
from ...model.bundles import DagFileState, ParsedDag
from ...model.dag import DagSpec, read_dag
from ...model.runs import dag_workflow_id
from ...model.views import Registration
from ..names import FILES_SUFFIX
from ..workplace import Workplace
from .files import spec_name

AT_ONCE = 8
"""How many DAGs are spoken to at a time."""


class RegisterQuestion(Model):
    """Versions of DAGs that their workflows are to have."""

    dags: tuple[ParsedDag, ...]


class Registered(Model):
    """By dag_id, why it was refused; None: it has the version now."""

    errors: dict[str, str | None]


class TellQuestion(Model):
    """What DAGs are told of their files."""

    states: dict[str, DagFileState]


class RegisterActivities:
    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace

    @activity.defn(name="tidemill.register_dags")
    async def register_dags(self, question: RegisterQuestion) -> Registered:
        """Registers what was parsed. Asked again, it changes nothing."""
        room = asyncio.Semaphore(AT_ONCE)
        queue = activity.info().task_queue.removesuffix(FILES_SUFFIX)

        async def register(dag: ParsedDag) -> str | None:
            async with room:
                activity.heartbeat()
                text = await asyncio.to_thread(self._workplace.snapshots.get_text, spec_name(dag.dag_id, dag.version))
                try:
                    await register_dag(activity.client(), read_dag(json.loads(text)), queue)
                except WorkflowUpdateFailedError as error:
                    cause = error.cause
                    return cause.message if isinstance(cause, ApplicationError) else str(cause)
                return None

        errors = await asyncio.gather(*(register(dag) for dag in question.dags))
        return Registered(errors={dag.dag_id: error for dag, error in zip(question.dags, errors, strict=True)})


@activity.defn(name="tidemill.tell_dags")
async def tell_dags(question: TellQuestion) -> None:
    """Tells DAGs how their files are. One that does not exist is passed over."""
    room = asyncio.Semaphore(AT_ONCE)

    async def tell(dag_id: str, state: DagFileState) -> None:
        async with room:
            activity.heartbeat()
            try:
                await activity.client().get_workflow_handle(dag_workflow_id(dag_id)).signal("file_state", state)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise

    await asyncio.gather(*(tell(dag_id, state) for dag_id, state in question.states.items()))


async def register_dag(client: Client, spec: DagSpec, task_queue: str, **options: Any) -> Registration:
    """Has the DAG's workflow take *spec* on, and starts it if there is none. *options* are for the call."""
    start: WithStartWorkflowOperation[Any, None] = WithStartWorkflowOperation(
        "Dag",
        spec,
        id=dag_workflow_id(spec.dag_id),
        task_queue=task_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        static_summary=spec.description or spec.dag_id,
    )
    made: Registration = await client.execute_update_with_start_workflow(
        "register", spec, start_workflow_operation=start, result_type=Registration, **options
    )
    return made
