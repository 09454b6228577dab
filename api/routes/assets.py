"""Assets: lists, one of them, their events, telling of an event, having one made."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import AwareDatetime

from ...model.asset.events import AssetEvent
from ...model.asset.state import AssetView
from ...model.errors import InvalidInputError
from ...model.run.identity import TriggerRequest
from ...model.run.instance_keys import UNMAPPED
from ...model.spec.assets.condition import assets_in
from ...model.spec.timetables import waited_for
from ...worker.service.connection import NotFoundError
from ...worker.service.shown_secrets import without_secrets
from ..auth.access import authorise
from ..auth.tokens import Person, user_name
from ..dependencies import Limit, Offset, Source, UtcDateTime
from ..errors import ConflictError
from ..read.cached_client import CachedClient
from ..read.concurrency import after_change, each
from ..read.filters import matches, ordered, page
from ..read.notes import noted
from ..refusals import bad_requests
from ..responses.common import Body, Note, asset_number, number_of
from ..responses.dags import asset_expression
from ..responses.runs import RunAnswer, just_made, run_answer
from .runs import version_in_place_of

router = APIRouter()
AT_ONCE = 20
"""How many assets are asked at a time."""
BEGINNING = "1970-01-01T00:00:00Z"


async def _views(client: CachedClient) -> list[AssetView]:
    return await each(await client.assets(), client.asset)


async def named_asset(client: CachedClient, number: int) -> AssetView:
    """The asset that a number means. Raises NotFoundError."""
    for name in await client.assets():
        if asset_number(name) == number:
            return await client.asset(name)
    raise NotFoundError(f"there is no asset {number}")


def asset_answer(view: AssetView) -> dict[str, Any]:
    """Airflow: AssetResponse."""
    since = BEGINNING
    last = view.last_event
    tied = {"created_at": since, "updated_at": since}
    return {
        "id": asset_number(view.name),
        "name": view.name,
        "uri": view.uri,
        "group": view.group,
        "extra": without_secrets(view.extra),
        "created_at": since,
        "updated_at": last.timestamp.isoformat() if last is not None else since,
        "scheduled_dags": [{"dag_id": dag_id, **tied} for dag_id in view.consumers],
        "producing_tasks": [
            {"dag_id": dag_id, "task_id": task_id, **tied}
            for dag_id, tasks in view.producers.items()
            for task_id in tasks
        ],
        "consuming_tasks": [],
        "aliases": [],
        "watchers": [{"name": name, "trigger_id": number_of("watcher", view.name, name), "created_date": since}
                     for name in view.watchers],
        "last_asset_event": {
            "id": event_number(last) if last is not None else None,
            "timestamp": last.timestamp.isoformat() if last is not None else None,
        },
    }  # fmt: skip


def event_number(event: AssetEvent) -> int:
    return number_of("event", event.name, event.cause)


def event_answer(event: AssetEvent, group: str) -> dict[str, Any]:
    """Airflow: AssetEventResponse."""
    return {
        "id": event_number(event),
        "asset_id": asset_number(event.name),
        "uri": event.uri,
        "name": event.name,
        "group": group,
        "extra": without_secrets(event.extra),
        "source_task_id": event.source_task_id,
        "source_dag_id": event.source_dag_id,
        "source_run_id": event.source_run_id,
        "source_map_index": event.source_map_index,
        "created_dagruns": [],
        "timestamp": event.timestamp.isoformat(),
        "partition_key": event.partition_key,
    }


@router.get("/api/v2/assets")
async def get_assets(
    client: Source,
    limit: Limit = 50,
    offset: Offset = 0,
    name_pattern: str | None = None,
    name_prefix_pattern: str | None = None,
    uri_pattern: str | None = None,
    uri_prefix_pattern: str | None = None,
    dag_ids: Annotated[list[str], Query()] = [],  # noqa: B006
    only_active: bool = True,
    order_by: Annotated[list[str], Query()] = ["id"],  # noqa: B006
) -> dict[str, Any]:
    """The assets that DAGs name."""
    wanted = {
        "name_pattern": name_pattern,
        "name_prefix_pattern": name_prefix_pattern,
        "uri_pattern": uri_pattern,
        "uri_prefix_pattern": uri_prefix_pattern,
    }
    views = [view for view in await _views(client) if matches(view, wanted, {})]
    of_dags = {dag_id for names in dag_ids for dag_id in names.split(",")}
    views = [view for view in views if not of_dags or {*view.consumers, *view.producers} & of_dags]
    views = [view for view in views if not only_active or view.consumers or view.producers]
    orders: dict[str, Any] = {
        "id": lambda view: view.name,
        "name": lambda view: view.name,
        "uri": lambda view: view.uri,
        "group": lambda view: view.group,
        "last_asset_event_timestamp": lambda view: view.last_event.timestamp if view.last_event is not None else None,
    }
    part = page(ordered(views, order_by, orders), limit, offset)
    return {"assets": [asset_answer(view) for view in part.items], "total_entries": part.total}


class EventBody(Body):
    """Airflow: CreateAssetEventsBody."""

    asset_id: int
    partition_key: str | None = None
    extra: dict[str, Any] = {}


@router.get("/api/v2/assets/events")
async def get_events(
    client: Source,
    limit: Limit = 50,
    offset: Offset = 0,
    order_by: Annotated[list[str], Query()] = ["timestamp"],  # noqa: B006
    asset_id: int | None = None,
    source_dag_id: str | None = None,
    source_task_id: str | None = None,
    source_run_id: str | None = None,
    source_map_index: int | None = None,
    name_pattern: str | None = None,
    name_prefix_pattern: str | None = None,
    timestamp_gte: UtcDateTime | None = None,
    timestamp_gt: UtcDateTime | None = None,
    timestamp_lte: UtcDateTime | None = None,
    timestamp_lt: UtcDateTime | None = None,
) -> dict[str, Any]:
    """The last events of assets."""
    wanted = {
        "asset_id": asset_id,
        "source_dag_id": source_dag_id,
        "source_task_id": source_task_id,
        "source_run_id": source_run_id,
        "source_map_index": source_map_index,
        "name_pattern": name_pattern,
        "name_prefix_pattern": name_prefix_pattern,
        "timestamp_gte": timestamp_gte,
        "timestamp_gt": timestamp_gt,
        "timestamp_lte": timestamp_lte,
        "timestamp_lt": timestamp_lt,
    }
    names = [name for name in await client.assets() if asset_id in (None, asset_number(name))]
    found = [event for name in names for event in await client.asset_events(name)]
    found = [event for event in found if matches(event, wanted, {"asset_id": lambda event: asset_number(event.name)})]
    orders: dict[str, Any] = {
        name: lambda event, name=name: getattr(event, name)
        for name in ("timestamp", "source_dag_id", "source_task_id", "source_run_id", "source_map_index")
    }
    orders["id"] = orders["timestamp"]
    part = page(ordered(found, order_by, orders), limit, offset)
    return {"asset_events": await _event_answers(client, part.items), "total_entries": part.total}


async def _event_answers(client: CachedClient, events: Sequence[AssetEvent]) -> list[dict[str, Any]]:
    async def group_of(name: str) -> tuple[str, str]:
        return name, (await client.asset(name)).group

    groups = dict(await each(sorted({event.name for event in events}), group_of))
    return [event_answer(event, groups.get(event.name, "asset")) for event in events]


@router.post("/api/v2/assets/events", name="create_asset_event")
async def make_event(client: Source, body: EventBody) -> dict[str, Any]:
    """Tells an asset that it was updated from outside."""
    view = await named_asset(client, body.asset_id)
    extra = {**body.extra, "from_rest_api": True} if "extra" in body.model_fields_set else {}  # as Airflow marks it
    event = await client.tidemill.assets.emit(view.name, extra=extra, partition_key=body.partition_key)
    assert event is not None  # noqa: S101 - its cause is new
    client.asset_changed(view.name)
    return event_answer(event, view.group)


@router.get("/api/v2/assets/{asset_id}")
async def get_asset(client: Source, asset_id: int) -> dict[str, Any]:
    """An asset."""
    return asset_answer(await named_asset(client, asset_id))


class MaterializeBody(Body):
    """Airflow: MaterializeAssetBody."""

    dag_run_id: str | None = None
    data_interval_start: AwareDatetime | None = None
    data_interval_end: AwareDatetime | None = None
    logical_date: AwareDatetime | None = None
    run_after: AwareDatetime | None = None
    conf: dict[str, Any] | None = None
    note: Note = None
    partition_key: str | None = None


@router.post("/api/v2/assets/{asset_id}/materialize", name="materialize_asset")
async def materialize(
    client: Source, asset_id: int, person: Annotated[Person, Depends(authorise)], body: MaterializeBody | None = None
) -> RunAnswer:
    """Has the DAG run that writes the asset."""
    given = body or MaterializeBody()
    if given.partition_key is not None:
        raise InvalidInputError("partition_key: runs by hand have none here. Leave it out, or make a backfill")
    request = TriggerRequest(
        run_id=given.dag_run_id, conf=given.conf or {}, triggering_user_name=user_name(person),
        **given.model_dump(include={"data_interval_start", "data_interval_end", "logical_date", "run_after"}),
    )  # fmt: skip
    asset = await named_asset(client, asset_id)
    if not asset.producers:
        raise NotFoundError(f"asset {asset.name!r} is written by no DAG")
    if len(asset.producers) > 1:
        raise ConflictError(f"asset {asset.name!r} is written by {', '.join(asset.producers)}: trigger one of them")
    with bad_requests():
        made = await client.tidemill.assets.materialize(asset.name, request)
    await client.changed(made.dag_id)
    await client.note([(made.dag_id, made.run_id, "", UNMAPPED)], given.note)
    seen = await after_change(client.run(made.dag_id, made.run_id), lambda: just_made(made))
    return (
        await noted(client.notes, [run_answer(made.dag_id, seen, made, await version_in_place_of(client, made.dag_id))])
    )[0]


@router.get("/ui/dependencies")
async def get_dependencies(
    client: Source,
    node_id: str | None = None,
    dependency_type: Literal["scheduling", "data"] = "scheduling",  # noqa: ARG001 - there is one graph
) -> dict[str, Any]:
    """The graph of DAGs and assets; *node_id*: only what leads to it or comes of it."""
    nodes: dict[str, dict[str, Any]] = {}
    edges: list[dict[str, Any]] = []
    for view in await _views(client):
        asset = f"asset:{asset_number(view.name)}"
        nodes[asset] = {"id": asset, "label": view.name, "type": "asset"}
        for dag_id in (*view.producers, *view.consumers):
            nodes[f"dag:{dag_id}"] = {"id": f"dag:{dag_id}", "label": dag_id, "type": "dag"}
        edges += [{"source_id": f"dag:{dag_id}", "target_id": asset} for dag_id in view.producers]
        edges += [{"source_id": asset, "target_id": f"dag:{dag_id}"} for dag_id in view.consumers]
    if node_id is not None:
        if node_id not in nodes:
            raise NotFoundError(f"there is no {node_id!r} in the graph of assets")
        near = connected(node_id, edges)
        nodes = {name: node for name, node in nodes.items() if name in near}
        edges = [edge for edge in edges if edge["source_id"] in near]
    return {"nodes": [*nodes.values()], "edges": edges}


def connected(start: str, edges: list[dict[str, Any]]) -> set[str]:
    """All that can be reached from *start*, in either direction."""
    beside: dict[str, set[str]] = defaultdict(set)
    for edge in edges:
        beside[edge["source_id"]].add(edge["target_id"])
        beside[edge["target_id"]].add(edge["source_id"])
    found, left = {start}, [start]
    while left:
        near = beside[left.pop()] - found
        left += near
        found |= near
    return found


@router.get("/ui/next_run_assets/{dag_id}")
async def get_next_run_assets(client: Source, dag_id: str) -> dict[str, Any]:
    """What a DAG waits for, and since when which of it is there for its next run."""
    spec = await client.spec(dag_id)
    condition = waited_for(spec.schedule)
    there = {row.name: row.since for row in await client.tidemill.dags.gathered(dag_id)}
    events: list[dict[str, Any]] = [
        {
            "id": asset_number(asset.name),
            "name": asset.name,
            "uri": asset.uri,
            "last_update": there[asset.name].isoformat() if asset.name in there else None,
            "received_count": 0,  # of partitions
            "required_count": 1,
            "received_keys": [],
            "required_keys": [],
            "is_rollup": False,
            "mapper_error": False,
            "asset_inactive": False,
        }
        for asset in {asset.name: asset for asset in (assets_in(condition) if condition is not None else ())}.values()
    ]
    return {"asset_expression": asset_expression(spec), "events": events, "pending_partition_count": None}


@router.get("/api/v2/dags/{dag_id}/dagRuns/{dag_run_id}/upstreamAssetEvents")
async def get_upstream_events(client: Source, dag_id: str, dag_run_id: str) -> dict[str, Any]:
    """The events that a run was made for."""
    details = await client.details(dag_id, await client.run(dag_id, dag_run_id))
    events = details.run.asset_events if details is not None else ()
    found = await _event_answers(client, events)
    return {"asset_events": found, "total_entries": len(found)}
