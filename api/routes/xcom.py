"""Results of tasks."""

from typing import Any

from fastapi import APIRouter

from ...model.run.instance_keys import UNMAPPED, instance_key
from ...model.spec.references import is_stored
from ...worker.connection import NotFoundError
from ..dependencies import Here, Limit, Offset
from ..errors import NotOfferedError
from ..read.filters import page
from ..read.instances import instances_of
from ..read.source import Source
from ..responses.tasks import shown_name
from .task_instances import INSTANCE

router = APIRouter()
LARGE = "a large result: it is kept below TIDEMILL_XCOM_URL, and tasks read it by ti.xcom_pull"


async def _results(source: Source, dag_id: str, run_id: str, task_id: str, map_index: int) -> list[dict[str, Any]]:
    run = await source.run(dag_id, run_id)
    state = await source.state(dag_id, run)
    key = instance_key(task_id, map_index)
    if state is None or key not in state.instances:
        raise NotFoundError(f"run {run_id!r} of DAG {dag_id!r} has no task {key!r} that has begun")
    instance = state.instances[key]
    ended = instance.ended_at or run.run_after
    return [
        {
            "key": name,
            "timestamp": ended.isoformat(),
            "logical_date": run.logical_date.isoformat() if run.logical_date is not None else None,
            "map_index": map_index,
            "task_id": task_id,
            "dag_id": dag_id,
            "run_id": run_id,
            "dag_display_name": state.spec.display_name,
            "task_display_name": shown_name(state.spec, task_id),
            "run_after": run.run_after.isoformat(),
            "value": LARGE if is_stored(value) else value,
        }
        for name, value in instance.xcom.items()
    ]


@router.get(INSTANCE + "/xcomEntries")
async def get_results(
    source: Here,
    dag_id: str,
    dag_run_id: str,
    task_id: str,
    map_index: int | None = None,
    xcom_key: str | None = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> dict[str, Any]:
    """What a task has returned and pushed, without the values."""
    if "~" in (dag_id, dag_run_id, task_id):
        raise NotOfferedError("results are listed task by task: name the DAG, the run and the task")
    if map_index is None:
        _, _, views = await instances_of(source, dag_id, dag_run_id)
        indices = [view.map_index for view in views if view.task_id == task_id] or [UNMAPPED]
    else:
        indices = [map_index]
    found = [one for index in indices for one in await _results(source, dag_id, dag_run_id, task_id, index)]
    part = page([one for one in found if xcom_key in (None, one["key"])], limit, offset)
    entries = [{name: value for name, value in one.items() if name != "value"} for one in part.items]
    return {"xcom_entries": entries, "total_entries": part.total}


@router.get(INSTANCE + "/xcomEntries/{xcom_key}")
async def get_result(
    source: Here,
    dag_id: str,
    dag_run_id: str,
    task_id: str,
    xcom_key: str,
    map_index: int = UNMAPPED,
    deserialize: bool = False,  # noqa: ARG001 - values are plain data already
    stringify: bool = False,
) -> dict[str, Any]:
    """A result, with its value."""
    for one in await _results(source, dag_id, dag_run_id, task_id, map_index):
        if one["key"] == xcom_key:
            return {**one, "value": str(one["value"])} if stringify else one
    raise NotFoundError(f"task {task_id!r} of run {dag_run_id!r} has no result {xcom_key!r}")
