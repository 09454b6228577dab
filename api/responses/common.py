"""What answers share."""

from datetime import timedelta
from typing import Annotated, Literal
from uuid import NAMESPACE_URL, UUID, uuid5

from pydantic import BaseModel, ConfigDict, Field

from ...model.asset.state import short_name


class Answer(BaseModel):
    """An answer, or a part of one."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Body(BaseModel):
    """What is sent: a field that is not known asks for what is not done."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TimeDelta(Answer):
    """A duration, in parts."""

    type: Annotated[Literal["TimeDelta"], Field(serialization_alias="__type")] = "TimeDelta"
    days: int
    seconds: int
    microseconds: int

    @classmethod
    def of(cls, value: timedelta | None) -> "TimeDelta | None":
        if value is None:
            return None
        return cls(days=value.days, seconds=value.seconds, microseconds=value.microseconds)


def uuid_of(*parts: object) -> UUID:
    """The same for the same thing, where Airflow has a number of its database."""
    return uuid5(NAMESPACE_URL, "tidemill:" + "/".join(map(str, parts)))


def number_of(*parts: object) -> int:
    """A positive number that JavaScript can hold, the same for the same thing."""
    return uuid_of(*parts).int % (2**53 - 1) + 1


def asset_number(name: str) -> int:
    """Return Airflow's number of an asset: of a long name the same as of its short form, which lists have."""
    return number_of("asset", short_name(name))


Note = Annotated[str | None, Field(max_length=1000)]
"""What a person writes down about a run or a task (Airflow's bound)."""
