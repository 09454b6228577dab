"""A DAG as the user interface draws it: a tree of groups, and edges."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...model.spec.dag import DagSpec
from ...model.spec.tasks import Task
from ..responses.tasks import operator_of


def tree(spec: DagSpec, tasks: Collection[str] | None = None, *, typed: bool = False) -> list[dict[str, Any]]:
    """Tasks in their groups, each behind those it waits for. *tasks*: only those. *typed*: as nodes of a graph."""
    tops: list[dict[str, Any]] = []
    groups: dict[str, dict[str, Any]] = {}
    known = {group.group_id: group for group in spec.groups}

    def place(group: str | None) -> list[dict[str, Any]]:
        """Where members of *group* go."""
        if group is None:
            return tops
        if group not in groups:
            found = known.get(group)
            node: dict[str, Any] = {
                "id": group,
                "label": group.rpartition(".")[2],
                "children": [],
                "is_mapped": (found is not None and found.expand is not None) or (False if typed else None),
            }
            if typed:
                node |= {"type": "task", "tooltip": found.tooltip if found is not None else None}
            groups[group] = node
            place(group.rpartition(".")[0] or None).append(node)
        children: list[dict[str, Any]] = groups[group]["children"]
        return children

    for task in in_order(spec):
        if tasks is None or task.task_id in tasks:
            place(task.group).append(_leaf(spec, task, typed=typed))
    return tops


def members_of(spec: DagSpec, group: str) -> set[str]:
    """The tasks of a group, and of the groups in it."""
    inside = {one.group_id for one in spec.groups if one.group_id == group or one.group_id.startswith(f"{group}.")}
    return {task.task_id for task in spec.tasks if task.group in inside | {group}}


def reached(neighbours: Mapping[str, Sequence[str]], start: str, depth: int | None) -> set[str]:
    """All that *neighbours* lead to from *start*, in at most *depth* steps."""
    found: set[str] = set()
    edge = {start}
    while edge and depth != 0:
        edge = {other for one in edge for other in neighbours[one]} - found
        found |= edge
        depth = None if depth is None else depth - 1
    return found


def in_order(spec: DagSpec) -> list[Task]:
    """Tasks behind those they wait for; else by their names, as in Airflow."""
    done: dict[str, Task] = {}
    left = [*spec.tasks]
    while left:
        ready = sorted((t for t in left if all(one in done for one in t.upstream)), key=lambda t: t.task_id)
        done.update({task.task_id: task for task in ready})
        left = [task for task in left if task.task_id not in done]
    return [*done.values()]


def _leaf(spec: DagSpec, task: Task, *, typed: bool) -> dict[str, Any]:
    kind = "setup" if task.is_setup else "teardown" if task.is_teardown else None
    own = task.task_id.removeprefix(f"{task.group}.") if task.group is not None else task.task_id
    label = task.task_display_name or own
    node: dict[str, Any] = {
        "id": task.task_id,
        "label": label,
        "is_mapped": True if task.task_id in spec.mapped else None,
        "setup_teardown_type": kind,
    }
    if typed:
        return {**node, "type": "task", "operator": operator_of(task.kind, getattr(task, "operator_name", None))}
    return {**node, "doc_md": task.doc_md}


def edges(spec: DagSpec, tasks: Collection[str] | None = None) -> list[dict[str, Any]]:
    """From each task to those downstream of it."""
    return [
        {
            "source_id": task.task_id,
            "target_id": other,
            "label": spec.edge_labels.get(task.task_id, {}).get(other),
            "is_setup_teardown": True if task.is_setup and spec.by_id[other].is_teardown else None,
        }
        for task in spec.tasks
        for other in spec.downstreams[task.task_id]
        if tasks is None or (task.task_id in tasks and other in tasks)
    ]
