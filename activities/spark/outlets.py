"""What an application says of the assets that its task writes: `outlet_events` in its result."""

from typing import Any

from ...model.errors import InvalidInputError
from ...model.run.asset_context import OutletEventAccessors
from ...model.run.attempts import TaskAttempt
from ...model.run.task_instances import Failure, Outcome
from ...model.spec.references import RETURN_VALUE
from ..attempts.supervision import task_failure

OUTLET_EVENTS = "outlet_events"


def with_outlet_events(attempt: TaskAttempt, outcome: Outcome) -> Outcome:
    """*outcome* with what the result says of outlets: `{"outlet_events": {name: {"extra": {...}}}}`.

    Fails the task for what it cannot say.
    """
    result = outcome.xcom.get(RETURN_VALUE)
    if not attempt.task.outlets or not isinstance(result, dict) or OUTLET_EVENTS not in result:
        return outcome
    try:
        events = OutletEventAccessors(attempt.task.outlets)
        for name, told in _checked(result[OUTLET_EVENTS]).items():
            events[name].extra = told.get("extra") or {}
            if told.get("partition_keys"):
                events[name].add_partitions(told["partition_keys"])
        said = tuple(events.recorded())
    except (InvalidInputError, TypeError, ValueError) as error:
        raise task_failure(
            Failure(error_type="InvalidInput", message=f"the result's {error}", retryable=False)
        ) from None
    return outcome.model_copy(update={"asset_events": said})


def _checked(told: Any) -> dict[str, dict[str, Any]]:
    form = '{"outlet_events": {"name of the asset": {"extra": {...}, "partition_keys": [...]}}}'
    if not isinstance(told, dict) or not all(isinstance(one, dict) for one in told.values()):
        raise InvalidInputError(f"{OUTLET_EVENTS} = {told!r} is none. Write {form}")
    strange = {key for one in told.values() for key in one} - {"extra", "partition_keys"}
    if strange:
        raise InvalidInputError(f"{OUTLET_EVENTS} has {', '.join(sorted(strange))}. Write {form}")
    return told
