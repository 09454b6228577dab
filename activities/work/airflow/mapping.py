"""What Airflow's mapped tasks and groups are mapped over, as far as their number goes.

The values themselves are found by Airflow's own code, by the map_index, where a task runs.
"""

from __future__ import annotations

from typing import Any

from ....model.spec.references import CONCAT, FILL, LENGTH, RETURN_VALUE, XCOM_REFERENCE, ZIP


def expansion_of(expand_input: Any) -> dict[str, Any]:
    """An expand input of Airflow's as tidemill's `Expansion`, of numbers in the place of values."""
    if expand_input.EXPAND_INPUT_TYPE == "list-of-dicts":
        return {"by": {"expand_kwargs": _numbers(expand_input.value)}, "into": "index"}
    return {"by": {name: _numbers(value) for name, value in expand_input.value.items()}, "into": "index"}


def _numbers(value: Any) -> Any:
    from airflow.sdk.definitions import xcom_arg

    match value:
        case xcom_arg.PlainXComArg():
            return {XCOM_REFERENCE: value.operator.task_id, "key": value.key or RETURN_VALUE, LENGTH: True}
        case xcom_arg.MapXComArg():
            return _numbers(value.arg)
        case xcom_arg.ZipXComArg():
            parts = {ZIP: [_numbers(part) for part in value.args]}
            has_fill = value.fillvalue is not xcom_arg.NOTSET
            return {**parts, FILL: None} if has_fill else parts
        case xcom_arg.ConcatXComArg():
            return {CONCAT: [_numbers(part) for part in value.args]}
        case _:
            return [*range(len(value))]
