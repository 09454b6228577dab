"""Params of a DAG: a plain default, or {"value": ..., "schema": {...}} with a JSON schema for what conf gives."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pendulum
from jsonschema import Draft202012Validator, FormatChecker, SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable

PARAM_KEYS = {"value", "schema", "description"}
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
COSTLY = frozenset((
    *REFERENCES, "pattern", "patternProperties", "$schema", "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
))  # fmt: skip
FORMATS = FormatChecker()
"""The formats that are checked (as in Airflow): those that jsonschema knows, and the two below."""


@FORMATS.checks("date-time", raises=(ValueError, OverflowError))
def _is_instant(value: object) -> bool:
    """A date and time with an offset (RFC 3339)."""
    return not isinstance(value, str) or ("T" in value.upper() and datetime.fromisoformat(value).tzinfo is not None)


@FORMATS.checks("duration", raises=(ValueError, OverflowError))
def _is_duration(value: object) -> bool:
    """A duration as ISO 8601 has it, such as P1DT2H."""
    return not isinstance(value, str) or isinstance(pendulum.parse(value), pendulum.Duration)


def has_schema(param: Any) -> bool:
    """Whether *param* is written as {"value": ..., "schema": {...}}, and not a plain dict that has such a key."""
    return isinstance(param, dict) and isinstance(param.get("schema"), dict) and set(param) <= PARAM_KEYS


def param_value(param: Any) -> Any:
    """A param's default: a plain one, or the `value` of one that has a `schema`."""
    return param.get("value") if has_schema(param) else param


def is_costly(schema: Any) -> bool:
    """Whether a value may take for ever to be held against *schema*: regular expressions, or references to itself.

    Such ones are looked at in processes of the DAG's own alone.
    """
    if isinstance(schema, dict):
        return not COSTLY.isdisjoint(schema) or any(map(is_costly, schema.values()))
    return isinstance(schema, list) and any(map(is_costly, schema))


def param_problem(param: dict[str, Any], value: Any, *, formats: bool = True) -> str | None:
    """Why *value* does not fit the param's schema, with its *formats*; None if it does. Nothing is ever fetched."""
    checker = FORMATS if formats else None
    validator = Draft202012Validator(param["schema"], format_checker=checker, registry=Registry())
    try:
        found = next(validator.iter_errors(value), None)
    except Unresolvable as error:
        return f"its schema refers to {error.ref!r}, which is not in it"
    except RecursionError:
        return "its schema refers to itself without an end"
    return found.message if found is not None else None


def foreign_reference(schema: Any) -> str | None:
    """The first reference in *schema* that leads out of it; None if none does."""
    if isinstance(schema, dict):
        given = (schema[key] for key in REFERENCES if isinstance(schema.get(key), str))
        named = next((reference for reference in given if not reference.startswith("#")), None)
        return named or foreign_reference(list(schema.values()))
    parts = schema if isinstance(schema, list) else []
    return next((found for part in parts if (found := foreign_reference(part)) is not None), None)


def check_schemas(params: Mapping[str, Any]) -> None:
    """Raises ValueError for a schema that leads out of itself. Whoever wrote it would have the worker read a file."""
    for name, param in params.items():
        if has_schema(param) and (reference := foreign_reference(param["schema"])) is not None:
            raise ValueError(
                f"params.{name}.schema: $ref {reference!r} leads out of it, and nothing is fetched. Write what it "
                "refers to below $defs, and refer to '#/$defs/...'"
            )


def check_params(params: Mapping[str, Any], *, defaults: bool, formats: bool, costly: bool = False) -> None:
    """Raises ValueError for a schema that is none; where runs come by themselves, for *defaults* that do not fit.

    *costly*: also where that may take for ever.
    """
    for name, param in params.items():
        if not has_schema(param):
            continue
        try:
            Draft202012Validator.check_schema(param["schema"])
        except SchemaError as error:
            raise ValueError(f"params.{name}.schema is no JSON schema: {error.message}. Correct the schema") from None
        except RecursionError:
            raise ValueError(f"params.{name}.schema is nested too deeply. Write it flatter") from None
        if not defaults or (is_costly(param["schema"]) and not costly):
            continue
        if problem := param_problem(param, param.get("value"), formats=formats):
            raise ValueError(
                f"params.{name}: its default does not fit its schema: {problem}. A DAG with a schedule needs "
                "defaults that fit"
            )


def conf_problem(params: Mapping[str, Any], conf: Mapping[str, Any], *, costly: bool) -> str | None:
    """Why *conf* does not fit the *params* that are *costly* to look at, or those that are not; None if it does."""
    for name, param in params.items():
        if has_schema(param) and is_costly(param["schema"]) is costly:
            value = conf.get(name, param.get("value"))
            if (problem := param_problem(param, value)) is not None:
                return f"conf.{name} = {value!r} does not fit its param: {problem}. Correct the value"
    return None
