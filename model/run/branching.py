"""What a branch or a short circuit skips, from what its function returned."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import InvalidInputError
from ..spec.dag import DagSpec, enclosing
from ..spec.graph import ancestors
from ..spec.tasks import BranchTask, LatestOnlyTask, ShortCircuitTask, Task

SKIPMIXIN = "skipmixin_key"
"""What a branch or short circuit of Airflow's pushes; in a mapped group that is all that it says of what it skips."""


def skipped_tasks(spec: DagSpec, task: Task, result: Any) -> tuple[str, ...]:
    """The tasks that do not run after *task* returned *result*. Raises InvalidInputError for a name of no task."""
    if isinstance(task, BranchTask):
        return _not_followed(spec, task.task_id, _names(task, result))
    if isinstance(task, ShortCircuitTask) and not result:
        return _cut_off(spec, task)
    if isinstance(task, LatestOnlyTask) and not result:
        return _workers(spec, spec.downstreams[task.task_id])
    return ()


def skipped_as_pushed(spec: DagSpec, task: Task, decided: Mapping[str, Any]) -> tuple[str, ...]:
    """The tasks that do not run after *task* pushed *decided* as SKIPMIXIN (Airflow: NotPreviouslySkippedDep)."""
    if (followed := decided.get("followed")) is not None:
        return tuple(task_id for task_id in spec.downstreams[task.task_id] if task_id not in followed)
    return tuple(task_id for task_id in decided.get("skipped", ()) if task_id in spec.by_id)


def _names(task: Task, result: Any) -> list[str]:
    if result is None:
        return []
    names = [result] if isinstance(result, str) else result
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidInputError(
            f"task {task.task_id!r}: a branch returns the task_id to follow, a list of them, or None; not {result!r}"
        )
    return list(names)


def _not_followed(spec: DagSpec, branch: str, names: Iterable[str]) -> tuple[str, ...]:
    """Tasks directly below *branch* that are neither followed nor downstream of one that is (as in Airflow)."""
    followed: set[str] = set()
    for name in names:
        members = [name] if name in spec.by_id else _of_group(spec, name)
        if not members:
            below = ", ".join(spec.downstreams[branch]) or "none"
            raise InvalidInputError(
                f"task {branch!r}: {name!r} is no task or group of this DAG. Downstream are: {below}"
            )
        for member in members:
            followed |= {member} | ancestors(spec.downstreams, member)
    return tuple(task_id for task_id in spec.downstreams[branch] if task_id not in followed)


def _of_group(spec: DagSpec, group_id: str) -> list[str]:
    return [task.task_id for task in spec.tasks if group_id in enclosing(task.group)]


def _cut_off(spec: DagSpec, task: ShortCircuitTask) -> tuple[str, ...]:
    below = spec.downstreams[task.task_id]
    if not task.ignore_downstream_trigger_rules:
        return _workers(spec, below)
    everything = ancestors(spec.downstreams, task.task_id)
    return _workers(spec, (other.task_id for other in spec.tasks if other.task_id in everything))


def _workers(spec: DagSpec, task_ids: Iterable[str]) -> tuple[str, ...]:
    """Teardowns are left to their own rule."""
    return tuple(task_id for task_id in task_ids if not spec.by_id[task_id].is_teardown)
