"""What an application says of the assets that its task writes: `outlet_events` in its result."""

from typing import Any

from ...model.errors import InvalidInputError
from ...model.run.asset_context import OutletEventAccessors
from ...model.run.attempts import TaskAttempt
from ...model.run.task_instances import Failure, Outcome
from ...model.spec.assets.identity import Asset, AssetAlias
from ...model.spec.references import RETURN_VALUE
from ...model.spec.tasks import BaseTask, SparkPipelinesTask
from ..attempts.supervision import task_failure

OUTLET_EVENTS = "outlet_events"
DATASETS = "datasets"
"""The result of a pipeline that says what it has brought up to date."""
_KEYS = {"extra", "partition_keys", "assets"}


def with_outlet_events(attempt: TaskAttempt, outcome: Outcome) -> Outcome:
    """Return *outcome* with what the result says of outlets.

    Of an asset `{"outlet_events": {name: {"extra": {...}, "partition_keys": [...]}}}`, of an alias
    `{"outlet_events": {alias: {"assets": {name: {...extra...}}}}}`. What a pipeline has brought up to date comes in by
    each of its task's aliases. Fails the task for what the result cannot say.
    """
    if not attempt.task.outlets:
        return outcome
    try:
        events = OutletEventAccessors(attempt.task.outlets)
        aliases = {outlet.name for outlet in attempt.task.outlets if isinstance(outlet, AssetAlias)}
        for name, entry in _events_of(attempt.task, outcome).items():
            if entry.get("assets") and name not in aliases:
                raise InvalidInputError(
                    f"{OUTLET_EVENTS}: {name!r} is no alias, and stands for no assets. Leave them out"
                )
            events[name].extra = entry.get("extra") or {}
            if entry.get("partition_keys"):
                events[name].add_partitions(entry["partition_keys"])
            for asset, extra in (entry.get("assets") or {}).items():
                events[name].add(Asset.model_validate({"name": asset}), extra)
        recorded = tuple(events.recorded())
    except (InvalidInputError, TypeError, ValueError) as error:
        raise task_failure(
            Failure(error_type="InvalidInput", message=f"the result's {error}", retryable=False)
        ) from None
    return outcome.model_copy(update={"asset_events": recorded}) if recorded else outcome


def _events_of(task: BaseTask, outcome: Outcome) -> dict[str, dict[str, Any]]:
    result = outcome.xcom.get(RETURN_VALUE)
    if isinstance(task, SparkPipelinesTask):
        updated: dict[str, Any] = {str(name): {} for name in outcome.xcom.get(DATASETS) or ()}
        return {one.name: {"assets": updated} for one in task.outlets if isinstance(one, AssetAlias)}
    return _checked(result[OUTLET_EVENTS]) if isinstance(result, dict) and OUTLET_EVENTS in result else {}


def _checked(entries: Any) -> dict[str, dict[str, Any]]:
    form = '{"outlet_events": {"asset or alias": {"extra": {...}, "partition_keys": [...], "assets": {"name": {...}}}}}'
    if not isinstance(entries, dict) or not all(isinstance(one, dict) for one in entries.values()):
        raise InvalidInputError(f"{OUTLET_EVENTS} = {entries!r} is none. Write {form}")
    strange = {key for one in entries.values() for key in one} - _KEYS
    if strange:
        raise InvalidInputError(f"{OUTLET_EVENTS} has {', '.join(sorted(strange))}. Write {form}")
    if wrong := [one["assets"] for one in entries.values() if not isinstance(one.get("assets") or {}, dict)]:
        raise InvalidInputError(f"{OUTLET_EVENTS} has assets = {wrong[0]!r}. Write {form}")
    return entries
