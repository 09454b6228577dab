"""Setup and teardown tasks: what their place in the graph means for the tasks between them."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..spec.graph import ancestors, downstreams
from ..spec.tasks import BaseTask


@dataclass(frozen=True, slots=True)
class SetupRules:
    """What setups and teardowns add to the trigger rules of a DAG."""

    setups_above: Mapping[str, frozenset[str]]
    """By task: setups further up that it needs, beside those directly upstream of it."""
    work_before: Mapping[str, frozenset[str]]
    """By teardown: the tasks between it and its setups, all of which it waits for."""

    def concerned(self) -> dict[str, list[str]]:
        """The tasks to look at again when a task ends, beside those directly downstream of it."""
        found: dict[str, list[str]] = {}
        for table in (self.setups_above, self.work_before):
            for task_id, others in table.items():
                for other in others:
                    found.setdefault(other, []).append(task_id)
        return found


NO_RULES = SetupRules({}, {})


def setup_rules(tasks: Mapping[str, BaseTask]) -> SetupRules:
    """The rules for *tasks*; none for a DAG without setups and teardowns."""
    if not any(task.is_setup or task.is_teardown for task in tasks.values()):
        return NO_RULES
    above = {task_id: task.upstream for task_id, task in tasks.items()}
    below = downstreams(above)
    needed = {
        task_id: _indirect_setups(task, tasks, above, below) for task_id, task in tasks.items() if not task.is_teardown
    }
    between = {task_id: _work_before(task, tasks, above, below) for task_id, task in tasks.items() if task.is_teardown}
    return SetupRules({k: v for k, v in needed.items() if v}, {k: v for k, v in between.items() if v})


def _indirect_setups(
    task: BaseTask, tasks: Mapping[str, BaseTask], above: Mapping[str, tuple[str, ...]], below: Mapping[str, list[str]]
) -> frozenset[str]:
    """Setups above *task* whose work is not torn down before it (Airflow: relevant setups)."""
    teardowns_below = {other for other in ancestors(below, task.task_id) if tasks[other].is_teardown}
    found = set()
    for other in ancestors(above, task.task_id) - set(task.upstream):
        teardowns = {end for end in below[other] if tasks[end].is_teardown}
        if tasks[other].is_setup and (not teardowns or teardowns & teardowns_below):
            found.add(other)
    return frozenset(found)


def _work_before(
    teardown: BaseTask,
    tasks: Mapping[str, BaseTask],
    above: Mapping[str, tuple[str, ...]],
    below: Mapping[str, list[str]],
) -> frozenset[str]:
    setups = [other for other in teardown.upstream if tasks[other].is_setup]
    covered = {other for setup in setups for other in ancestors(below, setup)}
    return frozenset((covered & ancestors(above, teardown.task_id)) - set(teardown.upstream))


def leaves(tasks: Mapping[str, BaseTask]) -> list[str]:
    """The tasks that a run's end is judged by: those without downstreams, teardowns left out.

    A teardown counts with on_failure_fail_dagrun, or where there is nothing but teardowns (as in Airflow).
    """
    below = downstreams({task_id: task.upstream for task_id, task in tasks.items()})

    def counts(task: BaseTask) -> bool:
        return not task.is_teardown or task.on_failure_fail_dagrun

    judged = [
        task_id
        for task_id, task in tasks.items()
        if counts(task) and not any(counts(tasks[other]) for other in below[task_id])
    ]
    return judged or [task_id for task_id in tasks if not below[task_id]]
