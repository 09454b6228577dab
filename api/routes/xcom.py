"""Results of tasks."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from ...model.run.instance_keys import UNMAPPED
from ...model.run.state import DagRunState
from ...model.run.views import RunView
from ...model.spec.references import is_stored
from ...worker.service.connection import NotFoundError
from ..dependencies import Limit, Offset, Source, UtcDateTime
from ..read.cached_client import CachedClient
from ..read.concurrency import each
from ..read.filters import matches, ordered, page
from ..responses.common import Answer
from ..responses.tasks import shown_name
from .runs import known_runs
from .task_instances import INSTANCE, MAX_RUNS

router = APIRouter()
LARGE = "a large result: it is kept below TIDEMILL_XCOM_URL, and tasks read it by ti.xcom_pull"


class ResultEntry(Answer):
    """Airflow: XComResponse."""

    key: str
    timestamp: datetime
    logical_date: datetime | None
    map_index: int
    task_id: str
    dag_id: str
    run_id: str
    dag_display_name: str
    task_display_name: str
    run_after: datetime


class ResultAnswer(ResultEntry):
    """Airflow: XComResponseNative, or with `stringify` XComResponseString."""

    value: Any


class ResultCollection(Answer):
    """Airflow: XComCollectionResponse."""

    xcom_entries: list[ResultEntry]
    total_entries: int


class ResultFilters(BaseModel):
    """What lists of results can be narrowed by (Airflow's parameters)."""

    model_config = ConfigDict(extra="forbid")

    limit: Limit = 50
    offset: Offset = 0
    map_index: Annotated[int | None, Field(ge=-1)] = None
    map_index_filter: int | None = None
    xcom_key: str | None = None
    xcom_key_pattern: str | None = None
    xcom_key_prefix_pattern: str | None = None
    dag_display_name_pattern: str | None = None
    dag_display_name_prefix_pattern: str | None = None
    run_id_pattern: str | None = None
    run_id_prefix_pattern: str | None = None
    task_id_pattern: str | None = None
    task_id_prefix_pattern: str | None = None
    logical_date_gte: UtcDateTime | None = None
    logical_date_gt: UtcDateTime | None = None
    logical_date_lte: UtcDateTime | None = None
    logical_date_lt: UtcDateTime | None = None
    run_after_gte: UtcDateTime | None = None
    run_after_gt: UtcDateTime | None = None
    run_after_lte: UtcDateTime | None = None
    run_after_lt: UtcDateTime | None = None
    order_by: list[str] = ["dag_id", "task_id", "run_id", "map_index", "key"]


FIELDS: dict[str, Any] = {"xcom_key": lambda one: one.key, "map_index_filter": lambda one: one.map_index}
ORDERS: dict[str, Any] = {
    name: lambda one, name=name: getattr(one, name)
    for name in ("key", "dag_id", "run_id", "task_id", "map_index", "timestamp", "run_after")
}


def _results(state: DagRunState, run: RunView) -> list[ResultAnswer]:
    """What the tasks of a run have returned and pushed."""
    return [
        ResultAnswer(
            key=name,
            timestamp=instance.ended_at or run.run_after,
            logical_date=run.logical_date,
            map_index=instance.map_index,
            task_id=instance.task_id,
            dag_id=state.spec.dag_id,
            run_id=run.run_id,
            dag_display_name=state.spec.display_name,
            task_display_name=shown_name(state.spec, instance.task_id),
            run_after=run.run_after,
            value=LARGE if is_stored(value) else value,
        )
        for instance in state.instances.values()
        for name, value in instance.xcom.items()
    ]


async def _of_run(client: CachedClient, dag_id: str, run_id: str) -> list[ResultAnswer]:
    """Those of a run; of one that is not there none, as in Airflow. Raises NotFoundError without such a DAG."""
    await client.view(dag_id)
    try:
        run = await client.run(dag_id, run_id)
    except NotFoundError:
        return []
    state = await client.state(dag_id, run)
    return _results(state, run) if state is not None else []


async def _of_task(client: CachedClient, dag_id: str, run_id: str, task_id: str) -> list[ResultAnswer]:
    """Those of one task. Raises NotFoundError where the run has no such task."""
    run = await client.run(dag_id, run_id)
    state = await client.state(dag_id, run)
    if state is None or not state.of_task(task_id):
        raise NotFoundError(f"run {run_id!r} of DAG {dag_id!r} has no task {task_id!r} that has begun")
    return [one for one in _results(state, run) if one.task_id == task_id]


@router.get(INSTANCE + "/xcomEntries")
async def get_results(
    client: Source, dag_id: str, dag_run_id: str, task_id: str, filters: Annotated[ResultFilters, Query()]
) -> ResultCollection:
    """What tasks have returned and pushed, without the values; for `~` as run those of the newest runs."""
    wanted = filters.model_dump()
    if "~" in (dag_id, dag_run_id):
        runs = sorted(await known_runs(client, dag_id), key=lambda run: run.run_after, reverse=True)
        runs = [run for run in runs if run.state != "queued" and dag_run_id in ("~", run.dag_run_id)][:MAX_RUNS]
        parts = await each(runs, lambda run: _of_run(client, run.dag_id, run.dag_run_id))
        found = [one for part in parts for one in part if task_id in ("~", one.task_id)]
    elif task_id == "~":
        found = await _of_run(client, dag_id, dag_run_id)
    else:
        found = await _of_task(client, dag_id, dag_run_id, task_id)
    found = ordered([one for one in found if matches(one, wanted, FIELDS)], filters.order_by, ORDERS)
    part = page(found, filters.limit, filters.offset)
    entries = [ResultEntry(**one.model_dump(exclude={"value"})) for one in part.items]
    return ResultCollection(xcom_entries=entries, total_entries=part.total)


@router.get(INSTANCE + "/xcomEntries/{xcom_key:path}")
async def get_result(
    client: Source,
    dag_id: str,
    dag_run_id: str,
    task_id: str,
    xcom_key: str,
    map_index: int = UNMAPPED,
    deserialize: bool = False,  # noqa: ARG001 - values are plain data already
    stringify: bool = False,
) -> ResultAnswer:
    """A result, with its value."""
    for one in await _of_task(client, dag_id, dag_run_id, task_id):
        if (one.key, one.map_index) == (xcom_key, map_index):
            return one.model_copy(update={"value": str(one.value)}) if stringify else one
    raise NotFoundError(f"task {task_id!r} of run {dag_run_id!r} has no result {xcom_key!r}")
