"""What operations are given."""

from typing import Annotated

from fastapi import Depends, Query, Request

from .read.source import Source

MOST = 1000
"""The longest page (Airflow: maximum_page_limit)."""


def _source(request: Request) -> Source:
    source: Source = request.app.state.source
    return source


Here = Annotated[Source, Depends(_source)]
Limit = Annotated[int, Query(ge=0, le=MOST)]
Offset = Annotated[int, Query(ge=0)]
