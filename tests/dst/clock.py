"""Virtual time: a queue of what is to happen, as plain data, so that it can be copied with whatever it belongs to."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
"""Time is counted in microseconds since 1970."""


def instant(microseconds: int) -> datetime:
    """The UTC datetime of a point of virtual time."""
    return EPOCH + timedelta(microseconds=microseconds)


def microseconds(moment: datetime) -> int:
    """The point of virtual time of an aware datetime."""
    return (moment - EPOCH) // timedelta(microseconds=1)


@dataclass
class Agenda:
    """What is to happen, by time and then in the order in which it was added."""

    entries: list[tuple[int, int, str, tuple[Any, ...]]] = field(default_factory=list)
    added: int = 0

    def add(self, at: int, name: str, *arguments: Any) -> None:
        """Has the method `on_<name>` of the owner called with *arguments* at *at*."""
        self.added += 1
        heappush(self.entries, (at, self.added, name, arguments))

    @property
    def next_at(self) -> int | None:
        return self.entries[0][0] if self.entries else None

    def pop(self) -> tuple[str, tuple[Any, ...]]:
        _, _, name, arguments = heappop(self.entries)
        return name, arguments
