"""Steps of time: exact ones (`timedelta`) and ones that follow the calendar (`relativedelta`)."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from dateutil.relativedelta import FR, MO, SA, SU, TH, TU, WE, relativedelta
from pydantic import BeforeValidator

from ...base import Model
from .base import TimeRestriction, TimetableError

_WEEKDAYS = {"MO": MO, "TU": TU, "WE": WE, "TH": TH, "FR": FR, "SA": SA, "SU": SU}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CalendarDelta(Model):
    """A `dateutil.relativedelta`: plural fields step, singular ones set; weekday is ["MO", 1]."""

    years: int = 0
    months: int = 0
    weeks: int = 0
    days: int = 0
    hours: int = 0
    minutes: int = 0
    seconds: int = 0
    microseconds: int = 0
    leapdays: int = 0
    year: int | None = None
    month: int | None = None
    day: int | None = None
    hour: int | None = None
    minute: int | None = None
    second: int | None = None
    microsecond: int | None = None
    weekday: tuple[str, int | None] | None = None

    def relative(self) -> relativedelta:
        fields: dict[str, Any] = self.model_dump(exclude_defaults=True)
        if self.weekday is not None:
            name, n = self.weekday
            fields["weekday"] = _WEEKDAYS[name](n) if n is not None else _WEEKDAYS[name]
        return relativedelta(**fields)

    @classmethod
    def of(cls, delta: relativedelta) -> "CalendarDelta":
        names = [name for name in cls.model_fields if name not in ("weekday", "weeks")]
        fields = {name: getattr(delta, name) for name in names if getattr(delta, name)}
        if delta.weekday is not None:
            fields["weekday"] = (str(delta.weekday)[:2], delta.weekday.n)
        return cls(**fields)


def _read(value: Any) -> Any:
    return CalendarDelta.of(value) if isinstance(value, relativedelta) else value


Delta = Annotated[timedelta | CalendarDelta, BeforeValidator(_read)]
"""A step: seconds, ISO 8601, a timedelta, a relativedelta or a dict of its arguments."""


def plus(at: datetime, delta: timedelta | CalendarDelta) -> datetime:
    """*at* moved on by *delta*, in UTC: a day is always 24 hours."""
    return at + (delta if isinstance(delta, timedelta) else delta.relative())


def minus(at: datetime, delta: timedelta | CalendarDelta) -> datetime:
    return at - (delta if isinstance(delta, timedelta) else delta.relative())


def exact(delta: timedelta | CalendarDelta) -> timedelta | None:
    """*delta* as a fixed duration; None where its length depends on the calendar."""
    if isinstance(delta, timedelta):
        return delta
    relative = delta.relative()
    absolute = (relative.year, relative.month, relative.day, relative.hour, relative.minute, relative.second)
    if relative.years or relative.months or relative.leapdays or relative.weekday is not None:
        return None
    if any(part is not None for part in absolute) or relative.microsecond is not None:
        return None
    return timedelta(
        days=relative.days,
        hours=relative.hours,
        minutes=relative.minutes,
        seconds=relative.seconds,
        microseconds=relative.microseconds,
    )


def require_positive(delta: timedelta | CalendarDelta) -> None:
    """Raises TimetableError for a step that does not lead forward, or out of the calendar."""
    try:
        leads_forward = plus(_EPOCH, delta) > _EPOCH
    except (OverflowError, ValueError):
        raise TimetableError(f"schedule interval {delta} leads out of the calendar. Give a shorter one") from None
    if not leads_forward:
        raise TimetableError(f"schedule interval must be positive, not {delta}. Give a timedelta of more than zero")


def floor(at: datetime, step: timedelta) -> datetime:
    """The last multiple of *step* since 1970 that is not after *at*."""
    return _EPOCH + (at - _EPOCH) // step * step


def require_fixed_grid(restriction: TimeRestriction) -> None:
    """Raises TimetableError where the steps do not begin at a date that is known."""
    if not restriction.catchup:
        raise TimetableError(
            "without catchup, the runs of a timedelta begin at a moment that depends on when the DAG was first seen: "
            "whether a date is on schedule cannot be said. Set catchup, or write a cron expression"
        )
