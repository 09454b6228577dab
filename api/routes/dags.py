"""DAGs: lists, details, pausing, their source, their versions, their tags."""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, HTTPException, Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict

from ...activities.bundles.snapshots import Snapshots
from ...model.dag.row import DagRow
from ...model.run.views import RunView
from ...model.spec.assets.condition import assets_in
from ...model.spec.dag import DagSource, DagSpec
from ...model.spec.timetables import waited_for
from ...worker.service.connection import NotFoundError
from ..auth.access import check_tags
from ..dependencies import Limit, Offset, Source, UpdateMask, UtcDateTime
from ..errors import ConflictError
from ..read.cached_client import CachedClient
from ..read.concurrency import AT_ONCE, after_change, each
from ..read.filters import NOT_FILTERS, matches, ordered, page
from ..read.instances import instances_of
from ..refusals import BadRequestError
from ..responses.approvals import details_of
from ..responses.dags import (
    DagAnswer,
    DagCollection,
    DagDetails,
    DagPatch,
    DagSourceAnswer,
    DagsWithRuns,
    DagTags,
    DagVersion,
    DagVersions,
    DagWithRuns,
    LightRun,
    asset_expression,
    dag_details,
    dag_fields,
    fields_of_line,
    listed_version,
    read_file_token,
    version_in_place,
)

router = APIRouter()
JSON_FORM, TEXT = "application/json", "text/plain"
RunState = Literal["queued", "running", "success", "failed"]


class DagFilters(BaseModel):
    """What lists of DAGs can be narrowed by (Airflow's parameters)."""

    model_config = ConfigDict(extra="forbid")

    limit: Limit = 50
    offset: Offset = 0
    tags: list[str] = []
    tags_match_mode: Literal["any", "all"] | None = None
    owners: list[str] = []
    dag_id_pattern: str | None = None
    dag_id_prefix_pattern: str | None = None
    dag_display_name_pattern: str | None = None
    dag_display_name_prefix_pattern: str | None = None
    exclude_stale: bool = True
    paused: bool | None = None
    has_import_errors: bool | None = None
    has_asset_schedule: bool | None = None
    last_dag_run_state: RunState | None = None
    bundle_name: str | None = None
    bundle_version: str | None = None
    asset_dependency: str | None = None
    """A part of the name or uri of an asset that the DAG waits for."""
    is_favorite: bool | None = None
    order_by: list[str] = ["dag_id"]


class PublicDagFilters(DagFilters):
    dag_run_state: list[RunState] = []
    dag_run_start_date_gte: UtcDateTime | None = None
    dag_run_start_date_gt: UtcDateTime | None = None
    dag_run_start_date_lte: UtcDateTime | None = None
    dag_run_start_date_lt: UtcDateTime | None = None
    dag_run_end_date_gte: UtcDateTime | None = None
    dag_run_end_date_gt: UtcDateTime | None = None
    dag_run_end_date_lte: UtcDateTime | None = None
    dag_run_end_date_lt: UtcDateTime | None = None


class UiDagFilters(DagFilters):
    dag_runs_limit: Annotated[int, Query(ge=0, le=100)] = 10
    dag_ids: list[str] | None = None
    dag_run_state: RunState | None = None
    has_pending_actions: bool | None = None


OF_ASSETS = ("asset", "asset_or_time", "partitioned_asset")
"""How a DAG's line calls schedules of assets."""
FIELDS: dict[str, Any] = {
    "dag_display_name": lambda row: row.display_name,
    "paused": lambda row: row.is_paused,
    "bundle_name": lambda row: row.bundle,
    "dag_ids": lambda row: row.dag_id,
    "last_dag_run_state": lambda row: row.last_state,
    "has_asset_schedule": lambda row: row.timetable_summary in OF_ASSETS,
}
ORDERS: dict[str, Any] = {
    "dag_id": lambda row: row.dag_id,
    "dag_display_name": lambda row: row.display_name,
    "next_dagrun": lambda row: row.next_dagrun_create_after,
    "next_dagrun_run_after": lambda row: row.next_dagrun_create_after,
    "last_run_state": lambda row: row.last_state,
    "last_run_start_date": lambda row: row.newest_run.started_at if row.newest_run is not None else None,
    "last_run_run_after": lambda row: row.newest_run.run_after if row.newest_run is not None else None,
    "is_paused": lambda row: row.is_paused,
    "bundle_name": lambda row: row.bundle,
}


OF_NEWEST_RUN = tuple(name for name in PublicDagFilters.model_fields if "_date_" in name)
SPECIAL = {
    "is_favorite", "tags", "tags_match_mode", "owners", "exclude_stale", "dag_run_state", "dag_runs_limit",
    "has_pending_actions", "asset_dependency", "bundle_version", *OF_NEWEST_RUN,
}  # fmt: skip
"""Filters that are more than a comparison with one field."""


def run_states(row: DagRow) -> set[str]:
    """The states of runs that the DAG's line knows of."""
    found = {str(run.state) for run in (row.last_run, row.newest_run) if run is not None}
    return found | ({"running"} if row.active_runs else set()) | ({"queued"} if row.queued_runs else set())


def wanted_rows(rows: list[DagRow], filters: DagFilters, favourites: frozenset[str]) -> list[DagRow]:
    """Those of *rows* that *filters* want, in their order. Raises InvalidInputError for an order that is none."""
    given = {name: value for name, value in filters.model_dump().items() if value not in (None, [])}
    plain = {name: value for name, value in given.items() if name not in SPECIAL | NOT_FILTERS}
    states = filters.model_dump().get("dag_run_state") or []
    states = [states] if isinstance(states, str) else states
    together = all if filters.tags_match_mode == "all" else any
    found = [
        row
        for row in rows
        if matches(row, plain, FIELDS)
        and not (filters.exclude_stale and row.is_stale)
        and filters.is_favorite in (None, row.dag_id in favourites)
        and (not filters.tags or together(tag in row.tags for tag in filters.tags))
        and (not filters.owners or any(part in owner for part in filters.owners for owner in row.owners))
        and (not states or not run_states(row).isdisjoint(states))
    ]
    return ordered(found, filters.order_by, ORDERS)


RUN_FIELDS: dict[str, Any] = {
    "dag_run_start_date": lambda run: run.started_at,
    "dag_run_end_date": lambda run: run.ended_at,
}


async def rows_for(client: CachedClient, filters: DagFilters) -> list[DagRow]:
    """The lines of DAGs that *filters* want, as far as only their files or newest runs know that.

    Raises HTTPException where one does not answer in time: a list without it would look whole.
    """
    rows = await client.rows()
    late: list[str] = []
    of_run = {name: value for name, value in filters.model_dump(include={*OF_NEWEST_RUN}).items() if value is not None}

    async def fits(row: DagRow) -> DagRow | None:
        if filters.asset_dependency is not None or filters.bundle_version is not None:
            spec = await client.spec(row.dag_id, row.version)
            version = spec.source.snapshot if spec.source is not None else None
            if not waits_for(spec, filters.asset_dependency) or filters.bundle_version not in (None, version):
                return None
        newest = max(await client.runs_of_row(row), key=lambda run: run.run_after, default=None) if of_run else None
        return row if not of_run or (newest is not None and matches(newest, of_run, RUN_FIELDS)) else None

    async def is_late(row: DagRow) -> DagRow:
        late.append(row.dag_id)
        return row

    if not (of_run or filters.asset_dependency or filters.bundle_version):
        return rows
    found = await each(rows, fits, is_late)
    if late:
        raise HTTPException(504, f"{len(late)} DAGs have not answered in time. Narrow the list, as by dag_id_pattern")
    return found


def waits_for(spec: DagSpec, part: str | None) -> bool:
    """Whether the DAG waits for an asset whose name or uri has *part* in it, in letters of any case."""
    condition = waited_for(spec.schedule)
    assets = assets_in(condition) if condition is not None else []
    return part is None or any(part.lower() in text.lower() for asset in assets for text in (asset.name, asset.uri))


@router.get("/api/v2/dags")
async def get_dags(client: Source, filters: Annotated[PublicDagFilters, Query()], request: Request) -> DagCollection:
    """DAGs, by their lines in Temporal's visibility."""
    favourites = await favourites_of(client, request, has_to_know=filters.is_favorite is not None)
    part = page(wanted_rows(await rows_for(client, filters), filters, favourites), filters.limit, filters.offset)

    async def answer(row: DagRow) -> DagAnswer:
        return DagAnswer(**dag_fields(row, await client.spec(row.dag_id, row.version)))

    async def in_short(row: DagRow) -> DagAnswer:
        return DagAnswer(**fields_of_line(row))

    return DagCollection(dags=await each(part.items, answer, in_short), total_entries=part.total)


@router.get("/ui/dags")
async def get_dags_with_runs(
    client: Source, filters: Annotated[UiDagFilters, Query()], request: Request
) -> DagsWithRuns:
    """DAGs with their last runs."""
    favourites = await favourites_of(client, request, has_to_know=filters.is_favorite is not None)
    rows, waiting = await rows_for(client, filters), dict[str, list[str]]()
    if filters.has_pending_actions is not None:
        waiting = await runs_that_wait(client)
        rows = [row for row in rows if (row.dag_id in waiting) is filters.has_pending_actions]
    part = page(wanted_rows(rows, filters, favourites), filters.limit, filters.offset)

    async def answer(row: DagRow) -> DagWithRuns:
        spec, runs = await asyncio.gather(client.spec(row.dag_id, row.version), client.runs_of_row(row))
        fields = {**dag_fields(row, spec), "asset_expression": asset_expression(spec)}
        found = await each(waiting.get(row.dag_id, []), lambda run_id: instances_of(client, row.dag_id, run_id))
        pending = [one for part in found for one in details_of(*part) if not one["response_received"]]
        return with_runs(row, fields, runs[: filters.dag_runs_limit], pending)

    async def in_short(row: DagRow) -> DagWithRuns:
        return with_runs(row, {**fields_of_line(row), "asset_expression": None}, [], [])

    def with_runs(row: DagRow, fields: dict[str, Any], runs: list[RunView], pending: list[Any]) -> DagWithRuns:
        latest = [LightRun.of(row.dag_id, run) for run in runs]
        is_favorite = row.dag_id in favourites
        return DagWithRuns(**fields, latest_dag_runs=latest, pending_actions=pending, is_favorite=is_favorite)

    return DagsWithRuns(dags=await each(part.items, answer, in_short), total_entries=part.total)


async def runs_that_wait(client: CachedClient) -> dict[str, list[str]]:
    """By DAG, the runs in which a task waits for a person."""
    found: dict[str, list[str]] = {}
    for row in await client.all_runs():
        if row.counts.get("awaiting_input"):
            found.setdefault(row.dag_id, []).append(row.run_id)
    return found


async def favourites_of(client: CachedClient, request: Request, *, has_to_know: bool = False) -> frozenset[str]:
    """The DAGs that who asks has marked."""
    return await client.favourites_of(request.state.person.known_as, has_to_know=has_to_know)


@router.get("/api/v2/dags/{dag_id}")
async def get_dag(client: Source, dag_id: str) -> DagAnswer:
    """A DAG."""
    row = await client.row(dag_id)
    return DagAnswer(**dag_fields(row, await client.spec(dag_id, row.version)))


@router.get("/api/v2/dags/{dag_id}/details")
async def get_dag_details(client: Source, dag_id: str, request: Request) -> DagDetails:
    """A DAG with all that its file says."""
    row = await client.row(dag_id)
    details = dag_details(row, await client.spec(dag_id, row.version), await client.view(dag_id))
    return details.model_copy(update={"is_favorite": dag_id in await favourites_of(client, request)})


@router.patch("/api/v2/dags/{dag_id}")
async def patch_dag(client: Source, dag_id: str, body: DagPatch, update_mask: UpdateMask = None) -> DagAnswer:
    """Pauses or unpauses a DAG."""
    _check_mask(update_mask)
    before = await get_dag(client, dag_id)
    await client.tidemill.dags.pause(dag_id, body.is_paused)
    await client.changed(dag_id)
    return await after_change(get_dag(client, dag_id), lambda: before.model_copy(update={"is_paused": body.is_paused}))


def _check_mask(update_mask: list[str] | None) -> None:
    if update_mask and set(update_mask) != {"is_paused"}:
        raise BadRequestError(f"update_mask = {', '.join(update_mask)}: only is_paused of a DAG is changed. Name that")


class ManyDags(BaseModel):
    """Which DAGs are meant (Airflow's parameters); none, unless a pattern says so: `~` or `%` for all."""

    model_config = ConfigDict(extra="forbid")

    limit: Limit = 50
    offset: Offset = 0
    tags: list[str] = []
    tags_match_mode: Literal["any", "all"] | None = None
    owners: list[str] = []
    dag_id_pattern: str | None = None
    dag_id_prefix_pattern: str | None = None
    exclude_stale: bool = True
    paused: bool | None = None
    update_mask: list[str] = []


@router.patch("/api/v2/dags")
async def patch_dags(
    client: Source, body: DagPatch, chosen: Annotated[ManyDags, Query()], request: Request
) -> DagCollection:
    """Pauses or unpauses several DAGs."""
    _check_mask(chosen.update_mask)
    filters = DagFilters(**chosen.model_dump(exclude={"update_mask"}))
    named = chosen.dag_id_pattern is not None or chosen.dag_id_prefix_pattern is not None
    rows = wanted_rows(await client.rows(), filters, frozenset()) if named else []
    for row in rows:
        await check_tags(client, request.state.person, row.dag_id)
    part = page(rows, chosen.limit, chosen.offset)
    room = asyncio.Semaphore(AT_ONCE)

    async def paused(row: DagRow) -> None:
        async with room:
            await client.tidemill.dags.pause(row.dag_id, body.is_paused)
            await client.changed(row.dag_id)

    await asyncio.gather(*map(paused, rows))

    async def answer(row: DagRow) -> DagAnswer:
        fields = dag_fields(row, await client.spec(row.dag_id, row.version))
        return DagAnswer(**{**fields, "is_paused": body.is_paused})

    async def in_short(row: DagRow) -> DagAnswer:
        return DagAnswer(**{**fields_of_line(row), "is_paused": body.is_paused})

    return DagCollection(dags=await each(part.items, answer, in_short), total_entries=part.total)


@router.delete("/api/v2/dags/{dag_id}", status_code=204)
async def delete_dag(client: Source, dag_id: str) -> Response:
    """Forgets a DAG and its runs."""
    try:
        await client.tidemill.dags.delete(dag_id, wait=False)  # a page does not wait for that
    except NotFoundError:
        if not await client.deleted(dag_id, only_there=True):  # else only the archive has known it
            raise
    await client.deleted(dag_id)
    return Response(status_code=204)


@router.post("/api/v2/dags/{dag_id}/favorite", status_code=204)
async def favorite_dag(client: Source, dag_id: str, request: Request) -> Response:
    """Marks a DAG as a favourite of who asks. Answers 409 where it is one."""
    await client.row(dag_id)
    if dag_id in await favourites_of(client, request, has_to_know=True):
        raise ConflictError(f"DAG {dag_id!r} is one of your favourites already")
    await client.favourites.mark(request.state.person.known_as, dag_id, is_favourite=True)
    return Response(status_code=204)


@router.post("/api/v2/dags/{dag_id}/unfavorite", status_code=204)
async def unfavorite_dag(client: Source, dag_id: str, request: Request) -> Response:
    """Takes the mark back. Answers 409 where there is none."""
    await client.row(dag_id)
    if dag_id not in await favourites_of(client, request, has_to_know=True):
        raise ConflictError(f"DAG {dag_id!r} is none of your favourites")
    await client.favourites.mark(request.state.person.known_as, dag_id, is_favourite=False)
    return Response(status_code=204)


@router.get("/api/v2/dagTags")
async def get_tags(
    client: Source,
    limit: Limit = 50,
    offset: Offset = 0,
    tag_name_pattern: str | None = None,
    tag_name_prefix_pattern: str | None = None,
    order_by: Annotated[list[str], Query()] = ["name"],  # noqa: B006
) -> DagTags:
    """All tags of all DAGs."""
    names = {tag for row in await client.rows() for tag in row.tags}
    filters = {"tag_pattern": tag_name_pattern, "tag_prefix_pattern": tag_name_prefix_pattern}
    found = [name for name in names if matches(name, filters, {"tag": lambda name: name})]
    part = page(ordered(found, order_by, {"name": lambda name: name}), limit, offset)
    return DagTags(tags=part.items, total_entries=part.total)


@router.get("/api/v2/dagSources/{dag_id}", response_model=DagSourceAnswer)
async def get_source(
    client: Source, dag_id: str, version_number: int | None = None, accept: Annotated[str, Header()] = "*/*"
) -> DagSourceAnswer | PlainTextResponse:
    """The file that a DAG is written in, where this server has it: as JSON, or as text for who accepts that alone."""
    wanted = _form_of(accept)
    spec = await client.spec_of(dag_id, version_number)
    content = await asyncio.to_thread(_read_source, client, spec.source) if spec.source is not None else None
    if content is None:
        raise NotFoundError(f"the file of DAG {dag_id!r} is not on this server's host: it was {row_source(spec)}")
    if wanted == TEXT:
        return PlainTextResponse(content, media_type=TEXT)
    return DagSourceAnswer(
        content=content,
        dag_id=dag_id,
        version_number=version_number or version_in_place(spec, await client.versions(dag_id)).version_number,
        dag_display_name=spec.display_name,
    )


def _form_of(accept: str) -> str:
    """Which form is wanted; JSON where it is all the same. Raises HTTPException, 406 as in Airflow, for neither."""
    given = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    if any(form in ("*/*", "application/*", JSON_FORM) for form in given):
        return JSON_FORM
    if any(form in ("text/*", TEXT) for form in given):
        return TEXT
    raise HTTPException(406, f"a source is {JSON_FORM} or {TEXT}. Accept one of them")


def row_source(spec: DagSpec) -> str:
    return spec.source.path if spec.source is not None else "registered without a file"


def _read_source(client: CachedClient, place: DagSource) -> str | None:
    """The file as it was kept with the version, else as it is now, if it is the same."""
    if place.snapshot is not None and place.name is not None:
        kept = Snapshots(f"{client.settings.results_url.rstrip('/')}/_code", client.settings.web_home / "snapshots")
        try:
            folder = kept.lay_out(place.snapshot)
            return (folder / place.name).read_text()
        except (OSError, ValueError, RuntimeError):
            pass
    try:
        text: bytes = Path(place.path).read_bytes()
    except OSError:
        return None
    return text.decode(errors="replace") if sha256(text).hexdigest() == place.sha256 else None


VERSION_ORDERS: dict[str, Any] = {
    "id": lambda one: one.version_number,
    "version_number": lambda one: one.version_number,
    "bundle_name": lambda one: one.bundle_name,
    "bundle_version": lambda one: one.bundle_version,
}


@router.get("/api/v2/dags/{dag_id}/dagVersions")
async def get_versions(
    client: Source,
    dag_id: str,
    limit: Limit = 50,
    offset: Offset = 0,
    version_number: int | None = None,
    bundle_name: str | None = None,
    bundle_version: str | None = None,
    order_by: Annotated[list[str], Query()] = ["id"],  # noqa: B006
) -> DagVersions:
    """The versions of a DAG that it remembers."""
    spec, known = await client.spec(dag_id), (await client.view(dag_id)).versions
    found = [listed_version(spec, one) for one in known] or [version_in_place(spec, ())]
    wanted = {"version_number": version_number, "bundle_name": bundle_name, "bundle_version": bundle_version}
    part = page(ordered([one for one in found if matches(one, wanted, {})], order_by, VERSION_ORDERS), limit, offset)
    return DagVersions(dag_versions=part.items, total_entries=part.total)


@router.get("/api/v2/dags/{dag_id}/dagVersions/{version_number}")
async def get_version(client: Source, dag_id: str, version_number: int) -> DagVersion:
    """A version, by its number."""
    spec, known = await client.spec(dag_id), (await client.view(dag_id)).versions
    for one in known:
        if one.version_number == version_number:
            return listed_version(spec, one)
    raise NotFoundError(f"DAG {dag_id!r} has no version {version_number}")


@router.put("/api/v2/parseDagFile/{file_token}", status_code=201, name="reparse_dag_file")
async def parse_file(client: Source, file_token: str) -> None:
    """Has a DAG's file parsed now."""
    bundle, name = read_file_token(file_token)
    await client.tidemill.bundles.refresh(bundle, [name])


@router.get("/ui/dags/{dag_id}/latest_run")
async def get_latest_run(client: Source, dag_id: str) -> LightRun | None:
    """The newest run of a DAG."""
    runs = await client.runs(dag_id)
    return LightRun.of(dag_id, runs[0]) if runs else None
