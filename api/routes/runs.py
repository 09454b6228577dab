"""Runs: lists, one of them, making, clearing and marking them."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from statistics import mean
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse

from ...model.dag.row import DagRow
from ...model.errors import InvalidInputError
from ...model.run.identity import RunType, TriggerRequest
from ...model.run.instance_keys import UNMAPPED
from ...model.run.revisions import ClearRequest, RunMark
from ...model.run.views import RunView
from ...model.spec.references import RETURN_VALUE
from ...model.states import RunState, TaskState
from ...worker.service.connection import NotFoundError
from ..auth.access import authorise
from ..auth.tokens import Person, user_name
from ..dependencies import Batch, ChangeFilters, DateFilters, Limit, Offset, Source, UpdateMask, UtcDateTime, only_looks
from ..read.cached_client import CachedClient
from ..read.concurrency import SILENT, after_change, each
from ..read.filters import cursor_page, matches, ordered, page, seconds_between
from ..read.instances import would_clear
from ..read.notes import noted
from ..refusals import bad_requests
from ..responses.dags import DagVersion, version_in_place, version_of
from ..responses.runs import (
    RunAnswer,
    RunClearBody,
    RunCollection,
    RunPatch,
    TriggerBody,
    in_state,
    just_made,
    run_answer,
    versions_of,
)
from ..responses.tasks import ClearedInstances, instance_answer

router = APIRouter()
RUNS = "/api/v2/dags/{dag_id}/dagRuns"
RUN = RUNS + "/{dag_run_id}"
SHORTEST_INTERVAL = 0.2
REQUEST_TIMEOUT = 8.0
"""In seconds: so long a list asks for what only each run itself knows. Of those that have ended it is held."""


class RunFilters(ChangeFilters):
    """What lists of runs can be narrowed by (Airflow's parameters)."""

    cursor: str | None = None
    limit: Limit = 50
    offset: Offset = 0
    run_type: list[RunType] = []
    state: list[RunState] = []
    run_id_pattern: str | None = None
    run_id_prefix_pattern: str | None = None
    dag_id_pattern: str | None = None
    dag_id_prefix_pattern: str | None = None
    triggering_user_name_pattern: str | None = None
    triggering_user_name_prefix_pattern: str | None = None
    partition_key_pattern: str | None = None
    partition_key_prefix_pattern: str | None = None
    partition_date_gte: UtcDateTime | None = None
    partition_date_lte: UtcDateTime | None = None
    conf_contains: str | None = None
    dag_version: list[int] = []
    bundle_version: str | None = None
    order_by: list[str] = ["id"]


OF_EACH = ("conf_contains", "dag_version", "bundle_version", "partition_date_gte", "partition_date_lte")
"""Filters by what only each run itself knows: all that the others leave are asked."""
FIELDS: dict[str, Any] = {
    "run_id": lambda run: run.dag_run_id,
    "conf": lambda run: json.dumps(run.conf or {}, ensure_ascii=False),
    "dag_version": lambda run: run.dag_versions[-1].version_number if run.dag_versions else None,
    "triggering_user_name": lambda run: run.triggering_user_name,
    "updated_at": lambda run: run.end_date or run.start_date or run.queued_at,
}
ORDERS: dict[str, Any] = {
    "id": lambda run: (run.queued_at or run.run_after, run.run_after),
    "dag_run_id": lambda run: run.dag_run_id,
    "run_id": lambda run: run.dag_run_id,
    "dag_id": lambda run: run.dag_id,
    "run_after": lambda run: run.run_after,
    "logical_date": lambda run: run.logical_date,
    "start_date": lambda run: run.start_date,
    "end_date": lambda run: run.end_date,
    "duration": lambda run: run.duration,
    "state": lambda run: run.state,
    "run_type": lambda run: run.run_type,
    "queued_at": lambda run: run.queued_at,
    "conf": FIELDS["conf"],
    "updated_at": FIELDS["updated_at"],
}


async def known_runs(client: CachedClient, dag_id: str) -> list[RunAnswer]:
    """The runs of a DAG; for `~` those of all, as far as visibility has them."""
    if dag_id != "~":
        return [run_answer(dag_id, run) for run in await client.runs(dag_id)]
    rows = await client.all_runs()

    async def queued_of(row: DagRow) -> list[RunAnswer]:
        """Those have no workflow that could be listed."""
        return [run_answer(row.dag_id, run) for run in await client.runs(row.dag_id) if run.state == "queued"]

    queued = await each([row for row in await client.rows() if row.queued_runs], queued_of)
    return [run for part in queued for run in part] + [
        run_answer(row.dag_id, RunView.of_row(row, row.run_after))
        for row in rows
        if row.dag_id and row.run_after is not None
    ]


@router.get(RUNS)
async def get_runs(client: Source, dag_id: str, filters: Annotated[RunFilters, Query()]) -> RunCollection:
    """Runs of a DAG, or of all (`~`)."""
    wanted = filters.model_dump(exclude={*OF_EACH})
    found = [run for run in await known_runs(client, dag_id) if matches(run, wanted, FIELDS)]
    of_each = filters.model_dump(include={*OF_EACH} - {"conf_contains"}) | {"conf_pattern": filters.conf_contains}
    if any(of_each.values()) or {"conf", "-conf"} & {*filters.order_by}:
        found = await _narrowed(client, found, of_each)
    found = ordered(sorted(found, key=ORDERS["id"]), filters.order_by, ORDERS)
    if filters.cursor is not None:
        part = cursor_page(found, filters.limit, filters.cursor, lambda run: f"{run.dag_id}/{run.dag_run_id}")
        cursors = {"next_cursor": part.next_cursor, "previous_cursor": part.previous_cursor}
        return RunCollection(dag_runs=await _whole(client, part.items), total_entries=part.total, **cursors)
    part = page(found, filters.limit, filters.offset)
    return RunCollection(dag_runs=await _whole(client, part.items), total_entries=part.total)


class RunBatch(Batch):
    """Airflow: DAGRunsBatchBody."""

    states: list[RunState | None] | None = None
    conf_contains: str | None = None


@router.post(RUNS + "/list")
async def list_runs(client: Source, dag_id: Literal["~"], body: RunBatch) -> RunCollection:  # noqa: ARG001 - of all
    """Runs of all DAGs, with filters in the body."""
    dates = body.model_dump(include={*DateFilters.model_fields})
    wanted = {**dates, "state": body.states or [], "dag_id": body.dag_ids or []}
    found = [run for run in await known_runs(client, "~") if matches(run, wanted, FIELDS)]
    if body.conf_contains or body.order_by in ("conf", "-conf"):
        found = await _narrowed(client, found, {"conf_pattern": body.conf_contains})
    found = ordered(sorted(found, key=ORDERS["id"]), [body.order_by or "id"], ORDERS)
    part = page(found, body.page_limit, body.page_offset)
    return RunCollection(dag_runs=await _whole(client, part.items), total_entries=part.total)


async def _narrowed(client: CachedClient, runs: Sequence[RunAnswer], filters: Mapping[str, Any]) -> list[RunAnswer]:
    """Those of *runs* that *filters* want by what only each of them knows. Raises HTTPException where one is silent."""
    late: list[str] = []
    found = [run for run in await _whole(client, runs, late) if matches(run, filters, FIELDS)]
    if late:  # a list without them would look whole
        raise HTTPException(504, f"{len(late)} runs have not answered in time. Narrow the list, as by run_after_gte")
    return found


async def _whole(client: CachedClient, runs: Sequence[RunAnswer], late: list[str] | None = None) -> list[RunAnswer]:
    """*runs* with what only the workflow of each, or the archive, knows; without it where nobody answers in time.

    *late* is told the ids of those.
    """
    silent = [] if late is None else late

    until = time.monotonic() + REQUEST_TIMEOUT

    async def ask(run: RunAnswer) -> RunAnswer:
        if time.monotonic() > until:  # a long list that nobody has asked for before: workers have other work, too
            return await as_listed(run)
        alone = partial(_run_alone, client, run.dag_id, run.dag_run_id)
        try:
            view = await client.run(run.dag_id, run.dag_run_id)
            found = await client.of_ended("answer", run.dag_id, view, alone)
            return await _with_version(client, run.dag_id, view, found)
        except NotFoundError:  # a list over all DAGs has also those whose DAG is gone
            return run

    async def as_listed(run: RunAnswer) -> RunAnswer:
        silent.append(run.dag_run_id)
        return run

    return await noted(client.notes, await each(runs, ask, as_listed))


@router.get(RUN)
async def get_run(client: Source, dag_id: str, dag_run_id: str) -> RunAnswer:
    """A run."""
    found = await _run_alone(client, dag_id, dag_run_id)
    return await _noted(client, await _with_version(client, dag_id, await client.run(dag_id, dag_run_id), found))


async def _noted(client: CachedClient, run: RunAnswer) -> RunAnswer:
    return (await noted(client.notes, [run]))[0]


async def _run_alone(client: CachedClient, dag_id: str, run_id: str) -> RunAnswer:
    """A run, without its note and its version: of one that has ended all else never changes."""
    run = await client.run(dag_id, run_id)
    details = await client.details(dag_id, run)
    return run_answer(dag_id, run, details.run if details is not None else None)


async def _with_version(client: CachedClient, dag_id: str, run: RunView, found: RunAnswer) -> RunAnswer:
    """*found* with the version that the run has: its number is asked of the DAG, and held no longer than that answer.

    A DAG that is silent would else be answered for by a number that stays.
    """
    spec = await client.run_spec(dag_id, run)
    if spec is None:
        return found
    version = version_of(spec, await client.versions(dag_id), run.known_since)
    return found.model_copy(update=versions_of(version))


@router.post(RUNS, name="trigger_dag_run")
async def trigger_run(
    client: Source, dag_id: str, body: TriggerBody, person: Annotated[Person, Depends(authorise)]
) -> RunAnswer:
    """Makes a run. 409, naming the run that holds the date or the id, if there is one."""
    if body.partition_key is not None:
        raise InvalidInputError("partition_key: runs by hand have none here. Leave it out, or make a backfill")
    with bad_requests():
        request = TriggerRequest(
            run_id=body.dag_run_id,
            logical_date=body.logical_date,
            run_after=body.run_after,
            data_interval_start=body.data_interval_start,
            data_interval_end=body.data_interval_end,
            conf=body.conf or {},
            triggering_user_name=user_name(person),
        )
        made = await client.tidemill.runs.trigger(dag_id, request)
    await client.changed(dag_id)
    await client.note([(dag_id, made.run_id, "", UNMAPPED)], body.note)
    seen = await after_change(client.run(dag_id, made.run_id), lambda: just_made(made))
    return await _noted(client, run_answer(dag_id, seen, made, await version_in_place_of(client, dag_id)))


async def version_in_place_of(client: CachedClient, dag_id: str) -> DagVersion | None:
    """The version that a run which has just been made has; None where the DAG does not answer."""

    async def ask() -> DagVersion | None:
        return version_in_place(await client.spec(dag_id), (await client.view(dag_id)).versions)

    return await after_change(ask(), lambda: None)


@router.patch(RUN, name="patch_dag_run")
async def patch_run(
    client: Source, dag_id: str, dag_run_id: str, body: RunPatch, update_mask: UpdateMask = None
) -> RunAnswer:
    """Ends a run as success or failed, or has it run again (`queued`)."""
    meant = body.model_fields_set if update_mask is None else body.model_fields_set.intersection(update_mask)
    given = {name: value for name, value in body if name in meant}
    before = await client.run(dag_id, dag_run_id)
    body = RunPatch.model_validate(given)
    if body.state == "queued":
        await client.tidemill.runs.clear(dag_id, dag_run_id, ClearRequest())
    elif body.state in ("success", "failed"):
        await client.tidemill.runs.mark(dag_id, dag_run_id, RunMark(state=TaskState(body.state)))
    if "note" in given and body.note != before.reason:  # why it has failed is shown as its note, and may come back
        await client.write_note([(dag_id, dag_run_id, "", UNMAPPED)], body.note, beside=body.state is not None)
    if body.state in ("success", "failed"):
        await client.until(dag_id, dag_run_id, lambda run: run.state == body.state)
    else:
        await client.changed(dag_id, dag_run_id)
    return await after_change(
        get_run(client, dag_id, dag_run_id), lambda: run_answer(dag_id, in_state(before, body.state or before.state))
    )


@router.post(RUN + "/clear", name="clear_dag_run")
async def clear_run(
    client: Source, dag_id: str, dag_run_id: str, body: RunClearBody, request: Request
) -> ClearedInstances | RunAnswer:
    """Has the tasks of a run run again; with `dry_run` only tells which."""
    if body.dry_run:
        return await would_clear_runs(client, [(dag_id, dag_run_id)], body, request)
    return await clear_whole_run(client, dag_id, dag_run_id, body)


async def would_clear_runs(
    client: CachedClient, keys: Iterable[tuple[str, str]], body: RunClearBody, request: Request
) -> ClearedInstances:
    """The tasks of runs, by (dag_id, run_id), that clearing them would have run again."""
    only_looks(request)
    clear = _clear_request(body)
    meant = [await would_clear(client, dag_id, run_id, clear) for dag_id, run_id in keys]
    found = await noted(client.notes, [instance_answer(shown, view) for shown, views in meant for view in views])
    return ClearedInstances(task_instances=found, total_entries=len(found))


def _clear_request(body: RunClearBody) -> ClearRequest:
    if body.only_new:
        raise InvalidInputError("only_new is not offered: clear the tasks that you mean")
    return ClearRequest(only_failed=body.only_failed, run_on_latest_version=body.run_on_latest_version)


async def clear_whole_run(client: CachedClient, dag_id: str, dag_run_id: str, body: RunClearBody) -> RunAnswer:
    """Has the tasks of a run run again."""
    before, request = await client.run(dag_id, dag_run_id), _clear_request(body)
    await client.tidemill.runs.clear(dag_id, dag_run_id, request)
    await client.changed(dag_id, dag_run_id)
    if body.note != before.reason:
        await client.note([(dag_id, dag_run_id, "", UNMAPPED)], body.note)
    return await after_change(
        get_run(client, dag_id, dag_run_id), lambda: run_answer(dag_id, in_state(before, RunState.QUEUED))
    )


@router.get(RUN + "/wait", response_class=StreamingResponse)
async def wait_for_run(
    client: Source,
    dag_id: str,
    dag_run_id: str,
    interval: Annotated[float, Query(gt=0, le=3600)],
    result: Annotated[list[str], Query()] = [],  # noqa: B006
) -> StreamingResponse:
    """The run's state, a line of JSON each *interval* seconds until it has ended; then with the *result* of tasks."""
    run = await client.run(dag_id, dag_run_id)
    lines = _states(client, dag_id, run, max(interval, SHORTEST_INTERVAL), result)
    return StreamingResponse(lines)  # without a media type, as Airflow: its client takes no other


async def _states(
    client: CachedClient, dag_id: str, run: RunView, interval: float, wanted: list[str]
) -> AsyncIterator[str]:
    while not run.state.finished:
        yield json.dumps({"state": str(run.state)}) + "\n"
        await asyncio.sleep(interval)
        with suppress(*SILENT):  # as while a worker is replaced: who waits for hours waits on
            run = await client.run(dag_id, run.run_id)
    answer: dict[str, Any] = {"state": str(run.state)}
    if wanted and (state := await client.state(dag_id, run)) is not None:
        answer["results"] = {
            name: state.instances[name].xcom.get(RETURN_VALUE) for name in wanted if name in state.instances
        }
    yield json.dumps(answer) + "\n"


@router.delete(RUN, status_code=204, name="delete_dag_run")
async def delete_run(client: Source, dag_id: str, dag_run_id: str) -> Response:
    """Forgets a run that is queued or has ended."""
    try:
        await client.tidemill.runs.delete(dag_id, dag_run_id)
    except NotFoundError:
        if not await client.deleted(dag_id, dag_run_id, only_there=True):  # else only the archive has known it
            raise
    await client.deleted(dag_id, dag_run_id)
    return Response(status_code=204)


@router.get("/ui/dags/{dag_id}/dagRuns/{dag_run_id}/stats")
async def get_run_stats(client: Source, dag_id: str, dag_run_id: str) -> dict[str, Any]:
    """How long runs of the DAG that succeeded have taken, in seconds."""
    await client.run(dag_id, dag_run_id)
    ended = [run for run in await client.runs(dag_id) if run.state == "success" and run.ended_at is not None]
    took = sorted(seconds_between(run.started_at, run.ended_at) or 0 for run in ended)
    if not took:
        return {"duration": None}
    shares = {f"p{percent}": round(percentile(took, percent), 3) for percent in (50, 90, 95, 99)}
    often = Counter(map(round, took))
    highest = max(often.values())
    mode = float(min(seconds for seconds, n in often.items() if n == highest)) if highest > 1 else None
    return {"duration": {**shares, "mean": round(mean(took), 3), "mode": mode}}


def percentile(values: list[float], percent: float) -> float:
    """The value below which *percent* of the sorted *values* are, between two of them in proportion."""
    place = (len(values) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)
