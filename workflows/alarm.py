"""A sleep of a workflow that can be set to another time, or ended, while it lasts."""

import asyncio
from datetime import datetime, timedelta

from temporalio import workflow


class Alarm:
    """Wakes its workflow at a time, or when fired. Keeps one timer as long as the time stays the same."""

    def __init__(self) -> None:
        self._fired = False
        self._due: datetime | None = None
        self._timer: asyncio.Task[None] | None = None

    def fire(self) -> None:
        """Ends the sleep, or the next one if none is under way: none is lost."""
        self._fired = True

    async def until(self, due: datetime | None) -> None:
        """Sleeps until *due*, for ever if None, or until fired."""
        self._set(due)
        await workflow.wait_condition(lambda: self._fired)
        self._fired = False

    def _set(self, due: datetime | None) -> None:
        running = self._timer is not None and not self._timer.done()
        if due == self._due and running:
            return
        if self._timer is not None and running:
            self._timer.cancel()
        self._due = due
        self._timer = None if due is None else asyncio.create_task(self._sleep(due))

    async def _sleep(self, due: datetime) -> None:
        await workflow.sleep(max(due - workflow.now(), timedelta()))
        self._fired = True
