"""A DAG of Airflow's as data: what decides when its tasks run, and nothing of what its operators were given."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from inspect import cleandoc
from pathlib import Path
from types import ModuleType
from typing import Any

from ....model.base import LONGEST_DURATION
from ....model.spec.dag import MAX_ACTIVE_TASKS, DagSource, DagSpec, read_dag
from ....model.spec.notifiers import Event
from ....model.spec.tasks.base import DEFAULT_POOL
from ....model.spec.zones import offset_name
from ..dag_code import module_name
from .assets import TYPE, VAR, leaf_of
from .deadlines import deadlines_of
from .mapping import expansion_of
from .schedules import timetable_of
from .spark import RunByAirflowError, spark_fields

CALLED_BY_THE_TASK = ("on_execute_callback", "on_success_callback", "on_skipped_callback")
"""An empty task that has one of these runs; others are done at once, as in Airflow."""
CALLED_AT_A_FAILURE = ("on_failure_callback", "on_retry_callback")
OF_TASKS = (
    "retries",
    "retry_delay",
    "retry_exponential_backoff",
    "max_retry_delay",
    "execution_timeout",
    "pool_slots",
    "priority_weight",
    "depends_on_past",
    "wait_for_downstream",
    "ignore_first_depends_on_past",
    "max_active_tis_per_dag",
    "max_active_tis_per_dagrun",
    "is_setup",
    "is_teardown",
    "on_failure_fail_dagrun",
    "do_xcom_push",
    "start_date",
    "end_date",
    "owner",
    "doc_md",
)
"""What Airflow's operators and tidemill's tasks have in common, by one name."""


class _InOrder(list[Any]):
    """A list in the place of Airflow's set, whose order says nothing of what was made first."""

    def add(self, one: Any) -> None:
        self.append(one)


class FoundDags:
    """The DAGs of one file that is being imported, as Airflow collects them."""

    def __init__(self, module_name: str) -> None:
        from airflow.sdk.definitions._internal.contextmanager import DagContext

        self._context = DagContext
        self._context.autoregistered_dags = _InOrder()
        self._context.current_autoregister_module_name = module_name
        self._name = module_name
        self.notices: list[str] = []
        """What is said of the DAGs that `all` has returned."""

    def all(self) -> list[Any]:
        """Those that the module names, and those of its `with` blocks; of two with one id that which was made last."""
        from airflow.sdk import DAG

        self._context.current_autoregister_module_name = None
        module: ModuleType | None = sys.modules.get(self._name)
        named = [value for value in vars(module).values() if isinstance(value, DAG)] if module is not None else []
        registered = [dag for dag, _ in self._context.autoregistered_dags]
        found: dict[int, Any] = {id(dag): dag for dag in registered}
        by_id: dict[str, Any] = {}
        for dag in (*(dag for dag in named if id(dag) not in found), *found.values()):
            if by_id.get(dag.dag_id, dag) is not dag:
                self.notices.append(f"DAG {dag.dag_id!r} is made twice in this file: the last one counts")
            by_id[dag.dag_id] = dag
        kept = [dag for dag in by_id.values() if _keeps_to_policies(dag)]
        return sorted(kept, key=lambda dag: str(dag.dag_id))


def _keeps_to_policies(dag: Any) -> bool:
    """Has the cluster's policies look at *dag*, and change what they will; False for one that they leave out.

    What they refuse is raised.
    """
    from airflow import settings
    from airflow.exceptions import AirflowClusterPolicySkipDag

    try:
        settings.dag_policy(dag)
        for task in dag.tasks:
            settings.task_policy(task)
    except AirflowClusterPolicySkipDag:
        return False
    return True


def spec_of(dag: Any, source: DagSource, *, paused_at_creation: bool = False) -> tuple[DagSpec, list[str]]:
    """*dag* as data, and what is written in it that changes nothing. Raises InvalidInputError."""
    dag.validate()
    dag.check_cycle()
    notices: list[str] = []
    for task in dag.tasks:
        notices += _notices_of(dag, task)
    fields = {**_fields_of(dag, notices), "source": source.model_dump(mode="json")}
    paused = dag.is_paused_upon_creation
    fields["is_paused_upon_creation"] = paused_at_creation if paused is None else bool(paused)
    return read_dag({name: value for name, value in fields.items() if value is not None}), notices


def _fields_of(dag: Any, notices: list[str]) -> dict[str, Any]:
    if (max_active := dag.max_active_tasks) > MAX_ACTIVE_TASKS:
        notices.append(f"DAG {dag.dag_id!r}: max_active_tasks = {max_active} counts as {MAX_ACTIVE_TASKS}")
    if dag.access_control:
        notices.append(f"DAG {dag.dag_id!r}: access_control changes nothing here: tokens may be bound to tags")
    if dag.dagrun_timeout is not None and any(task.is_teardown for task in dag.tasks):
        notices.append(f"DAG {dag.dag_id!r}: its teardowns also run at its dagrun_timeout, where Airflow skips them")
    alerts = [*_alerts(dag, notices)]
    timetable = dag.timetable
    return {
        "written_for": "airflow",
        "dag_id": dag.dag_id,
        "description": dag.description,
        "dag_display_name": None if dag.dag_display_name == dag.dag_id else dag.dag_display_name,
        "doc_md": cleandoc(dag.doc_md) if dag.doc_md is not None else None,
        "tags": sorted(dag.tags or ()),
        "schedule": timetable_of(_written(timetable), periodic=getattr(timetable, "periodic", True)),
        "timezone": _zone(dag.timezone),
        "start_date": _instant(dag.start_date),
        "end_date": _instant(dag.end_date),
        "catchup": dag.catchup,
        "max_active_runs": dag.max_active_runs,
        "max_active_tasks": min(max_active, MAX_ACTIVE_TASKS),
        "max_consecutive_failed_dag_runs": dag.max_consecutive_failed_dag_runs,
        "dagrun_timeout": _seconds(dag.dagrun_timeout) or None,  # Airflow: none of no length
        "fail_fast": dag.fail_fast,
        "allowed_run_types": _run_types(dag.allowed_run_types),
        "rerun_with_latest_version": getattr(dag, "rerun_with_latest_version", None),
        "disable_bundle_versioning": bool(getattr(dag, "disable_bundle_versioning", None) or False),
        "params": _params(dag.params),
        "deadline_alerts": alerts,
        "callbacks": _callbacks(dag, alerts),
        "edge_labels": _labels(dag),
        "tasks": [_task(task, notices) for task in dag.topological_sort()],
        "groups": [*_groups(dag)],
    }


def _written(timetable: Any) -> dict[str, Any]:
    """*timetable* by Airflow's own encoder; a class of one's own need not be registered with a plugin here."""
    from airflow.sdk.bases.timetable import BaseTimetable
    from airflow.serialization.encoders import encode_timetable

    kind = type(timetable)
    if isinstance(timetable, BaseTimetable) or kind.__module__.startswith("airflow.timetables."):
        written: dict[str, Any] = encode_timetable(timetable)
        return written
    # A class of the DAG file itself is found beside it, by the file's own name.
    module = kind.__module__.removeprefix(module_name(Path()))
    return {TYPE: f"{module}:{kind.__qualname__}", VAR: timetable.serialize()}


def _task(task: Any, notices: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "task_id": task.task_id,
        "upstream": sorted(task.upstream_task_ids),
        "trigger_rule": str(getattr(task.trigger_rule, "value", task.trigger_rule)),
        "group": group_of(task.task_group),
        "task_display_name": None if task.task_display_name == task.task_id else task.task_display_name,
        "pool": None if task.pool == DEFAULT_POOL else task.pool,
        "queue": None if task.queue == _default_queue() else task.queue,
        **_weight(task),
        **{name: _plain(getattr(task, name, None)) for name in OF_TASKS if name != "priority_weight"},
    }
    if fields["is_teardown"]:
        del fields["trigger_rule"]
    if is_mapped_operator(task):
        fields["expand"] = expansion_of(task._get_specified_expand_input())
    else:
        fields["params"] = _own_params(task) or None
    for name in ("inlets", "outlets"):
        fields[name] = [*_leaves(getattr(task, name, ()))]
    fields = {name: value for name, value in fields.items() if value is not None}
    if _does_nothing(task):
        return {"kind": "empty", **fields}
    if not is_mapped(task) and (spark := _own_spark_task(task, notices)) is not None:
        return {**fields, **spark}
    return {
        "kind": "airflow",
        "operator": _class_path(task),
        "custom_operator_name": getattr(_class_of(task), "custom_operator_name", None),
        "is_sensor": _is_sensor(task),
        "calls_back": any(getattr(task, name, None) for name in CALLED_AT_A_FAILURE),
        "xcom_from": sorted(_named_results(task)),
        **fields,
    }


def _own_spark_task(task: Any, notices: list[str]) -> dict[str, Any] | None:
    """The fields of a Spark task that tidemill carries out itself; None for any other."""
    try:
        return spark_fields(task, _class_path(task))
    except RunByAirflowError as error:
        notices.append(f"DAG {task.dag_id!r}, task {task.task_id!r}: Airflow's provider submits it, since {error}")
        return None


def _does_nothing(task: Any) -> bool:
    """Whether the task is done without being run: then Airflow does not run it, either."""
    from airflow.providers.standard.operators.empty import EmptyOperator

    if not isinstance(task, EmptyOperator):
        return False
    return not any(getattr(task, name, None) for name in (*CALLED_BY_THE_TASK, "inlets", "outlets"))


def _class_of(task: Any) -> Any:
    return task.operator_class if is_mapped_operator(task) else type(task)


def _class_path(task: Any) -> str:
    kind = _class_of(task)
    return f"{kind.__module__}.{kind.__name__}"


def _is_sensor(task: Any) -> bool:
    return bool(getattr(task, "_is_sensor", False))


def _named_results(task: Any) -> Iterator[str]:
    """The unmapped tasks whose results the arguments of *task* name."""
    from airflow.sdk.definitions.xcom_arg import XComArg

    seen: set[str] = set()
    if is_mapped_operator(task):
        values = [task.partial_kwargs, task._get_specified_expand_input().value]
    else:
        values = [getattr(task, name, None) for name in task.template_fields]
    for value in values:
        for operator, _ in XComArg.iter_xcom_references(value):
            if operator.task_id not in seen and not is_mapped(operator):
                seen.add(operator.task_id)
                yield operator.task_id


def is_mapped(task: Any) -> bool:
    """Whether *task* is mapped, by itself or with a group."""
    return is_mapped_operator(task) or task.get_closest_mapped_task_group() is not None


def is_mapped_operator(task: Any) -> bool:
    """Whether *task* is mapped by itself."""
    from airflow.sdk.definitions.mappedoperator import MappedOperator

    return isinstance(task, MappedOperator)


def group_of(group: Any) -> str | None:
    """The id by which tidemill knows a group: with those that it is in before it, as Airflow writes most."""
    if group is None or group.group_id is None:
        return None
    parent = group_of(group.parent_group)
    own = str(group.group_id)
    return own if parent is None or own.startswith(f"{parent}.") else f"{parent}.{own}"


def _groups(dag: Any) -> Iterator[dict[str, Any]]:
    for group in _below(dag.task_group):
        found: dict[str, Any] = {"group_id": group_of(group)}
        if group.tooltip:
            found["tooltip"] = group.tooltip
        if (mapped := getattr(group, "_expand_input", None)) is not None:
            found["expand"] = expansion_of(mapped)
        yield found


def _below(group: Any) -> Iterator[Any]:
    from airflow.sdk.definitions.taskgroup import TaskGroup

    for child in group.children.values():
        if isinstance(child, TaskGroup):
            yield child
            yield from _below(child)


def _leaves(assets: Iterable[Any]) -> Iterator[dict[str, Any]]:
    from airflow.sdk.definitions.asset import BaseAsset
    from airflow.serialization.encoders import encode_asset_like

    for asset in assets or ():
        if isinstance(asset, BaseAsset):
            yield leaf_of(encode_asset_like(asset))


def _weight(task: Any) -> dict[str, Any]:
    """A strategy of one's own is asked once; its answer is the weight."""
    rule = task.weight_rule
    name = getattr(rule, "value", rule)
    if isinstance(name, str) and name in ("downstream", "upstream", "absolute"):
        return {"weight_rule": name, "priority_weight": task.priority_weight}
    from airflow.task.priority_strategy import validate_and_load_priority_weight_strategy

    if isinstance(name, str) and not name.startswith("airflow.task."):  # registered with a plugin or not
        from airflow.sdk.module_loading import import_string

        strategy = import_string(name)()
    else:
        strategy = validate_and_load_priority_weight_strategy(rule) if isinstance(name, str) else rule
    known = type(strategy).__name__.removeprefix("_").removesuffix("PriorityWeightStrategy").lower()
    if known in ("downstream", "upstream", "absolute"):
        return {"weight_rule": known, "priority_weight": task.priority_weight}
    return {"weight_rule": "absolute", "priority_weight": int(strategy.get_weight(_Instance(task)))}


class _Instance:
    """What a strategy of weights is asked about, before there is any instance."""

    def __init__(self, task: Any) -> None:
        self.task, self.task_id, self.dag_id = task, task.task_id, task.dag_id
        self.try_number, self.map_index, self.priority_weight = 0, -1, task.priority_weight
        self.pool, self.queue = task.pool, task.queue


REFERENCES = {
    "DagRunLogicalDateDeadline": "logical_date",
    "DagRunQueuedAtDeadline": "queued_at",
    "FixedDatetimeDeadline": "fixed",
}


def _alerts(dag: Any, notices: list[str]) -> Iterator[dict[str, Any]]:
    """The DAG's deadlines. One that counts from past runs, a variable, or a class of one's own changes nothing."""
    for number, alert in enumerate(deadlines_of(dag)):
        reference = REFERENCES.get(type(alert.reference).__name__)
        if reference is None or not isinstance(alert.interval, timedelta):
            what = alert.reference if reference is None else alert.interval
            notices.append(f"DAG {dag.dag_id!r}: a deadline by {type(what).__name__} changes nothing here")
            continue
        at = _instant(alert.reference._datetime) if reference == "fixed" else None
        yield {"number": number, "reference": reference, "interval": _seconds(alert.interval), "at": at}


def _callbacks(dag: Any, alerts: list[dict[str, Any]]) -> dict[str, Any]:
    """That there are callbacks: they are called in a process that has imported the file."""
    events = (Event.ON_SUCCESS, Event.ON_FAILURE)
    found: dict[str, Any] = {event: [{"kind": "function"}] for event in events if getattr(dag, event.value, None)}
    if alerts:
        found[Event.DEADLINE_MISS] = [{"kind": "function", "number": alert["number"]} for alert in alerts]
    return found


def _labels(dag: Any) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for above, edges in dag.edge_info.items():
        for below, info in edges.items():
            if info.get("label"):
                found.setdefault(above, {})[below] = info["label"]
    return found


def _own_params(task: Any) -> dict[str, Any]:
    """The params that the task has over those of its DAG: Airflow gives it both."""
    of_dag = _params(task.dag.params)
    return {name: param for name, param in _params(task.params).items() if of_dag.get(name) != param}


def _params(params: Any) -> dict[str, Any]:
    from airflow.sdk.definitions._internal.types import NOTSET

    found: dict[str, Any] = {}
    for name in params:
        param = params.get_param(name)
        known: dict[str, Any] = {"schema": param.schema or {}}
        if param.value is not NOTSET:
            known["value"] = param.value
        if param.description is not None:
            known["description"] = param.description
        found[name] = known
    return found


def _notices_of(dag: Any, task: Any) -> Iterator[str]:
    for name in ("executor", "executor_config", "run_as_user", "resources"):
        try:
            value = getattr(task, name, None)
        except Exception:  # noqa: S112 - a mapped operator may not answer
            continue
        if value:
            yield f"DAG {dag.dag_id!r}, task {task.task_id!r}: {name} changes nothing here"


def _run_types(types: Any) -> list[str]:
    return [str(getattr(one, "value", one)) for one in types or ()]


def _default_queue() -> str:
    from airflow.sdk.configuration import conf

    return str(conf.get("operators", "default_queue", fallback="default"))


def _zone(zone: Any) -> str:
    if isinstance(zone, timezone) and (offset := zone.utcoffset(None)):
        return offset_name(offset)
    return str(getattr(zone, "name", zone))


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return _seconds(value)
    return _instant(value) if isinstance(value, datetime) else value


def _seconds(value: timedelta | None) -> float | None:
    return None if value is None else min(value, LONGEST_DURATION).total_seconds()


def _instant(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()
