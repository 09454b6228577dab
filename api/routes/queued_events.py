"""What DAGs have gathered for their next runs: listed, and taken off (Airflow: queued asset events)."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response

from ...model.asset.gathering import Gathered
from ...worker.service.connection import NotFoundError
from ..auth.access import authorise, check_tags
from ..auth.tokens import Person
from ..dependencies import Source, UtcDateTime
from ..read.cached_client import CachedClient
from ..read.concurrency import each
from ..responses.common import asset_number
from .assets import named_asset

router = APIRouter()
OF_DAG = "/api/v2/dags/{dag_id}/assets/queuedEvents"
OF_DAG_AND_ASSET = "/api/v2/dags/{dag_id}/assets/{asset_id}/queuedEvents"
OF_ASSET = "/api/v2/assets/{asset_id}/queuedEvents"
Who = Annotated[Person, Depends(authorise)]


def _event(dag_id: str, name: str, row: Gathered) -> dict[str, Any]:
    """Airflow: QueuedEventResponse."""
    return {
        "dag_id": dag_id,
        "asset_id": asset_number(row.name),
        "created_at": row.since.isoformat(),
        "dag_display_name": name,
    }


async def _queued(client: CachedClient, dag_id: str, before: datetime | None) -> list[dict[str, Any]]:
    rows = await client.tidemill.dags.gathered(dag_id)
    name = await client.display_name(dag_id)
    return [_event(dag_id, name, row) for row in rows if before is None or row.since < before]


@router.get(OF_DAG)
async def get_queued_of_dag(client: Source, dag_id: str, before: UtcDateTime | None = None) -> dict[str, Any]:
    """The assets that are there for the DAG's next run."""
    found = await _queued(client, dag_id, before)
    if not found:
        await client.view(dag_id)
    return {"queued_events": found, "total_entries": len(found)}


@router.get(OF_DAG_AND_ASSET)
async def get_queued_of_both(
    client: Source, dag_id: str, asset_id: int, before: UtcDateTime | None = None
) -> dict[str, Any]:
    """An asset that is there for the DAG's next run. 404 where it is not."""
    for one in await _queued(client, dag_id, before):
        if one["asset_id"] == asset_id:
            return one
    raise NotFoundError(f"asset {asset_id} is not there for the next run of DAG {dag_id!r}")


@router.get(OF_ASSET)
async def get_queued_of_asset(client: Source, asset_id: int, before: UtcDateTime | None = None) -> dict[str, Any]:
    """The DAGs for whose next run the asset is there."""
    view = await named_asset(client, asset_id)
    parts = await each(view.consumers, lambda dag_id: _queued(client, dag_id, before))
    found = [one for part in parts for one in part if one["asset_id"] == asset_id]
    return {"queued_events": found, "total_entries": len(found)}


@router.delete(OF_DAG, status_code=204, name="delete_dag_asset_queued_events")
async def unqueue_of_dag(client: Source, dag_id: str, before: UtcDateTime | None = None) -> Response:
    """Has what is there for the DAG's next run count as not there. 404 where there is nothing."""
    return _taken_off(await client.tidemill.dags.unqueue(dag_id, before=before), f"DAG {dag_id!r}")


@router.delete(OF_DAG_AND_ASSET, status_code=204, name="delete_dag_asset_queued_event")
async def unqueue_of_both(client: Source, dag_id: str, asset_id: int, before: UtcDateTime | None = None) -> Response:
    """Has an asset count as not there for the DAG's next run. 404 where it is not."""
    view = await named_asset(client, asset_id)
    return _taken_off(await client.tidemill.dags.unqueue(dag_id, view.name, before), f"DAG {dag_id!r}")


@router.delete(OF_ASSET, status_code=204, name="delete_asset_queued_events")
async def unqueue_of_asset(client: Source, asset_id: int, person: Who, before: UtcDateTime | None = None) -> Response:
    """Has an asset count as not there for the next run of any DAG. 404 where it is there for none."""
    view = await named_asset(client, asset_id)
    waiting = [dag_id for dag_id in view.consumers if await _queued(client, dag_id, before)]
    for dag_id in waiting:
        await check_tags(client, person, dag_id)
    taken = [await client.tidemill.dags.unqueue(dag_id, view.name, before) for dag_id in waiting]
    return _taken_off(sum(taken), f"asset {view.name!r}")


def _taken_off(number: int, what: str) -> Response:
    if not number:
        raise NotFoundError(f"nothing is queued of {what}")
    return Response(status_code=204)
