"""The grid of a DAG, its graph, its Gantt chart and its calendar."""

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict

from ...model.errors import InvalidInputError
from ...model.run.identity import RunType
from ...model.run.views import RunDetails
from ...model.spec.dag import DagSpec
from ...model.states import RunState
from ...worker.service.connection import NotFoundError
from ..dependencies import Limit, Offset, Source, UtcDateTime
from ..read.cached_client import CachedClient
from ..read.concurrency import SILENT
from ..read.filters import matches, ordered, page
from ..read.graph import edges, reached, tree
from ..read.graph_assets import add_assets
from ..read.summaries import summaries
from ..responses.dags import version_of
from ..responses.runs import GridRun
from ..responses.tasks import shown_name, shown_state_of_try

router = APIRouter()
PLANNED = 200
"""Runs to come that a calendar shows at most."""


class Part(BaseModel):
    """Which tasks of a DAG are shown: all, or those around one."""

    model_config = ConfigDict(extra="forbid")

    root: str | None = None
    include_upstream: bool = False
    include_downstream: bool = False
    depth: Annotated[int, Query(ge=0)] | None = None

    def tasks_of(self, spec: DagSpec) -> set[str] | None:
        """The tasks; None for all. Raises NotFoundError for one that is not there."""
        if self.root is None:
            return None
        if self.root not in spec.by_id:
            raise NotFoundError(f"DAG {spec.dag_id!r} has no task {self.root!r}")
        found = {self.root}
        if self.include_upstream:
            found |= reached(spec.upstreams, self.root, self.depth)
        if self.include_downstream:
            found |= reached(spec.downstreams, self.root, self.depth)
        return found


class GridPart(Part):
    """What the user interface says beside of the runs that it shows."""

    offset: Offset = 0
    limit: Limit = 50
    order_by: list[str] = ["id"]
    run_after_gte: UtcDateTime | None = None
    run_after_gt: UtcDateTime | None = None
    run_after_lte: UtcDateTime | None = None
    run_after_lt: UtcDateTime | None = None
    run_type: list[RunType] = []
    state: list[RunState] = []
    triggering_user: str | None = None
    triggering_user_prefix: str | None = None


class GraphPart(Part):
    dag_id: str
    external_dependencies: bool = False
    version_number: int | None = None


@router.get("/ui/grid/structure/{dag_id}")
async def get_structure(client: Source, dag_id: str, part: Annotated[GridPart, Query()]) -> list[dict[str, Any]]:
    """The tasks of a DAG as a tree of groups: those of the version that is in place, whichever runs are shown."""
    spec = await client.spec(dag_id)
    return tree(spec, part.tasks_of(spec))


@router.get("/ui/grid/runs/{dag_id}")
async def get_grid_runs(
    client: Source,
    dag_id: str,
    offset: Offset = 0,
    limit: Limit = 50,
    order_by: Annotated[list[str], Query()] = ["id"],  # noqa: B006
    run_after_gte: UtcDateTime | None = None,
    run_after_gt: UtcDateTime | None = None,
    run_after_lte: UtcDateTime | None = None,
    run_after_lt: UtcDateTime | None = None,
    run_type: Annotated[list[RunType], Query()] = [],  # noqa: B006
    state: Annotated[list[RunState], Query()] = [],  # noqa: B006
    triggering_user: str | None = None,
    triggering_user_prefix: str | None = None,
) -> list[GridRun]:
    """The columns of the grid."""
    wanted = {
        "run_after_gte": run_after_gte,
        "run_after_gt": run_after_gt,
        "run_after_lte": run_after_lte,
        "run_after_lt": run_after_lt,
        "run_type": run_type,
        "state": state,
        "triggering_user_name_pattern": triggering_user,
        "triggering_user_name_prefix_pattern": triggering_user_prefix,
    }
    orders: dict[str, Any] = {
        "id": lambda run: (run.queued_at or run.run_after, run.run_after),
        "run_after": lambda run: run.run_after,
        "logical_date": lambda run: run.logical_date,
        "start_date": lambda run: run.started_at,
        "end_date": lambda run: run.ended_at,
    }
    found = ordered([run for run in await client.runs(dag_id) if matches(run, wanted, {})], order_by, orders)
    with_note = await client.runs_with_note(dag_id)
    return [GridRun.of(dag_id, run, has_note=run.run_id in with_note) for run in page(found, limit, offset).items]


@router.get("/ui/grid/ti_summaries/{dag_id}", response_class=StreamingResponse)
async def get_summaries(
    client: Source,
    dag_id: str,
    run_ids: Annotated[list[str], Query()] = [],  # noqa: B006
) -> StreamingResponse:
    """The cells of the grid: a line of JSON for each run."""
    await client.view(dag_id)
    return StreamingResponse(_lines(client, dag_id, run_ids), media_type="application/x-ndjson")


async def _lines(client: CachedClient, dag_id: str, run_ids: list[str]) -> AsyncIterator[str]:
    for run_id in run_ids:
        # An answer that has begun cannot be refused any more: a run that is silent is asked for again with the next.
        with suppress(NotFoundError, *SILENT):
            run = await client.run(dag_id, run_id)
            details, spec = await client.details(dag_id, run), await client.run_spec(dag_id, run)
            with_note = await client.tasks_with_note(dag_id, run_id)
            cells = []
            if details is not None and spec is not None:
                version = version_of(spec, await client.versions(dag_id), run.known_since)
                cells = summaries(spec, details, with_note, version.version_number)
            yield json.dumps({"run_id": run_id, "dag_id": dag_id, "task_instances": cells}) + "\n"


@router.get("/ui/structure/structure_data")
async def get_graph(client: Source, part: Annotated[GraphPart, Query()]) -> dict[str, Any]:
    """The graph of a DAG."""
    spec = await client.spec_of(part.dag_id, part.version_number)
    tasks = part.tasks_of(spec)
    nodes, between = tree(spec, tasks, typed=True), edges(spec, tasks)
    if part.external_dependencies:
        add_assets(spec, nodes, between)
    return {"nodes": nodes, "edges": between}


@router.get("/ui/gantt/{dag_id}/{run_id}")
async def get_gantt(client: Source, dag_id: str, run_id: str) -> dict[str, Any]:
    """Each try of each task of a run: when it was queued, began and ended."""
    run = await client.run(dag_id, run_id)
    details, spec = await client.details(dag_id, run), await client.run_spec(dag_id, run)
    rows = gantt_rows(details, spec) if details is not None and spec is not None else []
    return {"dag_id": dag_id, "run_id": run_id, "task_instances": rows}


def gantt_rows(details: RunDetails, spec: DagSpec) -> list[dict[str, Any]]:
    """A row for each try."""
    return [
        {
            "task_id": task.task_id,
            "task_display_name": shown_name(spec, task.task_id),
            "try_number": one.try_number,
            "state": shown_state_of_try(one.state),
            "scheduled_dttm": None,
            "queued_dttm": _text(one.queued_at),
            "start_date": _text(one.started_at),
            "end_date": _text(one.ended_at),
            "is_group": False,
            "is_mapped": task.task_id in spec.mapped,
        }
        for task in details.tasks
        for one in task.tries
    ]


def _text(at: datetime | None) -> str | None:
    return at.isoformat() if at is not None else None


@router.get("/ui/calendar/{dag_id}")
async def get_calendar(
    client: Source,
    dag_id: str,
    granularity: Literal["hourly", "daily"] = "daily",
    logical_date_gte: UtcDateTime | None = None,
    logical_date_gt: UtcDateTime | None = None,
    logical_date_lte: UtcDateTime | None = None,
    logical_date_lt: UtcDateTime | None = None,
    partition_date_gte: UtcDateTime | None = None,
    partition_date_gt: UtcDateTime | None = None,
    partition_date_lte: UtcDateTime | None = None,
    partition_date_lt: UtcDateTime | None = None,
) -> dict[str, Any]:
    """How many runs of which state there were in each day or hour, and how many are to come."""
    if any((partition_date_gte, partition_date_gt, partition_date_lte, partition_date_lt)):
        raise InvalidInputError("partition_date is not offered: runs are counted by their logical date")
    wanted = {
        "at_gte": logical_date_gte,
        "at_gt": logical_date_gt,
        "at_lte": logical_date_lte,
        "at_lt": logical_date_lt,
    }
    moments = [(run.logical_date or run.run_after, str(run.state)) for run in await client.runs(dag_id)]
    until = logical_date_lte or logical_date_lt
    if until is not None and until > datetime.now(UTC):
        moments += [(info.logical_date, "planned") for info in await client.tidemill.dags.upcoming(dag_id, PLANNED)]
    found = [one for one in moments if matches(one, wanted, {"at": lambda one: one[0]})]
    counts = Counter((_floor(at, granularity), state) for at, state in found)
    rows = [{"date": at.isoformat(), "state": state, "count": n} for (at, state), n in sorted(counts.items())]
    return {"dag_runs": rows, "total_entries": len(rows)}


def _floor(at: datetime, granularity: str) -> datetime:
    start = at.replace(minute=0, second=0, microsecond=0)
    return start if granularity == "hourly" else start - timedelta(hours=start.hour)
