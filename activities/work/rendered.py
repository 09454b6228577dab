"""What a task's templated fields came to, as it is shown to people (Airflow: rendered task instance fields)."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..secrets import is_sensitive

HIDDEN = "***"
LONGEST = 4096
"""In characters, of a field (Airflow: [core] max_templated_field_length)."""
MAX_FIELDS = 100
"""Fields of a task that are shown."""


def shown(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return *fields* as JSON values, without those that say nothing; one that is long is cut, and says so."""
    given = {name: value for name, value in fields.items() if value not in (None, "", {}, [], ())}
    return {str(name): _shown(hidden(value, str(name))) for name, value in [*given.items()][:MAX_FIELDS]}


def hidden(value: Any, name: str) -> Any:
    """Return *value* without what has the name of a secret, however deep (Airflow: redact)."""
    if isinstance(value, Mapping):
        return {key: hidden(part, str(key)) for key, part in value.items()}
    if is_sensitive(name) and value not in (None, ""):
        return HIDDEN
    return [hidden(part, name) for part in value] if isinstance(value, list | tuple) else value


def _shown(value: Any) -> Any:
    try:
        plain = to_jsonable_python(value, inf_nan_mode="constants")
        text = plain if isinstance(plain, str) else json.dumps(plain)
    except (PydanticSerializationError, TypeError, ValueError, RecursionError):
        plain = text = str(value)
    if len(text) <= LONGEST:
        return plain
    return f"Truncated. It has {len(text):,} characters, of which the first are: {text[:LONGEST]}..."
