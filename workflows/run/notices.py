"""Tells those who want to know of what happens to a run and its tasks. Nothing waits for them but the run's end."""

import asyncio

from temporalio import workflow

from ...model.run.attempts import WHOLE_RUN, TaskAttempt
from ...model.run.notices import Notice, decisive
from ...model.run.state import DagRunState
from ...model.run.task_instances import TaskInstance
from ...model.spec.notifiers import Event, FunctionNotifier
from ...model.spec.tasks import EmptyTask
from ...model.states import RunState
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
        task = self._state.spec.by_id[instance.task_id] if instance is not None else None
        own = task.callbacks.get(event, ()) if task is not None else ()
        common = self._state.spec.callbacks.get(event, ()) if task is None or event is Event.SLA_MISS else ()
        if number is not None:
            common = tuple(one for one in common if isinstance(one, FunctionNotifier) and one.number == number)
        for notifier, of_run in (*((one, False) for one in own), *((one, True) for one in common)):
            self._state.notices += 1
            notice = Notice(
                notifier=notifier,
                event=event,
                run=self._state.run,
                state=state or (instance.state if instance is not None else RunState.RUNNING),
                reason=reason,
                attempt=self._attempt(instance),
                about=decisive(self._state, RunState(state)) if instance is None and state is not None else None,
                of_run=of_run,
                number=self._state.notices,
                written_for=self._state.spec.written_for,
            )
            sending = asyncio.create_task(send_notice(notice, notice.key))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)

    def _attempt(self, instance: TaskInstance | None) -> TaskAttempt:
        if instance is not None:
            return self._state.attempt(instance, workflow.info().run_id)
        return TaskAttempt(
            run=self._state.run,
            task=EmptyTask(task_id=WHOLE_RUN),
            try_number=1,
            execution=workflow.info().run_id,
            params=self._state.run.conf,
            source=self._state.spec.source,
        )

    async def all_told(self) -> None:
        """Waits until all are told, or it was tried often enough."""
        await workflow.wait_condition(lambda: not self._sending)
