"""The JSON schema of a DAG, for editors and for those who write DAGs as JSON: docs/dag.schema.json."""

from typing import Any

from .dag import DagSpec

SHORT_SCHEDULES = [
    {"type": "string", "description": "a cron string, or a preset such as @daily"},
    {"type": "number", "description": "seconds"},
    {"type": "array", "items": {"type": "string"}, "description": "several cron strings"},
    {"type": "null"},
]


def dag_schema() -> dict[str, Any]:
    """The schema of what `read_dag` accepts: pydantic's, with the short forms of schedules and durations."""
    schema: dict[str, Any] = _closed(_with_seconds(DagSpec.model_json_schema()))
    written_out = schema["properties"]["schedule"]
    schema["properties"]["schedule"] = {"anyOf": [written_out, *SHORT_SCHEDULES]}
    return schema


def _closed(part: Any) -> Any:
    """Objects with named properties have no others: what is misspelt is refused."""
    if isinstance(part, dict):
        closed = {key: _closed(value) for key, value in part.items()}
        return {**closed, "additionalProperties": False} if "properties" in part and "type" in part else closed
    return [_closed(value) for value in part] if isinstance(part, list) else part


def _with_seconds(part: Any) -> Any:
    """Wherever a duration stands, a number of seconds may stand, too."""
    if isinstance(part, dict):
        if part.get("format") == "duration":
            kept = {key: value for key, value in part.items() if key not in ("type", "format")}
            return {**kept, "anyOf": [{"type": "string", "format": "duration"}, {"type": "number"}]}
        return {key: _with_seconds(value) for key, value in part.items()}
    return [_with_seconds(value) for value in part] if isinstance(part, list) else part
