"""What all of tidemill's data is made of: frozen models, records, and instants that are always UTC."""

from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    model_serializer,
)


def _made_strictly(model: BaseModel, /, **fields: Any) -> None:
    """Makes *model* of *fields*; whoever writes code or a document is told of a field that there is not."""
    model.__pydantic_validator__.validate_python(fields, self_instance=model, extra="forbid")


_made_strictly.__qualname__ = "Model.__init__"
# By this, pydantic knows that reading a model from the wire need not go through here.
_made_strictly.__pydantic_base_init__ = True  # type: ignore[attr-defined]


class Model(BaseModel):
    """A value: never changed once made.

    Made by name it refuses fields that it does not know. Read from the wire it carries them along: another release
    may have sent them, and gets them back. What people write is read with `extra="forbid"`.
    """

    # A schema is built on first use: a command of the command line uses few of them.
    # A field is made and read by its name; what travels, or is kept, has the alias that earlier releases know.
    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="allow",
        defer_build=True,
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
    )

    if not TYPE_CHECKING:
        __init__ = _made_strictly


class Record(BaseModel):
    """State that one workflow owns and changes in place; travels through continue-as-new, and between releases."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="allow",
        defer_build=True,
        validate_assignment=False,
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
    )

    if not TYPE_CHECKING:
        __init__ = _made_strictly


class Request(Model):
    """What people ask for: arriving as the argument of a message, it may have no field that is not known here.

    A field that this release does not know asks for what this release does not do.
    """


def build_models() -> None:
    """Builds every model that has been imported: where many are used, no first use is slow, and forks share them.

    In the order of their definition, parts before what is made of them: what is built is not built again inside.
    """
    waiting: deque[type[BaseModel]] = deque([Model, Record])
    while waiting:
        model = waiting.popleft()
        model.model_rebuild()
        waiting += model.__subclasses__()


DISCRIMINATORS = ("kind", "mapper", "asks")
"""Fields by which one of several models is known."""


class OmitDefaults(BaseModel):
    """Is written without the fields that have their default.

    For what a run has thousands of, and so that a field added later changes no hash of what does not use it.
    """

    @model_serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        defaults, names = _defaults(type(self)), _names(type(self))
        return {
            written: value
            for written, value in write(self).items()
            if (name := names.get(written, written)) not in defaults or getattr(self, name) != defaults[name]
        }


class OmitNewDefaults(BaseModel):
    """Is written without the fields that a release has added, where they have their default.

    Release 0.1 refuses a message that has a field which it does not know.
    """

    later_fields: ClassVar[tuple[str, ...]] = ()

    def without_later(self, names: Iterable[str]) -> Self:
        """The same, with *names* as a release has them that does not know them."""
        defaults = _defaults(type(self))
        return self.model_copy(update={name: defaults[name] for name in names})

    @model_serializer(mode="wrap")
    def _readable_to_earlier_releases(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        defaults, names = _defaults(type(self)), _names(type(self))
        return {
            written: value
            for written, value in write(self).items()
            if (name := names.get(written, written)) not in self.later_fields or getattr(self, name) != defaults[name]
        }


@cache
def _defaults(model: type[BaseModel]) -> dict[str, Any]:
    """Default by field; those that tell models apart are always written."""
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in model.model_fields.items()
        if not field.is_required() and name not in DISCRIMINATORS
    }


@cache
def _names(model: type[BaseModel]) -> dict[str, str]:
    """The names of the fields that are written by an alias, by the alias."""
    return {field.alias: name for name, field in model.model_fields.items() if field.alias is not None}


def to_utc(value: datetime) -> datetime:
    """*value* as the same instant in UTC. Raises ValueError for a naive datetime, and at the ends of the calendar."""
    if value.tzinfo is None or value.utcoffset() is None:
        raise ValueError(
            f"{value.isoformat()} has no time zone. Write an offset, such as {value.isoformat()}Z, "
            "or give the datetime a tzinfo"
        )
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{value.isoformat()} is outside of the calendar in UTC. Correct the date") from None


def _no_numbers(value: Any) -> Any:
    # pydantic would read a bare number as seconds since 1970, which nobody means in a DAG.
    if isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a date. Write it as ISO 8601, such as 2026-01-31T00:00:00Z")
    return value


Instant = Annotated[datetime, BeforeValidator(_no_numbers), AfterValidator(to_utc)]
"""An instant, held in UTC. Any aware datetime or ISO 8601 text with an offset is accepted."""


LONGEST_DURATION = timedelta(days=3650)
"""What dates can be moved by without leaving the calendar, and Temporal's timers can wait."""


AS_WRITTEN = {"as_written": True}
"""The context of a validation that refuses more than what is running already may have."""


def bounded(value: timedelta, info: ValidationInfo) -> timedelta:
    """*value*, or the longest that there is. Raises ValueError for a longer one that is written now."""
    if abs(value) <= LONGEST_DURATION:
        return value
    if info.context == AS_WRITTEN:
        raise ValueError(f"{value} is longer than {LONGEST_DURATION.days} days. Give less, or leave it out")
    return LONGEST_DURATION if value > timedelta() else -LONGEST_DURATION


def _not_negative(value: timedelta) -> timedelta:
    if value < timedelta():
        raise ValueError(f"{value} is less than nothing. Give zero or more, in seconds or as ISO 8601 (PT5M)")
    return value


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta():
        raise ValueError(f"{value} is not a positive duration. Give more than zero, in seconds or as ISO 8601 (PT5M)")
    return value


Shift = Annotated[timedelta, AfterValidator(bounded)]
"""A duration by which dates are moved, also back."""
Duration = Annotated[Shift, AfterValidator(_not_negative)]
PositiveDuration = Annotated[Shift, AfterValidator(_positive)]


def iso(instant: datetime) -> str:
    """*instant* as Airflow writes it in run ids and templates: ISO 8601 with its offset."""
    return instant.isoformat()
