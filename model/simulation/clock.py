"""The time of a simulated world, and what happens when."""

from collections.abc import Callable
from datetime import datetime
from heapq import heappop, heappush


class Clock:
    """Goes from one event to the next; those of one moment happen in the order in which they were set."""

    def __init__(self, start: datetime) -> None:
        self.now = start
        self._events: list[tuple[datetime, int, Callable[[], None]]] = []
        self._made = 0

    def at(self, time: datetime, event: Callable[[], None]) -> None:
        """Has *event* happen at *time*, or now where that is past."""
        self._made += 1
        heappush(self._events, (max(time, self.now), self._made, event))

    def run_until(self, end: datetime) -> None:
        """Lets everything happen that happens before *end*."""
        while self._events and self._events[0][0] < end:
            self.now, _, event = heappop(self._events)
            event()
        self.now = end
