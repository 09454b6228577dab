"""Tells those who want to know of what happens to a run and its tasks. Nothing waits for them but the run's end."""

import asyncio
from collections.abc import Sequence

from temporalio import workflow

from ...model.run.notices import Notice, notices_of
from ...model.run.state import DagRunState
from ...model.run.task_instances import TaskInstance
from ...model.spec.notifiers import Event, FunctionNotifier
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
        notices = notices_of(self._state, execution, event, instance, state, reason, number)
        called = [notice for notice in notices if isinstance(notice.notifier, FunctionNotifier)]
        in_order = len(called) > 1 and workflow.patched("functions-in-order")
        others = [notice for notice in notices if notice not in called] if in_order else notices
        for together in [*([called] if in_order else []), *([notice] for notice in others)]:
            sending = asyncio.create_task(self._send(together, instance))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)

    async def _send(self, notices: Sequence[Notice], instance: TaskInstance | None) -> None:
        """Sends one after the other (Airflow: a list of callbacks); what they push is the task's."""
        for notice in notices:
            pushed = await send_notice(notice, notice.key)
            if pushed and instance is not None:
                instance.xcom = {**instance.xcom, **pushed}

    async def all_sent(self) -> None:
        """Waits until all are told, or it was tried often enough."""
        await workflow.wait_condition(lambda: not self._sending)
