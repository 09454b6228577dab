"""Params as they are written in a DAG file, and as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Param:
    """A default, and a JSON schema that a run's conf is held against (Airflow: Param).

    `Param(5, type="integer", minimum=1)`; *description* and every other argument are words of JSON schema.
    """

    def __init__(
        self, default: Any = None, description: str | None = None, *, source: str | None = None, **schema: Any
    ) -> None:
        self.value = default
        self.source = source
        described = {"description": description} if description is not None else {}
        self.schema: dict[str, Any] = {**described, **schema}

    def document(self) -> dict[str, Any]:
        """The param as a DAG's JSON has it."""
        return {"value": self.value, "schema": self.schema}


def plain_params(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """*params* as data."""
    given = (params or {}).items()
    return {name: value.document() if isinstance(value, Param) else value for name, value in given}
