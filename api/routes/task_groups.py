"""Groups of tasks in a run: marking all of their tasks together."""

from fastapi import APIRouter

from ...model.errors import InvalidInputError
from ...model.run.revisions import MarkRequest
from ...model.run.views import TaskView
from ...model.states import TaskState
from ...worker.service.connection import NotFoundError
from ..dependencies import Source, UpdateMask
from ..errors import ConflictError
from ..read.cached_client import CachedClient
from ..read.graph import members_of
from ..read.instances import instances_of, would_mark
from ..read.notes import noted
from ..responses.tasks import InstanceCollection, InstancePatch, instance_answer
from .runs import RUN
from .task_instances import gives_note, mark_of, marked

router = APIRouter()
GROUP = RUN + "/taskGroupInstances/{group_id}"


async def _mark(client: CachedClient, dag_id: str, run_id: str, group_id: str, body: InstancePatch) -> MarkRequest:
    """What is to be marked. Raises NotFoundError for a group that the run has not, and InvalidInputError."""
    if body.include_future or body.include_past:
        raise InvalidInputError("include_future and include_past are not offered for groups: mark run by run")
    return mark_of(tuple(view.key for view in await _members(client, dag_id, run_id, group_id)), body)


async def _members(client: CachedClient, dag_id: str, run_id: str, group_id: str) -> list[TaskView]:
    """The instances of the group's tasks. Raises NotFoundError for a group that the run has not."""
    (_, spec, _), views = await instances_of(client, dag_id, run_id)
    members = members_of(spec, group_id) if spec is not None else set()
    found = [view for view in views if view.task_id in members and view.state is not TaskState.REMOVED]
    if not found:
        raise NotFoundError(f"run {run_id!r} of DAG {dag_id!r} has no tasks of a group {group_id!r}")
    return found


@router.patch(GROUP + "/dry_run")
async def try_marking_group(
    client: Source, dag_id: str, dag_run_id: str, group_id: str, body: InstancePatch
) -> InstanceCollection:
    """Which instances a mark would change."""
    request = await _mark(client, dag_id, dag_run_id, group_id, body)
    shown, views = await would_mark(client, dag_id, dag_run_id, request)
    found = [instance_answer(shown, view) for view in views if view.state != body.new_state]
    return InstanceCollection(task_instances=await noted(client.notes, found), total_entries=len(found))


@router.patch(GROUP, name="patch_task_group_instances")
async def mark_group(
    client: Source, dag_id: str, dag_run_id: str, group_id: str, body: InstancePatch, update_mask: UpdateMask = None
) -> InstanceCollection:
    """Gives the tasks of a group a state without running them; what runs is stopped first."""
    marks = body.new_state is not None if update_mask is None else "new_state" in update_mask
    notes = gives_note(body, update_mask)
    keys = [
        (dag_id, dag_run_id, one.task_id, one.map_index)
        for one in await _members(client, dag_id, dag_run_id, group_id)
        if notes
    ]
    if not marks:
        await client.write_note(keys, body.note, beside=False)
        shown, _ = await instances_of(client, dag_id, dag_run_id)
        members = await _members(client, dag_id, dag_run_id, group_id)
        found = await noted(client.notes, [instance_answer(shown, view) for view in members])
        return InstanceCollection(task_instances=found, total_entries=len(found))
    before = await try_marking_group(client, dag_id, dag_run_id, group_id, body)
    if not before.task_instances:
        raise ConflictError(f"the tasks of group {group_id!r} are {body.new_state} already")
    await client.tidemill.tasks.mark(dag_id, dag_run_id, await _mark(client, dag_id, dag_run_id, group_id, body))
    await client.write_note(keys, body.note, beside=True)
    await client.changed(dag_id, dag_run_id)
    return await marked(client, dag_id, dag_run_id, before, body)
