"""What arrives from outside at a DAG's workflow, read with one clear error for what is wrong with it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from ..bundle.data import DagFileState
from ..errors import InvalidInputError, explain
from ..run.identity import dag_workflow_id
from ..run.messages import RunReport
from ..spec.dag import DagSpec, read_dag
from .state import DagState


def read_start(arguments: Sequence[Any], now: datetime) -> DagState:
    """The state that a DAG's workflow starts with: of a new DAG, or carried over from itself."""
    document = one_document(arguments)
    if isinstance(document, dict) and set(document) == {"state"}:
        return DagState.model_validate(document["state"])
    spec = read_dag(document)
    return DagState(spec=spec, is_paused=spec.is_paused_upon_creation, registered_at=now)


def check_workflow_id(workflow_id: str, dag_id: str) -> None:
    """One DAG has one writer: the workflow of its own id. Raises InvalidInputError for any other."""
    if workflow_id != dag_workflow_id(dag_id):
        raise InvalidInputError(
            f"workflow id = {workflow_id!r}: DAG {dag_id!r} lives at {dag_workflow_id(dag_id)!r}. "
            f"Start it with --workflow-id {dag_workflow_id(dag_id)}"
        )


def read_update(arguments: Sequence[Any], dag_id: str) -> DagSpec:
    """Another version of the DAG *dag_id*."""
    spec = read_dag(one_document(arguments))
    if spec.dag_id != dag_id:
        raise InvalidInputError(
            f"dag_id = {spec.dag_id!r}: this is the workflow of DAG {dag_id!r}. Register the other DAG at its own id"
        )
    return spec


def read_report(document: Any) -> RunReport:
    try:
        return RunReport.model_validate(document)
    except ValidationError as error:
        raise explain(error, "run_finished", RunReport) from None


def read_file_state(document: Any) -> DagFileState:
    try:
        return DagFileState.model_validate(document)
    except ValidationError as error:
        raise explain(error, "file_state", DagFileState) from None


def one_document(arguments: Sequence[Any]) -> Any:
    if len(arguments) != 1:
        raise InvalidInputError(
            f"{len(arguments)} inputs were given. Give exactly one: the DAG as a JSON object (--input-file dag.json)"
        )
    return arguments[0]
