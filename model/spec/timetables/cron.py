"""Which instants a cron expression names in a time zone.

Reads the dialect that Airflow reads, through croniter. What happens at a change of the clocks is
the policy of the DAG (see `DstPolicy`).
"""

import difflib
import re
from collections.abc import Iterator
from copy import copy
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Literal

from croniter import CroniterError, croniter

from ..zones import zone as zone

PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}
"""Airflow's own presets; croniter adds `@midnight` and `@annually`."""

DstPolicy = Literal["airflow", "every_instant", "first_instant"]
"""What an expression means where the clocks change.

`every_instant`: it ticks whenever the clock shows a matching time: twice in the hour that comes twice, not at all in an
hour that is skipped. `first_instant`: each matching wall-clock time happens once: the first time in the hour that comes
twice, and a time that is skipped moves forward by the length of the gap. `airflow`: an expression whose hour field is
`*` ticks at every instant; any other names wall-clock times as in `first_instant`, but of an hour that comes twice the
second counts.
"""

_MOMENT = timedelta(microseconds=1)
# The longest stretch that a clock was ever moved by (Samoa crossed the date line).
_LONGEST_SHIFT = timedelta(hours=25)


_LOOK = timedelta(days=10)
"""No clock is moved there and back within that time."""


class CronError(ValueError):
    """The expression or the time zone cannot be read."""


RANDOM = re.compile(r"(?:^|[\s,])r(?:\(|/|,|\s|$)", re.IGNORECASE)
"""croniter's random fields."""


@lru_cache(maxsize=2048)
def cron(expression: str, timezone: str, dst_policy: DstPolicy = "airflow") -> "Cron":
    """The parsed expression, shared by all who use it. Raises CronError."""
    return Cron(expression, timezone, dst_policy)


class Cron:
    """A cron expression read in a time zone; answers which tick comes next, and which came last."""

    def __init__(self, expression: str, timezone: str, dst_policy: DstPolicy = "airflow") -> None:
        self.expression = PRESETS.get(expression, expression)
        self.zone: tzinfo = zone(timezone)
        if RANDOM.search(self.expression):
            raise CronError(
                f"cannot read cron expression {expression!r}: R names another tick each time that it is read. "
                "Write the number that you want"
            )
        try:
            self._walker = croniter(self.expression, start_time=0)
        except (CroniterError, ValueError, KeyError, AttributeError) as error:
            if expression.startswith("@"):
                raise CronError(f"there is no preset {expression!r}. {_meant(expression)}") from error
            raise CronError(
                f"cannot read cron expression {expression!r}: {error}. "
                "Write five fields (minute hour day month weekday), such as 0 6 * * 1-5, or a preset such as @daily"
            ) from error
        self._found: datetime | None = None
        """The tick that was found last: who walks from tick to tick asks about it next."""
        self.dst_policy = dst_policy
        is_every_hour = self._walker.expanded[1] == ["*"]
        self.by_instant = is_every_hour if dst_policy == "airflow" else dst_policy == "every_instant"

    def next(self, instant: datetime) -> datetime | None:
        """The first tick after *instant*; None if there is none within croniter's horizon."""
        instant = instant.astimezone(UTC)
        if self.by_instant:
            found = self._next_by_clock(instant)
        else:
            ticks = self._wall_ticks_near(instant, forward=True)
            found = min((tick for tick in ticks if tick > instant), default=None)
        self._found = found
        return found

    def prev(self, instant: datetime) -> datetime | None:
        """The last tick before *instant*; None if there is none within croniter's horizon."""
        instant = instant.astimezone(UTC)
        if self.by_instant:
            return self._prev_by_clock(instant)
        return max((tick for tick in self._wall_ticks_near(instant, forward=False) if tick < instant), default=None)

    def at_or_after(self, instant: datetime) -> datetime | None:
        return self.next(instant - _MOMENT)

    def at_or_before(self, instant: datetime) -> datetime | None:
        found = self._found
        return found if instant == found else self.prev(instant + _MOMENT)

    # Wall-clock times

    def _wall_ticks_near(self, instant: datetime, *, forward: bool) -> list[datetime]:
        """The ticks around *instant* up to the first one beyond it.

        Next to a change of the clocks the order of wall times is not the order of instants, so
        the search starts and ends as far out as the clock was moved.
        """
        shift = self._shift_near(instant)
        wall = self._wall(instant)
        step = 1 if forward else -1
        ticks: list[datetime] = []
        last: datetime | None = None
        for candidate in self._walls(wall - step * shift - step * _MOMENT, forward=forward):
            if last is not None and (candidate - last) * step > timedelta():
                break
            tick = self._resolve(candidate)
            ticks.append(tick)
            if last is None and (tick - instant) * step > timedelta():
                # Near a later change of the clocks a wall time a little further on may come sooner.
                last = candidate + step * self._shift_near(tick)
        return ticks

    def _walls(self, start: datetime, *, forward: bool) -> Iterator[datetime]:
        walker = copy(self._walker)  # reading the expression takes longer than a step
        walker.set_current(start, force=True)
        while True:
            try:
                yield walker.get_next(datetime) if forward else walker.get_prev(datetime)
            except (CroniterError, OverflowError, ValueError):
                return

    def _wall(self, instant: datetime) -> datetime:
        return instant.astimezone(self.zone).replace(tzinfo=None, fold=0)

    def _resolve(self, wall: datetime) -> datetime:
        """The instant at which the clock shows *wall*; moved out of a gap, and of two that of the policy."""
        first = wall.replace(tzinfo=self.zone, fold=0)
        second = wall.replace(tzinfo=self.zone, fold=1)
        before, after = _offset(first), _offset(second)
        # In a gap fold=0 means the offset before it; reading the time by that moves it forward.
        return (wall - (before if self.dst_policy == "first_instant" else min(after, before))).replace(tzinfo=UTC)

    def _shift_near(self, instant: datetime) -> timedelta:
        """How far the clock is moved within a day or so of *instant*."""
        before = _offset((instant - _LONGEST_SHIFT).astimezone(self.zone))
        at = _offset(instant.astimezone(self.zone))
        after = _offset((instant + _LONGEST_SHIFT).astimezone(self.zone))
        return max(abs(after - at), abs(at - before), abs(after - before))

    # Every matching instant

    def _next_by_clock(self, instant: datetime) -> datetime | None:
        """Walks by one offset from UTC at a time: within it, wall times and instants are alike."""
        offset = _offset(instant.astimezone(self.zone))
        start = instant
        for _ in range(64):
            tick = self._step(start, offset, forward=True)
            if tick is None or (other := self._other_offset(start, tick, offset)) is None:
                return tick
            change = self._change_between(start, other, offset)
            offset = _offset(change.astimezone(self.zone))
            start = change - _MOMENT
        return None

    def _prev_by_clock(self, instant: datetime) -> datetime | None:
        start = instant
        offset = _offset((instant - _MOMENT).astimezone(self.zone))
        for _ in range(64):
            tick = self._step(start, offset, forward=False)
            if tick is None or (other := self._other_offset(start - _MOMENT, tick, offset)) is None:
                return tick
            start = self._change_between(other, start - _MOMENT, _offset(other.astimezone(self.zone)))
            offset = _offset((start - _MOMENT).astimezone(self.zone))
        return None

    def _other_offset(self, start: datetime, tick: datetime, offset: timedelta) -> datetime | None:
        """A moment on the way from *start* to *tick* at which the offset from UTC is not *offset*; None: there is none.

        Airflow looks at the end of the way alone, also where the clocks are changed twice on it.
        """
        if self.dst_policy == "every_instant":
            step = _LOOK if tick > start else -_LOOK
            for n in range(1, abs(tick - start) // _LOOK + 1):
                if _offset((start + n * step).astimezone(self.zone)) != offset:
                    return start + n * step
        return tick if _offset(tick.astimezone(self.zone)) != offset else None

    def _step(self, start: datetime, offset: timedelta, *, forward: bool) -> datetime | None:
        wall = (start + offset).replace(tzinfo=None)
        found = next(self._walls(wall, forward=forward), None)
        return None if found is None else (found - offset).replace(tzinfo=UTC)

    def _change_between(self, low: datetime, high: datetime, before: timedelta) -> datetime:
        """An instant between *low* and *high* up to which the offset is *before*, to the microsecond.

        With several changes between them the bisection may find any; walking on from there finds the others.
        """
        while high - low > _MOMENT:
            middle = low + (high - low) / 2
            if _offset(middle.astimezone(self.zone)) == before:
                low = middle
            else:
                high = middle
        return high


def _meant(preset: str) -> str:
    known = [*PRESETS, "@once", "@continuous"]
    close = difflib.get_close_matches(preset, known, 1)
    return f"Do you mean {close[0]}?" if close else f"There are {', '.join(known)}"


def _offset(local: datetime) -> timedelta:
    offset = local.utcoffset()
    assert offset is not None  # noqa: S101 - every zone here gives one
    return offset
