"""How much one workflow task may ask of the server: above 4 MB in one step it terminates the workflow."""

import asyncio
from datetime import timedelta

from temporalio import workflow

BYTES = 1_000_000
"""Of a step's commands, before they are compressed."""
COMMANDS = 200
NEXT_STEP = timedelta(milliseconds=1)


class CommandBudget:
    """What a step of a workflow may still send. Whoever finds nothing left waits for the next step, in order."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._step = -1
        self._bytes = 0
        self._commands = 0

    async def take(self, size: int) -> None:
        """Returns when a command of *size* bytes fits into the step. The first one of a step always does."""
        async with self._turn:
            while not self._fits(size):
                await workflow.sleep(NEXT_STEP)
            self._bytes += size
            self._commands += 1

    def _fits(self, size: int) -> bool:
        step = workflow.info().get_current_history_length()
        if step != self._step:
            self._step, self._bytes, self._commands = step, 0, 0
        return not self._commands or (self._bytes + size <= BYTES and self._commands < COMMANDS)
