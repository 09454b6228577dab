"""Who goes first when not all can: Airflow's priority weights."""

from collections.abc import Mapping, Sequence

from .graph import ancestors, downstreams
from .tasks import BaseTask, WeightRule


def priority_weights(tasks: Mapping[str, BaseTask]) -> dict[str, int]:
    """The weight of each task by its own rule: own weight, and of all tasks below or above it, each once."""
    if all(task.priority_weight == 1 and task.weight_rule is WeightRule.DOWNSTREAM for task in tasks.values()):
        return _counted({task_id: task.upstream for task_id, task in tasks.items()})
    above = {task_id: task.upstream for task_id, task in tasks.items()}
    below = downstreams(above)
    return {task_id: _weight(task, tasks, above, below) for task_id, task in tasks.items()}


def _weight(
    task: BaseTask,
    tasks: Mapping[str, BaseTask],
    above: Mapping[str, Sequence[str]],
    below: Mapping[str, Sequence[str]],
) -> int:
    counted: set[str] = set()
    if task.weight_rule is not WeightRule.ABSOLUTE:
        counted = ancestors(below if task.weight_rule is WeightRule.DOWNSTREAM else above, task.task_id)
    return task.priority_weight + sum(tasks[other].priority_weight for other in counted)


def _counted(above: Mapping[str, Sequence[str]]) -> dict[str, int]:
    below = downstreams(above)
    return {task_id: 1 + len(ancestors(below, task_id)) for task_id in above}
