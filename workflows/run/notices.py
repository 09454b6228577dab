"""Tells those who want to know of what happens to a run and its tasks. Nothing waits for them but the run's end."""

import asyncio

from temporalio import workflow

from ...model.run.notices import notices_of
from ...model.run.state import DagRunState
from ...model.run.task_instances import TaskInstance
from ...model.spec.notifiers import Event
from ..notifying import send_notice


class Notices:
    """The notices of one run."""

    def __init__(self, state: DagRunState) -> None:
        self._state = state
        self._sending: set[asyncio.Task[None]] = set()

    def tell(
        self,
        event: Event,
        instance: TaskInstance | None,
        state: str | None = None,
        reason: str | None = None,
        number: int | None = None,
    ) -> None:
        """Sends *event*, of the run where *instance* is None, to all who are to be told of it.

        *number*: to that function of the file alone.
        """
        execution = workflow.info().run_id
        for notice in notices_of(self._state, execution, event, instance, state, reason, number):
            sending = asyncio.create_task(send_notice(notice, notice.key))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)

    async def all_sent(self) -> None:
        """Waits until all are told, or it was tried often enough."""
        await workflow.wait_condition(lambda: not self._sending)
