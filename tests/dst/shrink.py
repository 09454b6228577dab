"""Makes a plan that violates a property smaller, as long as it goes on to violate it."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator

from tidemill.model.spec.dag import read_dag

from .installation import Plan
from .simulation import simulate


def shrink(plan: Plan, name: str, seconds: float) -> Plan:
    """The smallest plan that was found within *seconds* and still violates the property *name*."""
    deadline = time.monotonic() + seconds
    best, smaller = plan, True
    while smaller:
        smaller = False
        for candidate in _smaller(best):
            if time.monotonic() > deadline:
                return best
            if _violates(candidate, name):
                best, smaller = candidate, True
                break
    return best


def _violates(plan: Plan, name: str) -> bool:
    try:
        for fields in plan.dags:
            read_dag(fields)
    except ValueError:
        return False
    return any(found.name == name for found in simulate(plan).violations)


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Plans with something left out, the largest pieces first."""
    n = len(plan.happenings)
    for part in (n // 2, n // 4, 1):
        for start in range(0, n if part else 0, max(part, 1)):
            yield _without(plan, happenings=plan.happenings[:start] + plan.happenings[start + part :])
    n = len(plan.hunts)
    for part in (n // 2, 1):
        for start in range(0, n if part else 0, max(part, 1)):
            yield _without(plan, hunts=plan.hunts[:start] + plan.hunts[start + part :])
    for number in range(len(plan.dags) if len(plan.dags) > 1 else 0):
        gone = plan.dags[number]["dag_id"]
        left = [each for each in plan.happenings if each.arguments.get("dag_id") != gone]
        yield _without(plan, dags=plan.dags[:number] + plan.dags[number + 1 :], happenings=left)
    for name in plan.rates:
        yield _without(plan, rates={key: rate for key, rate in plan.rates.items() if key != name})
    for number, dag in enumerate(plan.dags):
        for task in dag["tasks"] if len(dag["tasks"]) > 1 else ():
            yield _without(plan, dags=_replaced(plan, number, _without_task(dag, task["task_id"])))
        for name in set(dag) - {"dag_id", "tasks", "schedule", "start_date", "end_date"}:
            fields = {key: value for key, value in dag.items() if key != name}
            yield _without(plan, dags=_replaced(plan, number, fields))
        for at, task in enumerate(dag["tasks"]):
            for name in set(task) - {"kind", "task_id", "upstream", "command", "operator", "activity_type", "queue"}:
                lean = {key: value for key, value in task.items() if key != name}
                tasks = [lean if other == at else each for other, each in enumerate(dag["tasks"])]
                yield _without(plan, dags=_replaced(plan, number, {**dag, "tasks": tasks}))
    for name, least in (("workers", 1), ("by_bundle", False), ("parallelism", None), ("suggests_from", 4096)):
        if getattr(plan, name) != least:
            yield _without(plan, **{name: least})


def _without(plan: Plan, **changes: object) -> Plan:
    made = copy.copy(plan)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def _replaced(plan: Plan, number: int, dag: dict[str, object]) -> list[dict[str, object]]:
    return [dag if other == number else each for other, each in enumerate(plan.dags)]


def _without_task(dag: dict[str, object], task_id: str) -> dict[str, object]:
    tasks = [task for task in dag["tasks"] if task["task_id"] != task_id]  # type: ignore[attr-defined]
    lean = [{**task, "upstream": [u for u in task.get("upstream", []) if u != task_id]} for task in tasks]
    return {**dag, "tasks": lean}
