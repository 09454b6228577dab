"""The shape of a DAG: who is downstream of whom, and that nobody is downstream of himself."""

from collections import deque
from collections.abc import Mapping, Sequence


def downstreams(upstreams: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The direct downstream tasks of each task."""
    below: dict[str, list[str]] = {task_id: [] for task_id in upstreams}
    for task_id, above in upstreams.items():
        for other in above:
            below[other].append(task_id)
    return below


def topological(upstreams: Mapping[str, Sequence[str]]) -> list[str]:
    """All tasks, each after its upstreams; those in a cycle, and below one, are left out."""
    waiting = {task_id: len(above) for task_id, above in upstreams.items()}
    below = downstreams(upstreams)
    ready = deque(task_id for task_id, n in waiting.items() if n == 0)
    order = []
    while ready:
        task_id = ready.popleft()
        order.append(task_id)
        for other in below[task_id]:
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.append(other)
    return order


def cycle(upstreams: Mapping[str, Sequence[str]]) -> list[str] | None:
    """One cycle as the tasks along it, first repeated last; None if there is none."""
    sound = set(topological(upstreams))
    rest = [task_id for task_id in upstreams if task_id not in sound]
    if not rest:
        return None
    path, seen = [rest[0]], {rest[0]: 0}
    while True:
        above = next(task_id for task_id in upstreams[path[-1]] if task_id not in sound)
        if above in seen:
            return [*path[seen[above] :], above][::-1]
        seen[above] = len(path)
        path.append(above)


def ancestors(upstreams: Mapping[str, Sequence[str]], task_id: str) -> set[str]:
    """Every task that can be reached from *task_id* along *upstreams*, directly or not.

    With `downstreams` in the place of upstreams: every task below it.
    """
    found: set[str] = set()
    ahead = list(upstreams[task_id])
    while ahead:
        other = ahead.pop()
        if other not in found:
            found.add(other)
            ahead.extend(upstreams[other])
    return found
