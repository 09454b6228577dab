"""Triggers that tries wait for, each an activity that watches while nothing of the try runs."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from ...activities.names import TRIGGERS_SUFFIX
from ...model.run.deferrals import Deferral, TriggerEnd
from ...model.run.state import DagRunState
from ...model.run.task_instances import TaskInstance
from ...model.run.triggering import TriggerQuestion
from ...model.states import TaskState
from ..calls import FOR_EVER, UNBOUNDED, cause_of

SILENT_FOR = timedelta(seconds=30)
"""After so long without a word of its worker, another one watches."""

Ended = Callable[[TaskInstance, Deferral, TriggerEnd], None]


class Triggers:
    """Those of one run that are being watched. *ended* is told what has come of one."""

    def __init__(self, state: DagRunState, ended: Ended, defect: Callable[[Exception], None]) -> None:
        self._state = state
        self._ended = ended
        self._defect = defect
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    def begin(self, instance: TaskInstance) -> None:
        """Watches for what *instance* waits for, unless that is a moment, or a person."""
        deferral = instance.deferral
        if instance.state is not TaskState.DEFERRED or deferral is None:
            return
        if deferral.trigger is not None and deferral.moment is None:
            self._watching[instance.key] = asyncio.create_task(self._watch(instance, deferral))

    def stop(self, key: str) -> None:
        """A person, or the end of the run, has ended the wait: its trigger ends what it has begun elsewhere."""
        task = self._watching.pop(key, None)
        if task is not None:
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)
            task.cancel()

    def stop_all(self) -> None:
        """The same of all."""
        for key in [*self._watching]:
            self.stop(key)

    async def all_stopped(self) -> None:
        """Waits until those that were stopped have ended: a workflow that closes can tell them nothing more."""
        await workflow.wait_condition(lambda: not self._stopping)

    def leave(self) -> None:
        """The run goes on as another execution, which watches anew: what triggers have begun is not to be ended."""
        self._watching.clear()

    async def _watch(self, instance: TaskInstance, deferral: Deferral) -> None:
        task = self._state.spec.by_id[instance.task_id]
        attempt = self._state.attempt(instance, workflow.info().run_id)
        try:
            end: TriggerEnd = await workflow.execute_activity(
                "tidemill.airflow_trigger",
                TriggerQuestion(attempt=attempt.model_copy(update={"xcom": {}}), deferral=deferral),
                activity_id=f"{instance.key}/{instance.try_number}/{instance.pokes}/trigger",
                result_type=TriggerEnd,
                task_queue=(task.queue or workflow.info().task_queue) + TRIGGERS_SUFFIX,
                start_to_close_timeout=UNBOUNDED,
                heartbeat_timeout=SILENT_FOR,
                retry_policy=FOR_EVER,
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary=f"{instance.key} waits for {(deferral.trigger or '').rpartition('.')[2]}",
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                return
            end = TriggerEnd(error="Trigger failure", traceback=(cause_of(error),))
        except asyncio.CancelledError:
            return
        if self._watching.get(instance.key) is not asyncio.current_task():
            return
        del self._watching[instance.key]
        try:
            self._ended(instance, deferral, end)
        except Exception as error:
            self._defect(error)
