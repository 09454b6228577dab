"""The time of a simulated world, and what happens when."""

from collections.abc import Callable
from datetime import datetime
from heapq import heappop, heappush


class Clock:
    """Goes from one event to the next. Those of one moment happen by their turn, then in the order of their setting."""

    def __init__(self, start: datetime) -> None:
        self.now = start
        self._events: list[tuple[datetime, int, int, Callable[[], None]]] = []
        self._made = 0

    def at(self, time: datetime, event: Callable[[], None], turn: int) -> None:
        """Has *event* happen at *time*, or now where that is past."""
        self._made += 1
        heappush(self._events, (max(time, self.now), turn, self._made, event))

    @property
    def next_at(self) -> datetime | None:
        """When the next event happens."""
        return self._events[0][0] if self._events else None

    def step(self) -> None:
        """Lets the next event happen."""
        self.now, _, _, event = heappop(self._events)
        event()

    def go_to(self, time: datetime) -> None:
        """Goes on to *time*, and forgets every event that was set."""
        self.now = time
        self._events.clear()
