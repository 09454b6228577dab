"""What operations are given."""

from functools import cache
from typing import Annotated

from fastapi import Depends, FastAPI, Query, Request

from ..model.errors import InvalidInputError
from .read.source import Source

MOST = 1000
"""The longest page (Airflow: maximum_page_limit)."""


def _source(request: Request) -> Source:
    source: Source = request.app.state.source
    return source


def only_known_parameters(request: Request) -> None:
    """Refuses a parameter that the operation does not know: a filter that is ignored shows wrong facts.

    Raises InvalidInputError.
    """
    known = _parameters(request.app).get((request.method.lower(), request.scope["route"].path), set())
    for name in request.query_params:
        if name not in known:
            offered = f"It has {', '.join(sorted(known))}" if known else "It has none"
            raise InvalidInputError(f"{name} is no parameter that this operation has here. {offered}")


@cache
def _parameters(app: FastAPI) -> dict[tuple[str, str], set[str]]:
    """By method and path, the names of the query's parameters."""
    return {
        (method, path): {one["name"] for one in operation.get("parameters", []) if one["in"] == "query"}
        for path, item in app.openapi()["paths"].items()
        for method, operation in item.items()
    }


Here = Annotated[Source, Depends(_source)]
Limit = Annotated[int, Query(ge=0, le=MOST)]
Mask = Annotated[list[str] | None, Query()]
"""Which fields of a body are meant; all that are given, where it says none (Airflow: update_mask)."""
Offset = Annotated[int, Query(ge=0)]
