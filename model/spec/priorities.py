"""Who goes first when not all can: Airflow's priority weights."""

from collections.abc import Iterable, Mapping, Sequence

from .graph import downstreams, topological
from .tasks import BaseTask, WeightRule


def priority_weights(tasks: Mapping[str, BaseTask]) -> dict[str, int]:
    """The weight of each task by its own rule: own weight, and of all tasks below or above it, each once."""
    above = {task_id: task.upstream for task_id, task in tasks.items()}
    order = topological(above)
    sums = _Sums(tasks)
    weights = {task_id: task.priority_weight for task_id, task in tasks.items()}
    rules = {task.weight_rule for task in tasks.values()}
    if WeightRule.DOWNSTREAM in rules:
        below = _reached(reversed(order), downstreams(above), sums.bits)
        weights |= {t: weights[t] + sums.of(below[t]) for t in tasks if tasks[t].weight_rule is WeightRule.DOWNSTREAM}
    if WeightRule.UPSTREAM in rules:
        before = _reached(order, above, sums.bits)
        weights |= {t: weights[t] + sums.of(before[t]) for t in tasks if tasks[t].weight_rule is WeightRule.UPSTREAM}
    return weights


def _reached(order: Iterable[str], neighbours: Mapping[str, Sequence[str]], bits: Mapping[str, int]) -> dict[str, int]:
    """All tasks that can be reached from each, as sets of bits: thousands of them are one number each."""
    found: dict[str, int] = {}
    for task_id in order:
        reached = 0
        for other in neighbours[task_id]:
            reached |= bits[other] | found[other]
        found[task_id] = reached
    return found


class _Sums:
    """Adds up the weights of sets of tasks."""

    def __init__(self, tasks: Mapping[str, BaseTask]) -> None:
        self.bits = {task_id: 1 << n for n, task_id in enumerate(tasks)}
        self._by_weight: dict[int, int] = {}
        for task_id, task in tasks.items():
            self._by_weight[task.priority_weight] = self._by_weight.get(task.priority_weight, 0) | self.bits[task_id]

    def of(self, chosen: int) -> int:
        return sum(weight * (chosen & members).bit_count() for weight, members in self._by_weight.items())
