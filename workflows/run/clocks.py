"""What waits for nothing but time: one clock for each name, set anew or forgotten at any moment."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow


class Clocks:
    """Timers of a run by name. *failed* is told what a clock's work raises, since nobody waits for it."""

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._clocks: dict[str, asyncio.Task[None]] = {}

    def set(self, name: str, until: datetime, then: Callable[[], None]) -> None:
        """Does *then* at *until*, or at once if that is over. An earlier clock of the name is forgotten."""

        async def tick() -> None:
            await workflow.sleep(max(until - workflow.now(), timedelta()))
            self._clocks.pop(name, None)
            try:
                then()
            except Exception as error:
                self._failed(error)

        self.forget(name)
        self._clocks[name] = asyncio.create_task(tick())

    def forget(self, name: str) -> None:
        clock = self._clocks.pop(name, None)
        if clock is not None:
            clock.cancel()

    def forget_all(self) -> None:
        for name in [*self._clocks]:
            self.forget(name)
