"""Instances of tasks: lists, one of them, its tries, why it waits, clearing and marking."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Query, Request
from temporalio.service import RPCError

from ...activities.names import NEEDS_DRIVER
from ...model.errors import InvalidInputError
from ...model.run.attempts import attempt_path
from ...model.run.instance_keys import UNMAPPED, instance_key
from ...model.run.revisions import ClearRequest, MarkRequest
from ...model.run.spark_figures import history_page
from ...model.run.views import RunDetails, cleared_view
from ...model.states import TaskState
from ...worker.service.connection import NotFoundError
from ...worker.service.task_logs import TaskLog
from ...worker.supervision.attempt_starts import AttemptStart
from ..dependencies import (
    Batch,
    ChangeFilters,
    DateFilters,
    Limit,
    Offset,
    Source,
    TaskStateName,
    UpdateMask,
    only_looks,
)
from ..errors import REFUSALS, ConflictError
from ..read.cached_client import CachedClient
from ..read.concurrency import PATIENCE, after_change, each
from ..read.filters import NOTHING, cursor_page, matches, ordered, page
from ..read.graph import members_of
from ..read.instances import (
    Instances,
    all_runs_of,
    chosen_around,
    chosen_between,
    instances_of,
    one_instance,
    would_clear,
    would_mark,
)
from ..read.notes import Key, noted
from ..read.stores import in_time
from ..refusals import BadRequestError, bad_requests
from ..responses.tasks import (
    ClearBody,
    Dependencies,
    Dependency,
    InstanceAnswer,
    InstanceCollection,
    InstancePatch,
    TaskAnswer,
    TaskCollection,
    TaskTries,
    TaskTry,
    instance_answer,
    task_answer,
    try_answer,
)
from .runs import ORDERS as RUN_ORDERS
from .runs import known_runs

router = APIRouter()
log = logging.getLogger(__name__)
INSTANCES = "/api/v2/dags/{dag_id}/dagRuns/{dag_run_id}/taskInstances"
INSTANCE = INSTANCES + "/{task_id}"
MAPPED = INSTANCE + "/{map_index}"
MAX_RUNS = 25
"""Runs whose tasks a list over all runs of a DAG looks at, the newest first."""
CHANGES_AT_ONCE = 5
"""So many runs of one DAG are changed at a time: its workflow takes ten updates."""
T = TypeVar("T")


class MappedFilters(ChangeFilters):
    """What lists of a task's instances can be narrowed by (Airflow's parameters)."""

    limit: Limit = 50
    offset: Offset = 0
    state: list[TaskStateName] = []
    pool: list[str] = []
    pool_name_pattern: str | None = None
    pool_name_prefix_pattern: str | None = None
    queue: list[str] = []
    queue_name_pattern: str | None = None
    queue_name_prefix_pattern: str | None = None
    try_number: list[int] = []
    version_number: list[int] = []
    executor: list[str] = []
    """There are no executors: an instance has none."""
    operator: list[str] = []
    operator_name_pattern: str | None = None
    operator_name_prefix_pattern: str | None = None
    map_index: list[int] = []
    rendered_map_index_pattern: str | None = None
    rendered_map_index_prefix_pattern: str | None = None
    order_by: list[str] = ["map_index"]


class InstanceFilters(MappedFilters):
    """What other lists can be narrowed by, too."""

    cursor: str | None = None
    task_id: str | None = None
    task_display_name_pattern: str | None = None
    task_display_name_prefix_pattern: str | None = None
    task_group_id: str | None = None
    dag_id_pattern: str | None = None
    dag_id_prefix_pattern: str | None = None
    run_id_pattern: str | None = None
    run_id_prefix_pattern: str | None = None


FIELDS: dict[str, Any] = {
    "run_id": lambda one: one.dag_run_id,
    "pool_name": lambda one: one.pool,
    "queue_name": lambda one: one.queue,
    "updated_at": lambda one: one.end_date or one.start_date or one.queued_when,
    "version_number": lambda one: one.dag_version.version_number if one.dag_version is not None else None,
}
ORDERS: dict[str, Any] = {
    name: lambda one, name=name: getattr(one, name)
    for name in (
        "task_id", "task_display_name", "dag_id", "map_index", "state", "start_date", "end_date", "duration",
        "try_number", "logical_date", "run_after", "operator", "operator_name", "pool", "queue", "queued_when",
        "scheduled_when",
    )
} | {
    "id": lambda _: 0,  # by age, as they are given
    "run_id": lambda one: one.dag_run_id,
    "dag_run_id": lambda one: one.dag_run_id,
    "data_interval_start": lambda one: one.logical_date,
    "data_interval_end": lambda one: one.run_after,
    "rendered_map_index": lambda one: by_number(one.rendered_map_index),
}  # fmt: skip


def by_number(label: str | None) -> tuple[bool, int, str]:
    """What a label of a mapped instance is sorted by: numbers by what they are, before texts."""
    is_number = label is not None and label.isdecimal()
    return not is_number, int(label or 0) if is_number else 0, label or ""


OF_RUNS = ("run_after", "logical_date", "dag_id", "run_id")
"""What filters of runs begin with: they say which runs are looked at."""


async def known_instances(
    client: CachedClient, dag_id: str, run_id: str, wanted: Mapping[str, Any]
) -> tuple[list[Any], bool]:
    """Instances of a run; for `~` those of the newest runs that are wanted, and whether that is not all.

    They are in the order of their making.
    """
    if dag_id == "~" != run_id:
        raise BadRequestError("dag_id = '~': a run is one of a DAG. Name the DAG, or give '~' for the run, too")
    if run_id != "~":
        return await _of_run(client, dag_id, run_id), False
    narrowing = {name: value for name, value in wanted.items() if name.startswith(OF_RUNS)}
    runs = [run for run in await known_runs(client, dag_id) if matches(run, narrowing, FIELDS)]
    runs.sort(key=lambda run: run.run_after, reverse=True)
    looked_at = sorted(runs[:MAX_RUNS], key=RUN_ORDERS["id"])
    found = await each(looked_at, lambda run: _of_run(client, run.dag_id, run.dag_run_id))
    return [one for part in found for one in part], len(found) < len(runs)


async def _of_run(client: CachedClient, dag_id: str, run_id: str) -> list[InstanceAnswer]:
    try:
        shown, views = await instances_of(client, dag_id, run_id)
    except NotFoundError:
        await client.run(dag_id, run_id)  # a run without tasks is there all the same
        return []
    return [instance_answer(shown, view) for view in views]


@router.get(INSTANCES)
async def get_instances(
    client: Source, dag_id: str, dag_run_id: str, filters: Annotated[InstanceFilters, Query()]
) -> InstanceCollection:
    """Instances of a run, or of the newest runs (`~`)."""
    wanted = filters.model_dump(exclude={"task_group_id"})
    known, cut = await known_instances(client, dag_id, dag_run_id, wanted)
    found = [one for one in known if matches(one, wanted, FIELDS)]
    if filters.task_group_id is not None:
        if dag_id == "~":
            raise InvalidInputError("task_group_id: groups are those of a DAG. Name it")
        spec = await client.run_spec(dag_id, await client.run(dag_id, dag_run_id)) if dag_run_id != "~" else None
        members = members_of(spec or await client.spec(dag_id), filters.task_group_id)
        if not members:
            raise NotFoundError(f"DAG {dag_id!r} has no tasks of a group {filters.task_group_id!r}")
        found = [one for one in found if one.task_id in members]
    found = ordered(found, filters.order_by, ORDERS)
    total: dict[str, Any] = {"total_entries": None, "total_entries_limit": len(found)} if cut else {}
    if filters.cursor is not None:
        part = cursor_page(found, filters.limit, filters.cursor, lambda one: str(one.id))
        cursors = {"next_cursor": part.next_cursor, "previous_cursor": part.previous_cursor}
        shown = await noted(client.notes, part.items)
        return InstanceCollection(task_instances=shown, **{"total_entries": part.total, **total}, **cursors)
    part = page(found, filters.limit, filters.offset)
    shown = await noted(client.notes, part.items)
    return InstanceCollection(task_instances=shown, **{"total_entries": part.total, **total})


class InstanceBatch(Batch):
    """Airflow: TaskInstancesBatchBody."""

    dag_run_ids: list[str] | None = None
    task_ids: list[str] | None = None
    state: list[TaskStateName | None] | None = None
    pool: list[str] | None = None
    queue: list[str] | None = None
    executor: list[str] | None = None


@router.post(INSTANCES + "/list", name="get_task_instances_batch")
async def list_instances(
    client: Source,
    dag_id: Literal["~"],  # noqa: ARG001 - of all
    dag_run_id: Literal["~"],  # noqa: ARG001
    body: InstanceBatch,
) -> InstanceCollection:
    """Instances of the newest runs of all DAGs, with filters in the body."""
    wanted = body.model_dump(include={*DateFilters.model_fields, "pool", "queue", "executor"})
    lists = {"dag_id": body.dag_ids, "run_id": body.dag_run_ids, "task_id": body.task_ids}
    wanted |= {name: value or [] for name, value in lists.items()}
    wanted["state"] = [NOTHING if state is None else state for state in body.state or ()]
    known, cut = await known_instances(client, "~", "~", wanted)
    found = ordered([one for one in known if matches(one, wanted, FIELDS)], [body.order_by or "map_index"], ORDERS)
    part = page(found, body.page_limit, body.page_offset)
    total: dict[str, Any] = {"total_entries": None, "total_entries_limit": len(found)} if cut else {}
    shown = await noted(client.notes, part.items)
    return InstanceCollection(task_instances=shown, **{"total_entries": part.total, **total})


@router.get(INSTANCE)
async def get_instance(client: Source, dag_id: str, dag_run_id: str, task_id: str) -> InstanceAnswer:
    """An instance of a task that is not mapped."""
    return await get_mapped_instance(client, dag_id, dag_run_id, task_id, UNMAPPED)


@router.get(INSTANCE + "/listMapped")
async def list_mapped(
    client: Source, dag_id: str, dag_run_id: str, task_id: str, filters: Annotated[MappedFilters, Query()]
) -> InstanceCollection:
    """The instances of a mapped task. Raises NotFoundError for one that is not mapped."""
    spec = await client.run_spec(dag_id, await client.run(dag_id, dag_run_id))
    if spec is not None and task_id not in spec.mapped:
        raise NotFoundError(f"task {task_id!r} of DAG {dag_id!r} is not mapped")
    mine = InstanceFilters(**filters.model_dump(), task_id=task_id)
    return await get_instances(client, dag_id, dag_run_id, mine)


@router.get(MAPPED + "/dependencies")
@router.get(INSTANCE + "/dependencies")
async def get_dependencies(
    client: Source, dag_id: str, dag_run_id: str, task_id: str, map_index: int = UNMAPPED
) -> Dependencies:
    """What the instance waits for; nothing once it has begun."""
    _, view = await one_instance(client, dag_id, dag_run_id, task_id, map_index)
    waits = not view.state.finished and view.state is not TaskState.RUNNING
    return Dependencies(dependencies=[Dependency(name="tidemill", reason=view.why)] if waits else [])


@router.get(MAPPED + "/tries")
@router.get(INSTANCE + "/tries")
async def get_tries(client: Source, dag_id: str, dag_run_id: str, task_id: str, map_index: int = UNMAPPED) -> TaskTries:
    """The tries of an instance, the one that goes on among them."""
    shown, view = await one_instance(client, dag_id, dag_run_id, task_id, map_index)
    found = [try_answer(shown, view, one) for one in view.tries or (view.without_try,)]
    return TaskTries(task_instances=found, total_entries=len(found))


@router.get(MAPPED + "/tries/{task_try_number}")
@router.get(INSTANCE + "/tries/{task_try_number}")
async def get_try(
    client: Source, dag_id: str, dag_run_id: str, task_id: str, task_try_number: int, map_index: int = UNMAPPED
) -> TaskTry:
    """One try."""
    for one in (await get_tries(client, dag_id, dag_run_id, task_id, map_index)).task_instances:
        if one.try_number == task_try_number:
            return one
    raise NotFoundError(f"task {task_id!r} of run {dag_run_id!r} has no try {task_try_number}")


@router.get(INSTANCE + "/links")
async def get_links(
    client: Source,
    dag_id: str,
    dag_run_id: str,
    task_id: str,
    map_index: int = UNMAPPED,
    try_number: int | None = None,
) -> dict[str, Any]:
    """Where else there is something to see: Spark's user interface, and the application in its History Server."""
    _, view = await one_instance(client, dag_id, dag_run_id, task_id, map_index)
    number = try_number or view.try_number
    links: dict[str, str] = {}
    progress = view.progress or {}
    if number == view.try_number and str(progress.get("ui", "")).startswith(("http://", "https://")):
        links["Spark UI"] = progress["ui"]
    if client.settings.spark_history_url is not None:
        path = attempt_path(dag_id, dag_run_id, task_id, number, map_index)
        figures = await _beside(client, path, lambda log: log.spark, None)
        if figures is not None and figures.application_id is not None:
            links["Spark History"] = history_page(client.settings.spark_history_url, figures.application_id)
    return {"extra_links": links, "total_entries": len(links)}


async def _beside(client: CachedClient, path: str, read: Callable[[TaskLog], T], otherwise: T) -> T:
    """What is beside the log of a try; *otherwise* where a store does not answer."""
    try:
        return await in_time(lambda: read(TaskLog(client.settings, f"{path}.log")), PATIENCE)
    except Exception:  # whatever a store's client raises: the task is shown without it
        log.warning("what is beside the log of %s cannot be read", path, exc_info=True)
        return otherwise


@router.get(MAPPED)
async def get_mapped_instance(
    client: Source, dag_id: str, dag_run_id: str, task_id: str, map_index: int
) -> InstanceAnswer:
    """An instance of a task; -1 where the task is not mapped."""
    answer = instance_answer(*await one_instance(client, dag_id, dag_run_id, task_id, map_index))
    path = attempt_path(dag_id, dag_run_id, task_id, answer.try_number, map_index)
    fields: dict[str, Any] = await _beside(client, path, lambda log: log.rendered, {})
    host = await _host_of(client, dag_id, dag_run_id, instance_key(task_id, map_index), answer.try_number)
    return (await noted(client.notes, [answer.model_copy(update={"rendered_fields": fields, **host})]))[0]


async def _host_of(client: CachedClient, dag_id: str, run_id: str, key: str, try_number: int) -> dict[str, Any]:
    """Where a try of a run that has ended has run: its history is read once. Of others that would be each time."""

    async def ask() -> list[AttemptStart]:
        run = await client.run(dag_id, run_id)
        return (await client.starts(dag_id, run) or []) if run.state.finished else []

    found = await after_change(asyncio.wait_for(ask(), PATIENCE), list)
    for start in reversed(found):  # where it was given back first, the one that has begun its driver
        its_work = start.part in ("", NEEDS_DRIVER)
        if its_work and (start.key, start.try_number) == (key, try_number) and "@" in start.worker:
            pid, _, host = start.worker.partition("@")
            return {"hostname": host, "pid": int(pid) if pid.isdigit() else None}
    return {}


@router.post("/api/v2/dags/{dag_id}/clearTaskInstances", name="post_clear_task_instances")
async def clear_instances(client: Source, dag_id: str, body: ClearBody, request: Request) -> InstanceCollection:
    """Has tasks of runs run again; with `dry_run` only tells which."""
    if body.dry_run:
        only_looks(request)
    meant = await _meant(client, dag_id, body)
    running = [view.key for _, _, (_, views) in meant for view in views if view.state is TaskState.RUNNING]
    if body.prevent_running_task and running:
        raise ConflictError(f"{', '.join(running)} are running, and prevent_running_task is set")

    async def cleared(one: tuple[str, ClearRequest, Instances]) -> list[InstanceAnswer]:
        run_id, request, (shown, views) = one
        if not body.dry_run:
            await client.tidemill.runs.clear(dag_id, run_id, request)
            await client.changed(dag_id, run_id)
            as_notes = {view.error for view in views}
            keys = [(dag_id, run_id, view.task_id, view.map_index) for view in views]
            await client.note(keys, body.note if body.note not in as_notes else None)
            views = [cleared_view(view, shown.spec) for view in views]
        return [instance_answer(shown, view) for view in views]

    named = next((one for one in meant if one[0] == body.dag_run_id), None)
    found = await noted(client.notes, await in_each(meant, named, cleared))
    return InstanceCollection(task_instances=found, total_entries=len(found))


async def in_each(
    meant: Sequence[T], named: T | None, change: Callable[[T], Awaitable[list[InstanceAnswer]]]
) -> list[InstanceAnswer]:
    """Changes several runs, and returns their instances in the order of *meant*.

    What keeps the *named* one from being changed is raised, and nothing else is changed then. Another that cannot be
    changed is left out: what has been changed is not answered as refused.
    """
    first = await change(named) if named is not None else []
    room = asyncio.Semaphore(CHANGES_AT_ONCE)

    async def of(one: T) -> list[InstanceAnswer] | Exception:
        if one is named:
            return first
        async with room:
            try:
                return await change(one)
            except (*REFUSALS, RPCError, TimeoutError) as error:
                log.warning("a run of several is left out: %s", error)
                return error

    found = await asyncio.gather(*map(of, meant))
    errors = [one for one in found if isinstance(one, Exception)]
    if errors and len(errors) == len(found):
        raise errors[0]
    return [one for part in found if not isinstance(part, Exception) for one in part]


async def _meant(client: CachedClient, dag_id: str, body: ClearBody) -> list[tuple[str, ClearRequest, Instances]]:
    """By run, what is to be cleared there, and the instances that this means; runs without any are left out.

    Raises InvalidInputError, ConflictError.
    """
    if body.task_ids is not None and not body.task_ids:
        raise InvalidInputError("task_ids is empty: name at least one task, or leave it out for all")
    if not body.reset_dag_runs:
        raise InvalidInputError("reset_dag_runs = false is not offered: the run goes on with what is cleared")
    request = ClearRequest(
        tasks=tuple(one if isinstance(one, str) else instance_key(*one) for one in body.task_ids or ()),
        upstream=body.include_upstream,
        downstream=body.include_downstream,
        only_failed=body.only_failed,
        run_on_latest_version=body.run_on_latest_version,
    )
    found = []
    for run_id in await _runs_meant(client, dag_id, body):
        try:
            instances = await would_clear(client, dag_id, run_id, request)
        except InvalidInputError:
            if run_id == body.dag_run_id:
                raise
            continue  # another run may have another version, without the task
        mine = request
        if body.only_running:
            shown, views = instances
            views = [view for view in views if view.state is TaskState.RUNNING]
            instances = shown, views
            mine = ClearRequest(tasks=tuple(view.key for view in views))
        if instances[1]:
            found.append((run_id, mine, instances))
    return found


async def _runs_meant(client: CachedClient, dag_id: str, body: ClearBody) -> list[str]:
    dates = body.start_date, body.end_date
    if body.dag_run_id is not None:
        if any(dates):
            raise InvalidInputError("dag_run_id and dates exclude each other. Leave the dates out")
        around = {"past": body.include_past, "future": body.include_future}
        with bad_requests():
            found = await chosen_around(client, dag_id, body.dag_run_id, **around)
        # Both together mean all there are, also those without a logical date (as in Airflow).
        return await all_runs_of(client, dag_id) if all(around.values()) else found
    await client.view(dag_id)
    return await (chosen_between(client, dag_id, *dates) if any(dates) else all_runs_of(client, dag_id))


@router.patch(MAPPED + "/dry_run")
@router.patch(INSTANCE + "/dry_run")
async def try_marking(
    client: Source,
    dag_id: str,
    dag_run_id: str,
    task_id: str,
    body: InstancePatch,
    map_index: int = UNMAPPED,
    update_mask: UpdateMask = None,  # noqa: ARG001 - a note is refused, and there is one other field
) -> InstanceCollection:
    """Which instances a mark would change. Raises NotFoundError for an instance that is not there."""
    known = await client.run_spec(dag_id, await client.run(dag_id, dag_run_id))
    if known is not None and task_id not in known.by_id:
        raise NotFoundError(f"run {dag_run_id!r} of DAG {dag_id!r} has no task {task_id!r}")
    if body.new_state is None:  # nothing would change, and shown is what is meant
        found, _ = await _noted_keys(client, dag_id, dag_run_id, task_id, map_index, None)
        return InstanceCollection(task_instances=await noted(client.notes, found), total_entries=len(found))
    if map_index != UNMAPPED:
        await one_instance(client, dag_id, dag_run_id, task_id, map_index)
    request = mark_of((instance_key(task_id, map_index),), body)
    found = []
    for run_id in await _runs_of(client, dag_id, dag_run_id, body):
        found += await _changed_by(client, dag_id, run_id, request, must=run_id == dag_run_id)
    return InstanceCollection(task_instances=await noted(client.notes, found), total_entries=len(found))


async def _runs_of(client: CachedClient, dag_id: str, run_id: str, body: InstancePatch) -> list[str]:
    """The runs that a mark is for: of one without a logical date it alone, where a clear is refused (as in Airflow)."""
    dated = (await client.run(dag_id, run_id)).logical_date is not None
    around = {"past": dated and body.include_past, "future": dated and body.include_future}
    return await chosen_around(client, dag_id, run_id, **around)


async def _changed_by(
    client: CachedClient, dag_id: str, run_id: str, request: MarkRequest, *, must: bool
) -> list[InstanceAnswer]:
    """The instances of a run that have another state yet; without *must* none where the run has no such task."""
    try:
        shown, views = await would_mark(client, dag_id, run_id, request)
    except InvalidInputError:
        if must:
            raise
        return []
    return [instance_answer(shown, view) for view in views if view.state != request.state]


@router.patch(MAPPED, name="patch_task_instance")
@router.patch(INSTANCE, name="patch_task_instance")
async def mark_instance(
    client: Source,
    dag_id: str,
    dag_run_id: str,
    task_id: str,
    body: InstancePatch,
    map_index: int = UNMAPPED,
    update_mask: UpdateMask = None,
) -> InstanceCollection:
    """Gives an instance a state without running it; what runs is stopped first."""
    notes = gives_note(body, update_mask)
    if body.new_state is None if update_mask is None else "new_state" not in update_mask:
        if not notes:
            return await try_marking(client, dag_id, dag_run_id, task_id, InstancePatch(), map_index)
        found = await note_instances(client, dag_id, dag_run_id, task_id, map_index, body.note)
        return InstanceCollection(task_instances=found, total_entries=len(found))
    before = await try_marking(client, dag_id, dag_run_id, task_id, body, map_index)
    if not before.task_instances:
        raise ConflictError(f"task {instance_key(task_id, map_index)!r} is {body.new_state} already")
    request = mark_of((instance_key(task_id, map_index),), body)

    async def mark(run_id: str) -> list[InstanceAnswer]:
        mine = [one for one in before.task_instances if one.dag_run_id == run_id]
        # Whom the note is about is found before the mark: right after it the run may be between two executions.
        _, keys = await _noted_keys(client, dag_id, run_id, task_id, map_index, body.note) if notes else ((), [])
        await client.tidemill.tasks.mark(dag_id, run_id, request)
        if keys:
            await client.write_note(keys, body.note, beside=True)
        return await _marked_in(client, dag_id, run_id, mine, body)

    run_ids = list(dict.fromkeys(one.dag_run_id for one in before.task_instances))
    found = await in_each(run_ids, next((run_id for run_id in run_ids if run_id == dag_run_id), None), mark)
    return InstanceCollection(task_instances=found, total_entries=len(found))


async def _marked_in(
    client: CachedClient, dag_id: str, run_id: str, before: list[InstanceAnswer], body: InstancePatch
) -> list[InstanceAnswer]:
    """The instances that a mark has changed, once the run tells of it."""
    changed = {(one.task_id, one.map_index) for one in before}

    def is_marked(run: RunDetails) -> bool:
        states = {(one.task_id, one.map_index): one.state for one in run.tasks}
        return all(states.get(one) == body.new_state for one in changed)

    await client.until(dag_id, run_id, is_marked)
    answer = await marked(client, dag_id, run_id, InstanceCollection(task_instances=before, total_entries=0), body)
    return answer.task_instances


async def marked(
    client: CachedClient, dag_id: str, run_id: str, before: InstanceCollection, body: InstancePatch
) -> InstanceCollection:
    """The instances that were *before* the mark what it changes, as they are now; as marked where nobody answers."""
    changed = {(one.task_id, one.map_index) for one in before.task_instances}

    async def now() -> list[InstanceAnswer]:
        shown, views = await instances_of(client, dag_id, run_id)
        found = [instance_answer(shown, view) for view in views if (view.task_id, view.map_index) in changed]
        return await noted(client.notes, found)

    def as_marked() -> list[InstanceAnswer]:
        return [one.model_copy(update={"state": body.new_state}) for one in before.task_instances]

    found = await after_change(now(), as_marked)
    if [one.state for one in found] != [body.new_state] * len(changed):  # a run that begins again may not know it yet
        found = await noted(client.notes, as_marked())
    return InstanceCollection(task_instances=found, total_entries=len(found))


def gives_note(body: InstancePatch, update_mask: list[str] | None) -> bool:
    """Whether a note is to be written or removed: without a mask an empty one says nothing, as in Airflow."""
    return body.note is not None if update_mask is None else "note" in update_mask


async def note_instances(
    client: CachedClient, dag_id: str, run_id: str, task_id: str, map_index: int, note: str | None
) -> list[InstanceAnswer]:
    """Writes a note about an instance; of a mapped task without a map_index about all of them. Returns them.

    Raises NotFoundError for one that is not there, ArchiveError where it cannot be kept.
    """
    found, keys = await _noted_keys(client, dag_id, run_id, task_id, map_index, note)
    await client.write_note(keys, note, beside=False)
    return await noted(client.notes, found)


async def _noted_keys(
    client: CachedClient, dag_id: str, run_id: str, task_id: str, map_index: int, note: str | None
) -> tuple[list[InstanceAnswer], list[Key]]:
    """The instances that a note is about, and the keys under which it has to be kept."""
    shown, views = await instances_of(client, dag_id, run_id)
    meant = [view for view in views if view.task_id == task_id and map_index in (view.map_index, UNMAPPED)]
    if not meant:
        await one_instance(client, dag_id, run_id, task_id, map_index)
    # Why it has failed is shown as its note, and may come back.
    keys = [(dag_id, run_id, task_id, view.map_index) for view in meant if note != view.error]
    return [instance_answer(shown, view) for view in meant], keys


def mark_of(keys: tuple[str, ...], body: InstancePatch) -> MarkRequest:
    """What is to be marked. Raises InvalidInputError where no state is given."""
    if body.new_state is None:
        raise InvalidInputError("new_state is missing: give success, failed or skipped")
    return MarkRequest(
        tasks=keys,
        state=TaskState(body.new_state),
        upstream=body.include_upstream,
        downstream=body.include_downstream,
    )


@router.get("/api/v2/dags/{dag_id}/tasks")
async def get_tasks(client: Source, dag_id: str, order_by: str = "task_id") -> TaskCollection:
    """The tasks of the version that is in place."""
    spec = await client.spec(dag_id)
    orders: dict[str, Any] = {
        name: lambda task, name=name: getattr(task, name)
        for name in (
            "task_id",
            "task_display_name",
            "owner",
            "trigger_rule",
            "retries",
            "pool",
            "operator_name",
            "start_date",
        )
    }
    found = ordered((task_answer(spec, task) for task in spec.tasks), [order_by], orders)
    return TaskCollection(tasks=found, total_entries=len(found))


@router.get("/api/v2/dags/{dag_id}/tasks/{task_id}")
async def get_task(client: Source, dag_id: str, task_id: str) -> TaskAnswer:
    """A task of the version that is in place."""
    spec = await client.spec(dag_id)
    if task_id not in spec.by_id:
        raise NotFoundError(f"DAG {dag_id!r} has no task {task_id!r}. It has {', '.join(spec.by_id)}")
    return task_answer(spec, spec.by_id[task_id])
