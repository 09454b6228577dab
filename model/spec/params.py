"""Params of a DAG: a plain default, or {"value": ..., "schema": {...}} with a JSON schema for what conf gives."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pendulum
from jsonschema import Draft202012Validator, FormatChecker, SchemaError

PARAM_KEYS = {"value", "schema", "description"}
FORMATS = FormatChecker()
"""The formats that are checked (as in Airflow): those that jsonschema knows, and the two below."""


@FORMATS.checks("date-time", raises=ValueError)
def _is_instant(value: object) -> bool:
    """A date and time with an offset (RFC 3339)."""
    return not isinstance(value, str) or ("T" in value.upper() and datetime.fromisoformat(value).tzinfo is not None)


@FORMATS.checks("duration", raises=ValueError)
def _is_duration(value: object) -> bool:
    """A duration as ISO 8601 has it, such as P1DT2H."""
    return not isinstance(value, str) or isinstance(pendulum.parse(value), pendulum.Duration)


def has_schema(param: Any) -> bool:
    """Whether *param* is written as {"value": ..., "schema": {...}}, and not a plain dict that has such a key."""
    return isinstance(param, dict) and isinstance(param.get("schema"), dict) and set(param) <= PARAM_KEYS


def param_value(param: Any) -> Any:
    """A param's default: a plain one, or the `value` of one that has a `schema`."""
    return param.get("value") if has_schema(param) else param


def param_problem(param: dict[str, Any], value: Any, *, formats: bool = True) -> str | None:
    """Why *value* does not fit the param's schema, with its *formats*; None if it does."""
    checker = FORMATS if formats else None
    found = next(Draft202012Validator(param["schema"], format_checker=checker).iter_errors(value), None)
    return found.message if found is not None else None


def check_params(params: Mapping[str, Any], *, defaults: bool, formats: bool) -> None:
    """Raises ValueError for a schema that is none; where runs come by themselves, for *defaults* that do not fit."""
    for name, param in params.items():
        if not has_schema(param):
            continue
        try:
            Draft202012Validator.check_schema(param["schema"])
        except SchemaError as error:
            raise ValueError(f"params.{name}.schema is no JSON schema: {error.message}. Correct the schema") from None
        if defaults and (problem := param_problem(param, param.get("value"), formats=formats)):
            raise ValueError(
                f"params.{name}: its default does not fit its schema: {problem}. A DAG with a schedule needs "
                "defaults that fit"
            )
