"""Which periods, or segments, a larger one is made of, and how many of them have to be there."""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal

from dateutil.relativedelta import relativedelta
from pydantic import Field, field_validator

from ...base import Model


class _OfTime(Model):
    """A window of periods; backward, the same number of them that ends with the period it is of."""

    decoded: ClassVar[type] = datetime
    direction: Literal["forward", "backward"] = "forward"
    """Whether the window begins with the period it is of, or ends with it."""

    def _periods(self, count: int, step: Callable[[int], timedelta | relativedelta], at: datetime) -> list[datetime]:
        first = -(count - 1) if self.direction == "backward" else 0
        return [at + step(first + number) for number in range(count)]


class HourWindow(_OfTime):
    """The 60 minutes of an hour."""

    window: Literal["HourWindow"] = "HourWindow"

    def members(self, at: datetime) -> list[datetime]:
        return self._periods(60, lambda n: timedelta(minutes=n), at)


class DayWindow(_OfTime):
    """The 24 hours of a day, by the clock: a day of 23 or 25 hours has 24, too (as in Airflow)."""

    window: Literal["DayWindow"] = "DayWindow"

    def members(self, at: datetime) -> list[datetime]:
        return self._periods(24, lambda n: timedelta(hours=n), at)


class WeekWindow(_OfTime):
    """The 7 days of a week."""

    window: Literal["WeekWindow"] = "WeekWindow"

    def members(self, at: datetime) -> list[datetime]:
        return self._periods(7, lambda n: timedelta(days=n), at)


class MonthWindow(_OfTime):
    """The days of a month."""

    window: Literal["MonthWindow"] = "MonthWindow"

    def members(self, at: datetime) -> list[datetime]:
        other = _first_of_month(at) + relativedelta(months=-1 if self.direction == "backward" else 1)
        return self._periods(abs((other - at).days), lambda n: timedelta(days=n), at)


class QuarterWindow(_OfTime):
    """The 3 months of a quarter."""

    window: Literal["QuarterWindow"] = "QuarterWindow"

    def members(self, at: datetime) -> list[datetime]:
        return self._periods(3, lambda n: relativedelta(months=n), _first_of_month(at))


class YearWindow(_OfTime):
    """The 12 months of a year."""

    window: Literal["YearWindow"] = "YearWindow"

    def members(self, at: datetime) -> list[datetime]:
        return self._periods(12, lambda n: relativedelta(months=n), _first_of_month(at))


class SegmentWindow(Model):
    """A set of names, such as regions, that make up a whole."""

    decoded: ClassVar[type] = str
    window: Literal["SegmentWindow"] = "SegmentWindow"
    segments: tuple[str, ...]
    """The names that make up a whole."""

    @field_validator("segments")
    @classmethod
    def _named(cls, segments: tuple[str, ...]) -> tuple[str, ...]:
        if not segments or not all(segments):
            raise ValueError("SegmentWindow needs segments, and none of them may be empty. Name them")
        return tuple(sorted({*segments}))

    def members(self, _: Any) -> list[str]:
        return [*self.segments]


def _first_of_month(at: datetime) -> datetime:
    if at.day != 1:
        raise ValueError(f"{at.date()} is not the first day of a month. Use a mapper to months, quarters or years")
    return at


Window = Annotated[
    HourWindow | DayWindow | WeekWindow | MonthWindow | QuarterWindow | YearWindow | SegmentWindow,
    Field(discriminator="window"),
]


class WaitForAll(Model):
    """Every one has to be there."""

    policy: Literal["all"] = "all"

    def is_met(self, there: Collection[str], wanted: Collection[str]) -> bool:
        return {*wanted} <= {*there}

    def is_unreachable(self, _: Collection[str]) -> bool:
        return False


class MinimumCount(Model):
    """At least *n* of them; for a negative *n*, all but so many."""

    policy: Literal["minimum"] = "minimum"
    n: int
    """How many; negative: all but so many."""

    @field_validator("n")
    @classmethod
    def _not_none(cls, n: int) -> int:
        if n == 0:
            raise ValueError("MinimumCount(0) would wait for nothing. Give another number, or WaitForAll()")
        return n

    def is_met(self, there: Collection[str], wanted: Collection[str]) -> bool:
        least = self.n if self.n > 0 else max(0, len(wanted) + self.n)
        return len({*there} & {*wanted}) >= least

    def is_unreachable(self, wanted: Collection[str]) -> bool:
        """Whether there are not so many that could come."""
        return self.n > len(wanted)


WaitPolicy = Annotated[WaitForAll | MinimumCount, Field(discriminator="policy")]
