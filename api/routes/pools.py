"""Pools: their slots, and who holds them."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from ...model.errors import InvalidInputError
from ...model.names import LIMIT
from ...model.pool.state import PoolSettings, PoolView
from ...model.spec.tasks.base import DEFAULT_POOL
from ...model.states import RunState
from ...worker.service.connection import NotFoundError
from ..dependencies import Limit, Offset, Source, UpdateMask
from ..errors import TakenError
from ..read.cached_client import CachedClient
from ..read.filters import matches, ordered, page
from ..refusals import BadRequestError
from ..responses.common import Answer, Body
from .bulk import BulkAnswer, BulkBody, BulkOutcomes, Delete

router = APIRouter()
UNLIMITED = -1
"""Airflow's number for a pool without a limit."""


class PoolAnswer(Answer):
    """Airflow: PoolResponse."""

    name: str
    slots: int
    description: str | None
    include_deferred: bool
    occupied_slots: int
    running_slots: int
    queued_slots: int
    scheduled_slots: int
    open_slots: int
    deferred_slots: int
    team_name: str | None

    @classmethod
    def of(cls, view: PoolView) -> "PoolAnswer":
        return cls(
            name=view.name,
            slots=view.settings.slots,
            description=view.settings.description,
            include_deferred=view.settings.include_deferred,
            occupied_slots=view.occupied_slots,
            running_slots=view.occupied_slots,
            queued_slots=0,
            scheduled_slots=len(view.queued),
            open_slots=UNLIMITED if view.open_slots is None else view.open_slots,
            deferred_slots=0,
            team_name=None,
        )


async def _default_pool(client: CachedClient, views: list[PoolView]) -> PoolAnswer:
    """Airflow's pool of tasks that name none: here they are in none. The limit of all tasks is listed by itself."""
    running = sum(row.counts.get("running", 0) for row in await client.all_runs() if row.state is RunState.RUNNING)
    held = {key for view in views if not view.name.startswith(LIMIT) for key in view.holders}
    shown = PoolView(
        name=DEFAULT_POOL,
        settings=PoolSettings(slots=UNLIMITED, description="Tasks that name no pool"),
        occupied_slots=max(0, running - len(held)),
        open_slots=None,
        holders=(),
        queued=(),
    )
    return PoolAnswer.of(shown)


class PoolCollection(Answer):
    pools: list[PoolAnswer]
    total_entries: int


class PoolBody(Body):
    name: str
    slots: int
    description: str | None = None
    include_deferred: bool = False
    team_name: str | None = None


class PoolPatch(Body):
    pool: str | None = None
    name: str | None = None
    slots: int | None = None
    description: str | None = None
    include_deferred: bool | None = None
    team_name: str | None = None


@router.get("/api/v2/pools")
async def get_pools(
    client: Source,
    limit: Limit = 50,
    offset: Offset = 0,
    order_by: Annotated[list[str], Query()] = ["id"],  # noqa: B006
    pool_name_pattern: str | None = None,
    pool_name_prefix_pattern: str | None = None,
) -> PoolCollection:
    """Pools that people have made, and what stands for tasks that name none."""
    wanted = {"pool_name_pattern": pool_name_pattern, "pool_name_prefix_pattern": pool_name_prefix_pattern}
    views = await client.tidemill.pools.list()
    found = [await _default_pool(client, views), *map(PoolAnswer.of, views)]
    found = [pool for pool in found if matches(pool, wanted, {"pool_name": lambda pool: pool.name})]
    orders: dict[str, Any] = {name: lambda pool: pool.name for name in ("id", "pool", "name")}
    orders["slots"] = lambda pool: pool.slots
    part = page(ordered(found, order_by, orders), limit, offset)
    return PoolCollection(pools=part.items, total_entries=part.total)


@router.get("/api/v2/pools/{pool_name:path}")
async def get_pool(client: Source, pool_name: str) -> PoolAnswer:
    """A pool."""
    if pool_name == DEFAULT_POOL:
        return await _default_pool(client, await client.tidemill.pools.list())
    return PoolAnswer.of(await client.tidemill.pools.describe(pool_name))


@router.post("/api/v2/pools", status_code=201, name="post_pool")
async def make_pool(client: Source, body: PoolBody) -> PoolAnswer:
    """Makes a pool."""
    if body.name == DEFAULT_POOL or any(view.name == body.name for view in await client.tidemill.pools.list()):
        raise TakenError(f"pool {body.name!r} is taken by a pool that there is. Change that one")
    return await _set(client, body.name, body.slots, body.description, body.include_deferred)


@router.patch("/api/v2/pools/{pool_name:path}")
async def patch_pool(client: Source, pool_name: str, body: PoolPatch, update_mask: UpdateMask = None) -> PoolAnswer:
    """Changes a pool. Slots that are held stay held."""
    _not_the_default(pool_name)
    before = PoolAnswer.of(await client.tidemill.pools.describe(pool_name))
    given = body.model_dump(exclude_none=True, include=set(update_mask) if update_mask else None)
    if given.pop("pool", pool_name) != pool_name or given.pop("name", pool_name) != pool_name:
        raise BadRequestError("a pool keeps its name. Make another one")
    missing = [name for name in ("slots", "include_deferred") if getattr(body, name) is None]
    if not update_mask and missing:
        raise InvalidInputError(f"{missing[0]} is missing. Give it, or name in update_mask what is to change")
    known = {**before.model_dump(), **given}
    return await _set(client, pool_name, known["slots"], known["description"], known["include_deferred"])


def _not_the_default(name: str) -> None:
    if name == DEFAULT_POOL:
        raise BadRequestError(
            f"{DEFAULT_POOL} stands for tasks that name no pool, and is not changed. TIDEMILL_PARALLELISM limits all"
        )


async def _set(client: Source, name: str, slots: int, description: str | None, include_deferred: bool) -> PoolAnswer:
    settings = PoolSettings(slots=slots, description=description, include_deferred=include_deferred)
    return PoolAnswer.of(await client.tidemill.pools.configure(name, settings))


@router.patch("/api/v2/pools", name="bulk_pools")
async def change_pools(client: Source, body: BulkBody[PoolBody]) -> BulkAnswer:
    """Makes, changes and removes several pools."""
    outcomes = BulkOutcomes()
    for action in body.actions:
        there = {view.name: PoolAnswer.of(view) for view in await client.tidemill.pools.list()}
        for entity, name in outcomes.planned(action, lambda pool: pool.name, there):
            try:
                if name == DEFAULT_POOL and getattr(entity, "slots", None) == UNLIMITED:
                    outcomes.done(action.action, name)  # a list that was exported here is taken in again
                    continue
                _not_the_default(name)
                if isinstance(entity, str) or isinstance(action, Delete):
                    await client.tidemill.pools.delete(name)
                else:
                    await _overwrite(client, entity, there.get(name), getattr(action, "update_mask", None))
            except (InvalidInputError, NotFoundError) as error:
                outcomes.failed(action.action, error)
            else:
                outcomes.done(action.action, name)
    return outcomes.answer


async def _overwrite(client: Source, body: PoolBody, before: PoolAnswer | None, fields: list[str] | None) -> None:
    given = body.model_dump(include=set(fields) if fields is not None else body.model_fields_set)
    known = {**(before.model_dump() if before is not None else body.model_dump()), **given}
    await _set(client, body.name, known["slots"], known["description"], known["include_deferred"])


@router.delete("/api/v2/pools/{pool_name:path}", status_code=204)
async def delete_pool(client: Source, pool_name: str) -> Response:
    """Ends a pool that nobody uses."""
    _not_the_default(pool_name)
    await client.tidemill.pools.delete(pool_name)
    return Response(status_code=204)
