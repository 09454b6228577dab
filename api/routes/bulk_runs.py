"""Runs and task instances, several in one request: marked, noted, cleared, deleted (Airflow: its bulk operations)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Request

from ...model.errors import InvalidInputError
from ...model.run.instance_keys import UNMAPPED
from ...worker.service.connection import NotFoundError
from ..auth.access import authorise, check_tags
from ..auth.tokens import Person, Role
from ..dependencies import Source
from ..errors import REFUSALS
from ..read.cached_client import CachedClient
from ..read.concurrency import AT_ONCE
from ..responses.runs import BulkRunBody, BulkRunClearBody, RunClearBody, RunCollection, RunPatch
from ..responses.tasks import BulkInstanceBody, ClearedInstances, InstancePatch
from .bulk import BulkAnswer, BulkBody, BulkOutcomes, Create, Delete
from .runs import clear_whole_run, delete_run, patch_run, would_clear_runs
from .task_instances import mark_instance

router = APIRouter()
RUNS = "/api/v2/dags/{dag_id}/dagRuns"
ALL = "~"
NO_MAKING = "nothing is made in bulk: trigger runs one by one"
NO_DELETING = "a run keeps all its tasks: clear them, or delete the run"
Who = Annotated[Person, Depends(authorise)]
E = TypeVar("E", BulkRunBody, BulkInstanceBody)
Key = tuple[str, ...]


@router.patch(RUNS, name="bulk_dag_runs")
async def change_runs(client: Source, dag_id: str, body: BulkBody[BulkRunBody], person: Who) -> BulkAnswer:
    """Marks, notes and deletes several runs, of one DAG or of all (`~`)."""
    outcomes = BulkOutcomes()
    for action in body.actions:
        if isinstance(action, Create):
            outcomes.refused(action.action, NO_MAKING, 405)
            continue
        keyed = [(_run_key(dag_id, one), one) for one in action.entities]

        async def change(key: Key, one: str | BulkRunBody, action: Any = action) -> None:
            await check_tags(client, person, key[0])
            if isinstance(action, Delete):
                _only_for_admins(person)
                await delete_run(client, key[0], key[1])
            elif isinstance(one, BulkRunBody):
                patch = RunPatch(**one.model_dump(include={"state", "note"}, exclude_none=True))
                await patch_run(client, key[0], key[1], patch, action.update_mask)

        await _carry_out(client, outcomes, action, keyed, change, ".".join)
    return outcomes.answer


@router.patch(RUNS + "/{dag_run_id}/taskInstances")
async def change_instances(
    client: Source, dag_id: str, dag_run_id: str, body: BulkBody[BulkInstanceBody], person: Who
) -> BulkAnswer:
    """Marks and notes several task instances, of one run or of any (`~`)."""
    outcomes = BulkOutcomes()
    for action in body.actions:
        if isinstance(action, Create | Delete):
            outcomes.refused(action.action, NO_MAKING if isinstance(action, Create) else NO_DELETING, 405)
            continue
        keyed = [(_instance_key(dag_id, dag_run_id, one), one) for one in action.entities]

        async def change(key: Key, one: str | BulkInstanceBody, action: Any = action) -> None:
            assert isinstance(one, BulkInstanceBody)  # noqa: S101 - updates take nothing else
            await check_tags(client, person, key[0])
            patch = InstancePatch(**one.model_dump(include=set(InstancePatch.model_fields), exclude_unset=True))
            index = UNMAPPED if one.map_index is None else one.map_index
            await mark_instance(client, key[0], key[1], one.task_id, patch, index, action.update_mask)

        await _carry_out(client, outcomes, action, keyed, change, lambda key: f"{'.'.join(key[:3])}[{key[3]}]")
    return outcomes.answer


@router.post(
    "/api/v2/dags/{dag_id}/clearDagRuns", response_model=ClearedInstances | RunCollection, name="clear_dag_runs"
)
async def clear_runs(
    client: Source, dag_id: str, body: BulkRunClearBody, person: Who, request: Request
) -> ClearedInstances | RunCollection:
    """Has several runs run again, of one DAG or of all (`~`); with `dry_run` only tells which tasks would.

    What is asked has to be right for each before any is cleared.
    """
    keys = list(dict.fromkeys(_run_key(dag_id, one) for one in body.dag_runs))
    for key in keys:
        if ALL not in (dag_id, key[0]) and key[0] != dag_id:
            raise InvalidInputError(f"dag_runs: the run {key[1]!r} is of {key[0]!r}, and the path names {dag_id!r}")
        await client.run(key[0], key[1])
        await check_tags(client, person, key[0])
    of_each = RunClearBody(**body.model_dump(include=set(RunClearBody.model_fields)))
    if body.dry_run:
        return await would_clear_runs(client, keys, of_each, request)
    runs = [await clear_whole_run(client, *key, of_each) for key in keys]
    return RunCollection(dag_runs=runs, total_entries=len(runs))


async def _carry_out(
    client: CachedClient,
    outcomes: BulkOutcomes,
    action: Any,
    keyed: Sequence[tuple[Key, E | str]],
    change: Callable[[Key, Any], Awaitable[None]],
    named: Callable[[Key], str],
) -> None:
    """Does what *action* asks for each that is there; nothing where one is not, and the action says so."""
    named_by = dict(keyed)
    for key in [key for key in named_by if ALL in key[:2]]:
        outcomes.refused(action.action, f"name the DAG and the run of {named(key)} in the body: the path has ~", 400)
        del named_by[key]
    outcomes.looked_at(action.action)
    there = await _there(client, named_by)
    missing = [key for key in named_by if key not in there]
    if missing and action.action_on_non_existence == "fail":
        outcomes.refused(action.action, f"there are none called {', '.join(map(named, missing))}", 404)
        return
    for key in there:
        try:
            await change(key, named_by[key])
        except REFUSALS as error:
            outcomes.failed(action.action, error)
        else:
            outcomes.done(action.action, named(key))


async def _there(client: CachedClient, keys: Iterable[Key]) -> list[Key]:
    """Those of *keys* whose run is there, and has the instance that is meant; in their order.

    Raises what is raised where nobody answers: that is no sign that one is missing.
    """
    room = asyncio.Semaphore(AT_ONCE)

    async def known(key: Key) -> bool:
        async with room:
            try:
                return await _is_there(client, key)
            except NotFoundError:
                return False

    wanted = list(keys)
    found = await asyncio.gather(*map(known, wanted))
    return [key for key, is_there in zip(wanted, found, strict=True) if is_there]


async def _is_there(client: CachedClient, key: Key) -> bool:
    run = await client.run(key[0], key[1])
    if len(key) == 2:
        return True
    details = await client.details(key[0], run)
    index = int(key[3])
    tasks = details.tasks if details is not None else ()
    return any(one.task_id == key[2] and index in (one.map_index, UNMAPPED) for one in tasks)


def _run_key(dag_id: str, entity: str | BulkRunBody) -> tuple[str, str]:
    return (dag_id, entity) if isinstance(entity, str) else (entity.dag_id or dag_id, entity.dag_run_id)


def _instance_key(dag_id: str, run_id: str, entity: str | BulkInstanceBody) -> Key:
    if isinstance(entity, str):
        return (dag_id, run_id, entity, str(UNMAPPED))
    index = UNMAPPED if entity.map_index is None else entity.map_index
    return (entity.dag_id or dag_id, entity.dag_run_id or run_id, entity.task_id, str(index))


def _only_for_admins(person: Person) -> None:
    if person.role < Role.ADMIN:
        raise HTTPException(403, "Forbidden")
