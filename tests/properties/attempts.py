"""What a worker is given to do: the try, the results upstream, the values and the limits that its run has for it."""

from __future__ import annotations

import json
from typing import Any

from tidemill.model.run.instance_keys import UNMAPPED, instance_key
from tidemill.model.spec.references import RETURN_VALUE, XCOM_REFERENCE

from .catalogue import Found, Look, prop
from .rules import Owing

LEVEL = "DagRun"
MOST_STARTS = 10


def _given(look: Look) -> Any:
    """The attempts that workers have been given in this workflow task, as plain JSON, with their activities."""
    for activity in look.scheduled:
        plain = activity.input and activity.input[0].metadata.get("encoding") == b"json/plain"
        if not plain or "/" not in activity.activity_id or activity.activity_id.endswith("/trigger"):
            continue
        attempt = json.loads(activity.input[0].data)
        if isinstance(attempt, dict) and "try_number" in attempt:
            key = instance_key(attempt["task"]["task_id"], attempt.get("map_index", UNMAPPED))
            if key in look.state.instances:
                yield activity, attempt, look.state.instances[key]


@prop(LEVEL)
def a_worker_is_given_the_present_try(look: Look) -> Found:
    """What a worker is given is the present try of a task of that run, with the run's conf."""
    run = look.state.run
    for _, attempt, instance in _given(look):
        if (attempt["try_number"], attempt.get("tries_cleared", 0)) != (instance.try_number, instance.tries_cleared):
            yield f"{instance.key}: try {attempt['try_number']} of {instance.try_number}"
        if attempt["run"]["run_id"] != run.run_id or attempt["run"].get("conf", {}) != run.conf:
            yield f"{instance.key}: {attempt['run']}"
        for name, value in run.conf.items():
            if attempt.get("params", {}).get(name) != value:
                yield f"{instance.key}: params {attempt.get('params')}, conf {run.conf}"
        if attempt.get("poke", 1) != instance.pokes + 1:
            yield f"{instance.key}: poke {attempt.get('poke')} after {instance.pokes}"


@prop(LEVEL)
def a_worker_is_given_the_results_upstream(look: Look) -> Found:
    """A try is given what the tasks upstream that it names have left; of a mapped group, those of its own index."""
    spec, instances = look.state.spec, look.state.instances
    owing = Owing(look.state)
    for _, attempt, instance in _given(look):
        task = spec.by_id[instance.task_id]
        mapped_over = {*spec.mapped_over(task.task_id)} if task.task_id in spec.mapped else set()  # it gets its value
        wanted = owing.graph.all_above(task.task_id) if task.pulls_xcom else {*task.uses()} - mapped_over
        for other in wanted:
            mine = [instances[key] for key in owing.depended_on(instance.key, other)]
            paired = spec.map_scopes.get(task.task_id) is not None and len(mine) == 1
            expected: dict[str, Any] = {}
            if paired or (mine and mine[0].map_index == UNMAPPED):
                expected = mine[0].xcom
            else:
                for one in mine:
                    for name, value in one.xcom.items():
                        expected.setdefault(name, []).append(value)
            found = attempt.get("xcom", {}).get(other, {})
            if json.loads(json.dumps(expected, default=str)) != found and all(i.state.finished for i in mine):
                yield f"{instance.key} is given {found} of {other}, which has left {expected}"


@prop(LEVEL)
def a_mapped_try_is_given_its_value(look: Look) -> Found:
    """An instance of a mapped task is given the value of its index."""
    spec = look.state.spec
    for _, attempt, instance in _given(look):
        task = spec.by_id[instance.task_id]
        if task.expand is None or task.kind != "python" or [*task.expand.by] != ["value"]:
            continue
        values = task.expand.by["value"]
        if isinstance(values, dict) and XCOM_REFERENCE in values:
            source = look.state.instances.get(values[XCOM_REFERENCE])
            values = source.xcom.get(RETURN_VALUE) if source is not None else None
        given = attempt["task"].get("kwargs", {}).get("value")
        known = isinstance(values, list | tuple) and instance.map_index < len(values)
        if known and given != values[instance.map_index]:
            yield f"{instance.key} is given {given} of {values}"


@prop(LEVEL)
def work_has_the_limits_of_its_dag(look: Look) -> Found:
    """Work is given up when its worker is silent for heartbeat_timeout, and is begun as often as max_starts says."""
    spec = look.state.spec
    for activity, _, instance in _given(look):
        task = spec.by_id[instance.task_id]
        if activity.kind == "foreign" or task.calls_workflows:
            continue
        heartbeat = int(spec.heartbeat_timeout.total_seconds() * 1_000_000)
        if activity.heartbeat is not None and activity.heartbeat != heartbeat:
            yield f"{instance.key}: heartbeats within {activity.heartbeat}, and not {heartbeat}"
        if activity.maximum_attempts != (task.max_starts or MOST_STARTS):
            yield f"{instance.key}: {activity.maximum_attempts} starts"
