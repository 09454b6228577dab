"""What a task sees of its run: Airflow's template variables, and `ti` for results of other tasks."""

from collections.abc import Sequence
from typing import Any

import lazy_object_proxy

from ..asset.events import AssetEvent
from ..asset.state import alias_workflow_id, asset_workflow_id
from ..errors import InvalidInputError
from ..spec.assets.identity import AssetAlias
from ..spec.references import RETURN_VALUE, XCOM_REFERENCE, is_xcom_reference
from ..states import RunState
from .asset_context import InletEventsAccessors, OutletEventAccessors, TriggeringAssetEvents
from .attempts import TaskAttempt
from .context_views import DagInContext, DagRunView, PreviousSuccess, TaskInstanceView, date_of
from .facts import Facts, NoFacts, Question, RunSummary
from .identity import RunType

OF_THE_PAST = {
    "prev_data_interval_start_success": "data_interval_start",
    "prev_data_interval_end_success": "data_interval_end",
    "prev_start_date_success": "started_at",
    "prev_end_date_success": "ended_at",
}
"""Names that are about the latest run before that succeeded; None where there is none."""
CONTEXT_NAMES = frozenset(
    {
        "conf", "dag_run", "data_interval_end", "data_interval_start", "ds", "ds_nodash", "logical_date", "macros",
        "params", "run_id", "task", "task_instance", "ti", "ts", "ts_nodash", "ts_nodash_with_tz", "dag",
        "task_instance_key_str", "inlets", "outlets", "map_index_template",
        "task_reschedule_count", "templates_dict", "inlet_events", "outlet_events", "triggering_asset_events",
        "partition_date", "partition_key", "var", "conn", *OF_THE_PAST,
    }
)  # fmt: skip
"""The names that a task function may take as arguments without being given them."""

Context = dict[str, Any]
"""What `execute(self, context: Context)` is given: by Airflow's names."""


def context(attempt: TaskAttempt, facts: Facts | None = None) -> dict[str, Any]:
    """The template variables of *attempt*, by Airflow's names; dates are pendulum's, in UTC.

    A run without a logical date has no `ds`, `ts` or data interval, as in Airflow. What *facts* can tell is asked
    when it is used.
    """
    run, facts = attempt.run, facts or NoFacts()
    dag_run = DagRunView(run.dag_id, RunSummary.of(run, state=RunState.RUNNING), facts)
    ti = TaskInstanceView(attempt, facts, dag_run)
    values: dict[str, Any] = {
        "conf": run.conf,
        "dag": DagInContext(run.dag_id, facts),
        "dag_run": dag_run,
        "inlet_events": InletEventsAccessors(lambda leaf: _events_of(leaf, facts)),
        "inlets": [*attempt.task.inlets],
        "map_index_template": None,
        "outlet_events": OutletEventAccessors(attempt.task.outlets),
        "outlets": [*attempt.task.outlets],
        "partition_date": date_of(run.partition_date),
        "partition_key": run.partition_key,
        "params": attempt.params,
        "run_id": run.run_id,
        "task": ti.task,
        "task_instance": ti,
        "task_instance_key_str": _key_str(attempt),
        "task_reschedule_count": attempt.poke - 1,
        "templates_dict": None,
        "ti": ti,
        "triggering_asset_events": TriggeringAssetEvents(lambda: _consumed(attempt, facts)),
        **_of_the_past(attempt, facts),
    }
    if (date := date_of(run.logical_date)) is not None:
        values |= {
            "logical_date": date,
            "ds": date.strftime("%Y-%m-%d"),
            "ds_nodash": date.strftime("%Y%m%d"),
            "ts": date.isoformat(),
            "ts_nodash": date.strftime("%Y%m%dT%H%M%S"),
            "ts_nodash_with_tz": date.isoformat().replace("-", "").replace(":", ""),
        }
    if run.data_interval is not None:
        values["data_interval_start"] = date_of(run.data_interval.start)
        values["data_interval_end"] = date_of(run.data_interval.end)
    return values


def _consumed(attempt: TaskAttempt, facts: Facts) -> Sequence[AssetEvent]:
    """The events that the run was made for: sent along where they are few, else asked for."""
    run = attempt.run
    if run.asset_events or run.run_type is not RunType.ASSET_TRIGGERED:
        return run.asset_events
    found = facts.facts(Question(about="consumed", dag_id=run.dag_id, run_id=run.run_id, key=run.workflow_id))
    return [AssetEvent.model_validate(event) for event in found or ()]


def _events_of(leaf: Any, facts: Facts) -> list[AssetEvent]:
    """The last events of an asset or alias, as its workflow knows them."""
    is_alias = isinstance(leaf, AssetAlias)
    workflow_id = alias_workflow_id(leaf.name) if is_alias else asset_workflow_id(leaf.name or leaf.uri)
    found = facts.facts(Question(about="events", dag_id="", key=workflow_id))
    return [AssetEvent.model_validate(event) for event in found or ()]


def _of_the_past(attempt: TaskAttempt, facts: Facts) -> dict[str, Any]:
    before = PreviousSuccess(attempt, facts)
    return {name: _lazy(before, field) for name, field in OF_THE_PAST.items()}


def _lazy(before: PreviousSuccess, field: str) -> Any:
    return lazy_object_proxy.Proxy(lambda: before.date(field))


def resolve(value: Any, xcom: dict[str, dict[str, Any]]) -> Any:
    """*value* with references to results replaced by the results."""
    if is_xcom_reference(value):
        task_id, key = value[XCOM_REFERENCE], value["key"]
        results = xcom.get(task_id, {})
        if key in results or key == RETURN_VALUE:
            return results.get(key)
        found = results.get(RETURN_VALUE)
        if isinstance(found, dict) and key in found:  # multiple outputs: one returned dict
            return found[key]
        raise InvalidInputError(
            f"task {task_id!r} left no result called {key!r}. It left: {', '.join(results) or 'none'}"
        )
    if isinstance(value, dict):
        return {name: resolve(part, xcom) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [resolve(part, xcom) for part in value]
    return value


def _key_str(attempt: TaskAttempt) -> str:
    """Airflow's task_instance_key_str."""
    date = attempt.run.logical_date
    day = attempt.run.run_id if date is None else date.strftime("%Y%m%d")
    return f"{attempt.run.dag_id}__{attempt.task.task_id}__{day}"
