"""Groups of tasks in a run: marking all of their tasks together."""

from fastapi import APIRouter

from ...model.run.revisions import MarkRequest
from ...model.states import TaskState
from ...worker.connection import NotFoundError
from ..dependencies import Here, Mask
from ..read.graph import members_of
from ..read.instances import instances_of, would_mark
from ..read.source import Source
from ..responses.common import refuse_note
from ..responses.tasks import InstanceCollection, InstancePatch, instance_answer
from .runs import RUN
from .task_instances import mark_of

router = APIRouter()
GROUP = RUN + "/taskGroupInstances/{group_id}"


async def _mark(source: Source, dag_id: str, run_id: str, group_id: str, body: InstancePatch) -> MarkRequest:
    """What is to be marked. Raises NotFoundError for a group that the run has not."""
    refuse_note(body.note)
    _, spec, views = await instances_of(source, dag_id, run_id)
    members = members_of(spec, group_id) if spec is not None else set()
    keys = tuple(view.key for view in views if view.task_id in members and view.state is not TaskState.REMOVED)
    if not keys:
        raise NotFoundError(f"run {run_id!r} of DAG {dag_id!r} has no tasks of a group {group_id!r}")
    return mark_of(keys, body)


@router.patch(GROUP + "/dry_run")
async def try_marking_group(
    source: Here, dag_id: str, dag_run_id: str, group_id: str, body: InstancePatch
) -> InstanceCollection:
    """Which instances a mark would change."""
    request = await _mark(source, dag_id, dag_run_id, group_id, body)
    run, spec, views = await would_mark(source, dag_id, dag_run_id, request)
    found = [instance_answer(run, view, spec) for view in views if view.state != body.new_state]
    return InstanceCollection(task_instances=found, total_entries=len(found))


@router.patch(GROUP)
async def mark_group(
    source: Here, dag_id: str, dag_run_id: str, group_id: str, body: InstancePatch, update_mask: Mask = None
) -> InstanceCollection:
    """Gives the tasks of a group a state without running them; what runs is stopped first."""
    if update_mask is not None and "new_state" not in update_mask:
        refuse_note(body.note)
        return InstanceCollection(task_instances=[], total_entries=0)
    before = await try_marking_group(source, dag_id, dag_run_id, group_id, body)
    await source.tidemill.mark_tasks(dag_id, dag_run_id, await _mark(source, dag_id, dag_run_id, group_id, body))
    await source.changed(dag_id, dag_run_id)
    run, spec, views = await instances_of(source, dag_id, dag_run_id)
    changed = {(one.task_id, one.map_index) for one in before.task_instances}
    found = [instance_answer(run, view, spec) for view in views if (view.task_id, view.map_index) in changed]
    return InstanceCollection(task_instances=found, total_entries=len(found))
