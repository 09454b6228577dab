"""Values that tasks keep of themselves and of assets, over tries and runs (Airflow: task and asset state stores)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import AwareDatetime, JsonValue, field_validator

from ...activities.attempts.key_values import Kept, asset_scopes
from ...model.errors import InvalidInputError
from ...model.run.attempts import task_path
from ...model.run.instance_keys import UNMAPPED
from ...worker.service.connection import NotFoundError
from ..dependencies import Limit, Offset, Source
from ..read.cached_client import CachedClient
from ..read.filters import page
from ..read.instances import instances_of, one_instance
from ..read.stores import in_time
from ..responses.common import Answer, Body
from .assets import named_asset

router = APIRouter()
T = TypeVar("T")
OF_ASSET = "/api/v2/assets/{asset_id}/state-store"
OF_TASK = "/api/v2/dags/{dag_id}/dagRuns/{dag_run_id}/taskInstances/{task_id}/state-store"
KEPT_FOR = timedelta(days=30)
"""Of a task's values unless it is said (Airflow: [state_store] default_retention_days)."""


class ValueBody(Body):
    """Airflow: AssetStateStoreBody, TaskStateStorePatchBody."""

    value: JsonValue

    @field_validator("value")
    @classmethod
    def _is_one(cls, value: JsonValue) -> JsonValue:
        if value is None:
            raise ValueError("value is null: delete the key instead")
        return value


class TaskValueBody(ValueBody):
    """Airflow: TaskStateStoreBody."""

    expires_at: AwareDatetime | Literal["default"] | None = "default"


class AssetValue(Answer):
    """Airflow: AssetStateStoreResponse."""

    key: str
    value: JsonValue
    updated_at: datetime
    last_updated_by: dict[str, Any] | None = None


class TaskValue(Answer):
    """Airflow: TaskStateStoreResponse."""

    key: str
    value: JsonValue
    updated_at: datetime
    expires_at: datetime | None = None


class AssetValues(Answer):
    """Airflow: AssetStateStoreCollectionResponse."""

    asset_state_store: list[AssetValue]
    total_entries: int


class TaskValues(Answer):
    """Airflow: TaskStateStoreCollectionResponse."""

    task_state_store: list[TaskValue]
    total_entries: int


async def _kept(client: CachedClient, scopes: tuple[str, ...]) -> dict[str, Kept]:
    """What is kept in *scopes*, by its key; of one key in several of them that of the first."""

    def read() -> dict[str, Kept]:
        values = client.values
        found = {key: (scope, key) for scope in reversed(scopes) for key in values.keys(scope)}
        kept = {key: values.find(scope, name) for key, (scope, name) in sorted(found.items())}
        return {key: one for key, one in kept.items() if one is not None}

    return await _answered(read)


async def _one(client: CachedClient, scopes: tuple[str, ...], key: str) -> Kept:
    for scope in scopes:
        found = await _answered(partial(client.values.find, scope, key))
        if found is not None:
            return found
    raise NotFoundError(f"nothing is kept as {key!r}")


async def _put(client: CachedClient, scope: str, key: str, value: JsonValue, until: datetime | None) -> Response:
    text = until.isoformat() if until is not None else None
    try:
        return await _changed(lambda: client.values.put(scope, key, value, text))
    except ValueError as error:
        raise InvalidInputError(f"value: {error}") from None


async def _delete(client: CachedClient, scopes: tuple[str, ...], key: str | None = None) -> Response:
    def remove() -> None:
        values = client.values
        for scope in scopes:
            for name in values.keys(scope) if key is None else [key]:
                values.delete(scope, name)

    return await _changed(remove)


async def _changed(change: Callable[[], None]) -> Response:
    """Carries *change* out, and says so."""
    await _answered(change)
    return Response(status_code=204)


async def _answered(work: Callable[[], T]) -> T:
    """Return what the store answers. Raises HTTPException where it does not."""
    try:
        return await in_time(work)
    except OSError as error:
        raise HTTPException(503, f"values beside the results: {error.strerror or error}") from None


async def _of_asset(client: CachedClient, asset_id: int) -> tuple[str, ...]:
    view = await named_asset(client, asset_id)
    return asset_scopes(view.name, view.uri)


@router.get(OF_ASSET)
async def get_values_of_asset(client: Source, asset_id: int, limit: Limit = 50, offset: Offset = 0) -> AssetValues:
    """What tasks keep of the asset."""
    kept = await _kept(client, await _of_asset(client, asset_id))
    part = page([AssetValue(key=key, value=one.value, updated_at=one.updated_at) for key, one in kept.items()],
                limit, offset)  # fmt: skip
    return AssetValues(asset_state_store=part.items, total_entries=part.total)


@router.delete(OF_ASSET, status_code=204)
async def clear_values_of_asset(client: Source, asset_id: int) -> Response:
    """Forgets all that is kept of the asset."""
    return await _delete(client, await _of_asset(client, asset_id))


@router.get(OF_ASSET + "/{key:path}")
async def get_value_of_asset(client: Source, asset_id: int, key: str) -> AssetValue:
    """A value that is kept of the asset."""
    one = await _one(client, await _of_asset(client, asset_id), key)
    return AssetValue(key=key, value=one.value, updated_at=one.updated_at)


@router.put(OF_ASSET + "/{key:path}", status_code=204)
async def set_value_of_asset(client: Source, asset_id: int, key: str, body: ValueBody) -> Response:
    """Keeps a value of the asset."""
    return await _put(client, (await _of_asset(client, asset_id))[0], key, body.value, None)


@router.delete(OF_ASSET + "/{key:path}", status_code=204)
async def delete_value_of_asset(client: Source, asset_id: int, key: str) -> Response:
    """Forgets a value of the asset, if there is one."""
    return await _delete(client, await _of_asset(client, asset_id), key)


async def _of_task(client: CachedClient, dag_id: str, run_id: str, task_id: str, map_index: int) -> tuple[str]:
    await one_instance(client, dag_id, run_id, task_id, map_index)
    return (task_path(dag_id, run_id, task_id, map_index),)


MapIndex = Annotated[int, Query(ge=UNMAPPED)]


@router.get(OF_TASK)
async def get_values_of_task(
    client: Source, dag_id: str, dag_run_id: str, task_id: str, map_index: MapIndex = UNMAPPED,
    limit: Limit = 50, offset: Offset = 0,
) -> TaskValues:  # fmt: skip
    """What the task instance keeps."""
    kept = await _kept(client, await _of_task(client, dag_id, dag_run_id, task_id, map_index))
    part = page(
        [TaskValue(key=key, **one.model_dump(exclude={"description"})) for key, one in kept.items()], limit, offset
    )
    return TaskValues(task_state_store=part.items, total_entries=part.total)


@router.delete(OF_TASK, status_code=204)
async def clear_values_of_task(
    client: Source, dag_id: str, dag_run_id: str, task_id: str, map_index: MapIndex = UNMAPPED,
    all_map_indices: bool = False,
) -> Response:  # fmt: skip
    """Forgets all that the task instance keeps, or all instances of the task."""
    if not all_map_indices:
        return await _delete(client, await _of_task(client, dag_id, dag_run_id, task_id, map_index))
    _, views = await instances_of(client, dag_id, dag_run_id)
    indexes = [view.map_index for view in views if view.task_id == task_id]
    if not indexes:
        raise NotFoundError(f"run {dag_run_id!r} of DAG {dag_id!r} has no task {task_id!r}")
    return await _delete(client, tuple(task_path(dag_id, dag_run_id, task_id, index) for index in indexes))


@router.get(OF_TASK + "/{key:path}")
async def get_value_of_task(
    client: Source, dag_id: str, dag_run_id: str, task_id: str, key: str, map_index: MapIndex = UNMAPPED
) -> TaskValue:
    """A value that the task instance keeps."""
    one = await _one(client, await _of_task(client, dag_id, dag_run_id, task_id, map_index), key)
    return TaskValue(key=key, **one.model_dump(exclude={"description"}))


@router.put(OF_TASK + "/{key:path}", status_code=204)
async def set_value_of_task(
    client: Source, dag_id: str, dag_run_id: str, task_id: str, key: str, body: TaskValueBody,
    map_index: MapIndex = UNMAPPED,
) -> Response:  # fmt: skip
    """Keeps a value for the task instance."""
    [scope] = await _of_task(client, dag_id, dag_run_id, task_id, map_index)
    until = datetime.now(UTC) + KEPT_FOR if body.expires_at == "default" else body.expires_at
    return await _put(client, scope, key, body.value, until)


@router.patch(OF_TASK + "/{key:path}")
async def change_value_of_task(
    client: Source, dag_id: str, dag_run_id: str, task_id: str, key: str, body: ValueBody,
    map_index: MapIndex = UNMAPPED,
) -> None:  # fmt: skip
    """Changes a value that the task instance keeps already."""
    scopes = await _of_task(client, dag_id, dag_run_id, task_id, map_index)
    before = await _one(client, scopes, key)
    await _put(client, scopes[0], key, body.value, before.expires_at)


@router.delete(OF_TASK + "/{key:path}", status_code=204)
async def delete_value_of_task(
    client: Source, dag_id: str, dag_run_id: str, task_id: str, key: str, map_index: MapIndex = UNMAPPED
) -> Response:
    """Forgets a value of the task instance, if there is one."""
    return await _delete(client, await _of_task(client, dag_id, dag_run_id, task_id, map_index), key)
