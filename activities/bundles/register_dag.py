"""How a version of a DAG comes to the DAG's workflow, from wherever."""

from typing import Any

from temporalio.client import Client, WithStartWorkflowOperation
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from ...model.dag.views import Registration
from ...model.run.identity import dag_workflow_id
from ...model.sizes import check_spec_size
from ...model.spec.dag import DagSpec


async def register_dag(client: Client, spec: DagSpec, task_queue: str, **options: Any) -> Registration:
    """Has the DAG's workflow take *spec* on, and starts it if there is none. *options* are for the call.

    Raises InvalidInputError for a DAG that is too large.
    """
    check_spec_size(spec.dag_id, spec.model_dump_json())
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
