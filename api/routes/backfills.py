"""Backfills: lists, making them, pausing and ending them."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from ...model.dag.backfill_request import BackfillRequest, ReprocessBehavior
from ...model.dag.backfills import BackfillPlan, BackfillProgress
from ...model.run.identity import backfill_run
from ...worker.service.connection import NotFoundError
from ..auth.access import authorise, check_tags
from ..auth.tokens import Person
from ..dependencies import Limit, Offset, Source, UtcDateTime
from ..errors import ConflictError
from ..read.cached_client import CachedClient
from ..read.concurrency import after_change, each
from ..read.filters import ordered, page
from ..responses.common import Answer, Body, number_of

router = APIRouter()
Who = Annotated[Person, Depends(authorise)]


class BackfillAnswer(Answer):
    """Airflow: BackfillResponse. The number stands for the DAG and the backfill's own id."""

    id: int
    dag_id: str
    from_date: datetime
    to_date: datetime
    dag_run_conf: dict[str, Any] | None
    is_paused: bool
    reprocess_behavior: str
    max_active_runs: int
    created_at: datetime
    completed_at: datetime | None
    updated_at: datetime
    dag_display_name: str

    @classmethod
    def of(cls, dag_id: str, name: str, one: BackfillProgress) -> "BackfillAnswer":
        return cls(
            id=number_of("backfill", dag_id, one.backfill_id),
            dag_id=dag_id,
            from_date=one.from_date,
            to_date=one.to_date,
            dag_run_conf=one.conf,
            is_paused=one.is_paused,
            reprocess_behavior=one.reprocess_behavior,
            max_active_runs=one.max_active_runs,
            created_at=one.created_at,
            completed_at=one.completed_at,
            updated_at=one.completed_at or datetime.now(UTC),
            dag_display_name=name,
        )


class BackfillCollection(Answer):
    backfills: list[BackfillAnswer]
    total_entries: int


class BackfillBody(Body):
    """Airflow: BackfillPostBody."""

    dag_id: str
    from_date: UtcDateTime
    to_date: UtcDateTime
    run_backwards: bool = False
    dag_run_conf: dict[str, Any] | None = None
    reprocess_behavior: ReprocessBehavior = ReprocessBehavior.NONE
    max_active_runs: int = 10
    run_on_latest_version: bool | None = True
    """Not heeded: runs that a backfill makes are of the version in place, also those that it makes again."""


async def found_in(client: CachedClient, dag_ids: list[str]) -> list[tuple[BackfillAnswer, BackfillProgress]]:
    found = [
        (BackfillAnswer.of(dag_id, await client.display_name(dag_id), one), one)
        for dag_id in dag_ids
        for one in await client.tidemill.backfills.list(dag_id)
    ]
    client.backfills_seen.update({answer.id: answer.dag_id for answer, _ in found})
    return found


async def _by_number(client: CachedClient, number: int) -> tuple[str, BackfillProgress]:
    """The backfill that a number means: where it was seen last, else wherever it is."""
    seen = client.backfills_seen.get(number)
    for dag_id in [seen] if seen is not None else [row.dag_id for row in await client.rows()]:
        for answer, one in await found_in(client, [dag_id]):
            if answer.id == number:
                return dag_id, one
    raise NotFoundError(f"there is no backfill {number}")


async def _listed(
    client: CachedClient, dag_id: str | None, active: bool | None, limit: int, offset: int, order_by: list[str]
) -> BackfillCollection:
    dag_ids = [dag_id] if dag_id is not None else [row.dag_id for row in await client.rows()]
    parts = (
        await each(dag_ids, lambda one: found_in(client, [one]))
        if dag_id is None
        else [await found_in(client, dag_ids)]
    )
    found = [answer for part in parts for answer, _ in part]
    found = [one for one in found if active is None or (one.completed_at is None) is active]
    orders: dict[str, Any] = {name: lambda one, name=name: getattr(one, name) for name in BackfillAnswer.model_fields}
    orders["id"] = lambda one: one.created_at
    part = page(ordered(found, order_by, orders), limit, offset)
    return BackfillCollection(backfills=part.items, total_entries=part.total)


@router.get("/ui/backfills")
async def get_backfills(
    client: Source,
    dag_id: str | None = None,
    active: bool | None = None,
    limit: Limit = 50,
    offset: Offset = 0,
    order_by: Annotated[list[str], Query()] = ["id"],  # noqa: B006
) -> BackfillCollection:
    """The backfills of a DAG."""
    return await _listed(client, dag_id, active, limit, offset, order_by)


@router.get("/api/v2/backfills")
async def get_public_backfills(
    client: Source,
    dag_id: str,
    limit: Limit = 50,
    offset: Offset = 0,
    order_by: Annotated[list[str], Query()] = ["id"],  # noqa: B006
) -> BackfillCollection:
    """Backfills of a DAG, newest first; none of a DAG that is not there, as in Airflow."""
    try:
        return await _listed(client, dag_id, None, limit, offset, order_by)
    except NotFoundError:
        return BackfillCollection(backfills=[], total_entries=0)


def _request(body: BackfillBody, *, dry_run: bool) -> BackfillRequest:
    return BackfillRequest(
        from_date=body.from_date,
        to_date=body.to_date,
        run_backwards=body.run_backwards,
        reprocess_behavior=body.reprocess_behavior,
        max_active_runs=body.max_active_runs,
        conf=body.dag_run_conf or {},
        dry_run=dry_run,
    )


@router.post("/api/v2/backfills", name="create_backfill")
async def make_backfill(client: Source, body: BackfillBody, person: Who) -> BackfillAnswer:
    """Runs a DAG over a range of the past."""
    await check_tags(client, person, body.dag_id)
    plan = await client.tidemill.backfills.create(body.dag_id, _request(body, dry_run=False))
    await client.changed(body.dag_id)
    seen = await after_change(client.tidemill.backfills.list(body.dag_id), list)
    for one in seen:
        if one.backfill_id == plan.backfill_id:
            return BackfillAnswer.of(body.dag_id, await client.display_name(body.dag_id), one)
    return _just_made(body, plan)


def _just_made(body: BackfillBody, plan: BackfillPlan) -> BackfillAnswer:
    """A backfill that has just been made, and of which nothing else can be seen."""
    now = datetime.now(UTC)
    return BackfillAnswer(
        id=number_of("backfill", body.dag_id, plan.backfill_id or ""),
        dag_id=body.dag_id,
        from_date=body.from_date,
        to_date=body.to_date,
        dag_run_conf=body.dag_run_conf,
        is_paused=False,
        reprocess_behavior=body.reprocess_behavior,
        max_active_runs=body.max_active_runs,
        created_at=now,
        completed_at=None,
        updated_at=now,
        dag_display_name=body.dag_id,
    )


@router.post("/api/v2/backfills/dry_run")
async def try_backfill(client: Source, body: BackfillBody, person: Who) -> dict[str, Any]:
    """Which runs it would have: the first of them, and how many."""
    await check_tags(client, person, body.dag_id)
    plan = await client.tidemill.backfills.create(body.dag_id, _request(body, dry_run=True))
    schedule = (await client.spec(body.dag_id)).schedule
    runs = [backfill_run(body.dag_id, schedule, info, {}) for info in plan.infos]
    shown = ("logical_date", "partition_key", "partition_date")
    rows = [{name: getattr(run, name) for name in shown} for run in runs]
    return {"backfills": rows, "total_entries": plan.total}


@router.get("/api/v2/backfills/{backfill_id}")
async def get_backfill(client: Source, backfill_id: int) -> BackfillAnswer:
    """A backfill."""
    dag_id, one = await _by_number(client, backfill_id)
    return BackfillAnswer.of(dag_id, await client.display_name(dag_id), one)


@router.put("/api/v2/backfills/{backfill_id}/pause")
async def pause_backfill(client: Source, backfill_id: int, person: Who) -> BackfillAnswer:
    """Makes no more runs of it for now."""
    return await _change(client, person, backfill_id, "pause")


@router.put("/api/v2/backfills/{backfill_id}/unpause")
async def unpause_backfill(client: Source, backfill_id: int, person: Who) -> BackfillAnswer:
    """Lets it go on."""
    return await _change(client, person, backfill_id, "unpause")


@router.put("/api/v2/backfills/{backfill_id}/cancel")
async def cancel_backfill(client: Source, backfill_id: int, person: Who) -> BackfillAnswer:
    """Ends it: runs that have begun go on."""
    return await _change(client, person, backfill_id, "cancel")


async def _change(client: CachedClient, person: Person, number: int, change: str) -> BackfillAnswer:
    dag_id, one = await _by_number(client, number)
    await check_tags(client, person, dag_id)
    if one.completed_at is not None:
        raise ConflictError(f"backfill {number} has ended: there is nothing to {change}")
    changed = await client.tidemill.backfills.change(dag_id, one.backfill_id, change)
    await client.changed(dag_id)
    return BackfillAnswer.of(dag_id, await client.display_name(dag_id), changed)
