"""What JSON has no words for, and would be lost on its way: numbers that are none, and infinite ones."""

from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator


def no_json_number(value: Any, path: str = "") -> str | None:
    """Return where in *value* a number is that JSON has not, and which, as `.a.b = nan`; None where there is none."""
    if isinstance(value, float):
        return None if isfinite(value) else f"{path} = {value}"
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    return next((found for name, part in parts if (found := no_json_number(part, f"{path}.{name}")) is not None), None)


def _of_json(value: dict[str, Any]) -> dict[str, Any]:
    if (found := no_json_number(value)) is not None:
        raise ValueError(f"{found.removeprefix('.')} is no number that JSON has. Give null, or a text")
    return value


Conf = Annotated[dict[str, Any], AfterValidator(_of_json)]
"""The conf of a run, as people give it."""
