"""How a version of a DAG comes to the DAG's workflow, from wherever."""

from datetime import timedelta

from temporalio.client import Client

from ...model.dag.views import Registration
from ...model.interfaces.dag import DagInterface
from ...model.run.identity import dag_workflow_id
from ...model.sizes import check_spec_size
from ...model.spec.dag import DagSpec
from ..calling import starting, update_with_start


async def register_dag(
    client: Client, spec: DagSpec, task_queue: str, rpc_timeout: timedelta | None = None
) -> Registration:
    """Has the DAG's workflow take *spec* on, and starts it if there is none. Waits no longer than *rpc_timeout*.

    Raises InvalidInputError for a DAG that is too large, and RPCError if nobody answers.
    """
    check_spec_size(spec.dag_id, spec.model_dump_json())
    start = starting(
        DagInterface, spec, dag_workflow_id(spec.dag_id), task_queue, summary=spec.description or spec.dag_id
    )
    return await update_with_start(client, start, DagInterface.register(spec), rpc_timeout=rpc_timeout)
