"""What operations are given."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Depends, FastAPI, Query, Request
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from ..activities.attempts.key_values import KeyValues
from ..model.errors import InvalidInputError
from ..model.states import TaskState
from .read.cached_client import CachedClient

REFUSING = (403, 501)
"""The statuses of operations that answer nothing else."""
MAX_LIMIT = 100
"""The longest page (Airflow: maximum_page_limit, by default): who asks for more gets so many, as there."""


async def _source(request: Request) -> CachedClient:
    client: CachedClient = request.app.state.source
    return client


def only_looks(request: Request) -> None:
    """Notes that a request which may change something changes nothing: it asks what a change would do."""
    request.state.only_looks = True


async def only_known_parameters(request: Request) -> None:
    """Refuses a parameter that the operation does not know: a filter that is ignored shows wrong facts.

    Raises InvalidInputError.
    """
    if getattr(request.scope["route"], "status_code", None) in REFUSING:  # that is said, whatever is asked
        return
    known = request.app.state.parameters.get((request.method.lower(), request.scope["route"].path_format), set())
    for name in request.query_params:
        if name not in known:
            offered = f"It has {', '.join(sorted(known))}" if known else "It has none"
            raise InvalidInputError(f"{name} is no parameter that this operation has here. {offered}")


def parameters_of(app: FastAPI) -> dict[tuple[str, str], set[str]]:
    """By method and path, the names of the query's parameters."""
    return {
        (method, path): {one["name"] for one in operation.get("parameters", []) if one["in"] == "query"}
        for path, item in app.openapi()["paths"].items()
        for method, operation in item.items()
    }


Source = Annotated[CachedClient, Depends(_source)]


async def _values(request: Request) -> KeyValues:
    client: CachedClient = request.app.state.source
    return client.values


Values = Annotated[KeyValues, Depends(_values)]
"""What tasks keep by themselves."""
Limit = Annotated[int, Query(ge=0), AfterValidator(lambda limit: min(limit, MAX_LIMIT))]


def _in_utc(at: datetime) -> datetime:
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


AWARE: TypeAdapter[datetime | None] = TypeAdapter(AwareDatetime | None)
UtcDateTime = Annotated[datetime, AfterValidator(_in_utc)]
"""A moment; one without an offset is UTC (as in Airflow)."""


class DateFilters(BaseModel):
    """By which dates and durations runs and instances can be narrowed (Airflow's parameters)."""

    model_config = ConfigDict(extra="forbid")

    run_after_gte: UtcDateTime | None = None
    run_after_gt: UtcDateTime | None = None
    run_after_lte: UtcDateTime | None = None
    run_after_lt: UtcDateTime | None = None
    logical_date_gte: UtcDateTime | None = None
    logical_date_gt: UtcDateTime | None = None
    logical_date_lte: UtcDateTime | None = None
    logical_date_lt: UtcDateTime | None = None
    start_date_gte: UtcDateTime | None = None
    start_date_gt: UtcDateTime | None = None
    start_date_lte: UtcDateTime | None = None
    start_date_lt: UtcDateTime | None = None
    end_date_gte: UtcDateTime | None = None
    end_date_gt: UtcDateTime | None = None
    end_date_lte: UtcDateTime | None = None
    end_date_lt: UtcDateTime | None = None
    duration_gte: float | None = None
    duration_gt: float | None = None
    duration_lte: float | None = None
    duration_lt: float | None = None


class ChangeFilters(DateFilters):
    """The same, and by when they were changed last: when they ended, else began, else were queued."""

    updated_at_gte: UtcDateTime | None = None
    updated_at_gt: UtcDateTime | None = None
    updated_at_lte: UtcDateTime | None = None
    updated_at_lt: UtcDateTime | None = None


class Batch(DateFilters):
    """A list that is asked for by POST (Airflow: the batch bodies)."""

    page_offset: int = Field(default=0, ge=0)
    page_limit: Annotated[int, AfterValidator(lambda limit: min(limit, MAX_LIMIT))] = Field(default=100, ge=0)
    order_by: str | None = None
    dag_ids: list[str] | None = None

    @field_validator(*(name for name in DateFilters.model_fields if not name.startswith("duration")), mode="before")
    @classmethod
    def _with_offset(cls, moment: object) -> object:
        """A body says of which zone its dates are, as in Airflow."""
        return AWARE.validate_python(moment)


UpdateMask = Annotated[list[str] | None, Query()]
"""Which fields of a body are meant; all that are given, where it says none (Airflow: update_mask)."""
KNOWN_STATES = frozenset(TaskState)
"""Airflow's, and those that are only here; `none` for Airflow's null."""


def _known_state(name: str) -> str:
    if name == "no_status":  # as Airflow's user interface calls it
        return TaskState.NONE
    if name not in KNOWN_STATES:
        raise ValueError(f"{name!r} is no state of a task. Give one of {', '.join(sorted(KNOWN_STATES))}")
    return name


TaskStateName = Annotated[str, AfterValidator(_known_state)]
"""A state of a task instance, as lists are narrowed by it: a wrong one is no empty list."""
Offset = Annotated[int, Query(ge=0)]
