"""One watcher of an asset: has somebody look, and tells the asset of what was found, each thing once.

What was found and the position behind it become state in one step; its state is `model.asset.watching`.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

from ..activities.names import WATCHING_SUFFIX
from ..model.asset.state import asset_workflow_id
from ..model.asset.watching import LONGEST_LOOK, WatchAnswer, WatcherState, WatcherView, Watching, WatchQuestion
from ..model.interfaces.asset import AssetInterface, WatcherInterface
from .asset_messages import tell_asset
from .calls import FOR_EVER, cause_of

HEARTBEAT = timedelta(seconds=30)
LOOK_TIMEOUT = 3 * LONGEST_LOOK
"""A look that has not ended by then hangs."""


@workflow.defn(name=WatcherInterface.workflow, sandboxed=False)
class WatcherWorkflow:
    """Looks for events of an asset outside of tidemill."""

    @workflow.init
    def __init__(self, state: WatcherState) -> None:
        self.state = state
        self._changed = False

    @workflow.run
    async def run(self, _: WatcherState) -> None:
        """Looks, for ever."""
        while True:
            await self._tell()
            if workflow.info().is_continue_as_new_suggested() and workflow.all_handlers_finished():
                workflow.continue_as_new(self.state)
            self._changed = False
            if self.state.watching.watcher is None:
                await workflow.wait_condition(lambda: self._changed)
            else:
                await self._look()

    async def _tell(self) -> None:
        """Tells the asset of what was found, in order."""
        while self.state.unsent:
            call = AssetInterface.tell(self.state.unsent[0])
            await tell_asset(asset_workflow_id(self.state.watching.asset), call, None)
            del self.state.unsent[0]

    async def _look(self) -> None:
        """One look, until something was found, it has taken long, or something else is to be looked for."""
        looking = asyncio.create_task(self._answer())
        await workflow.wait_condition(lambda: self._changed or looking.done())
        if not looking.done():
            looking.cancel()
            await asyncio.wait([looking])
        if self._changed or looking.cancelled():  # what it may have found is found again, if it is still looked for
            return
        pause = self.state.take(looking.result(), workflow.now(), workflow.info().first_execution_run_id)
        if pause is not None:
            with suppress(TimeoutError):
                await workflow.wait_condition(lambda: self._changed, timeout=pause)

    async def _answer(self) -> WatchAnswer:
        question = WatchQuestion(watching=self.state.watching, position=self.state.position)
        try:
            answer: WatchAnswer = await workflow.execute_activity(
                "tidemill.watch",
                question,
                result_type=WatchAnswer,
                task_queue=workflow.info().task_queue + WATCHING_SUFFIX,
                start_to_close_timeout=LOOK_TIMEOUT,
                heartbeat_timeout=HEARTBEAT,
                retry_policy=FOR_EVER,
                cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
            )
        except ActivityError as error:
            if self._changed:
                raise asyncio.CancelledError from None
            return WatchAnswer(error=cause_of(error))
        return answer

    @workflow.signal
    def watch(self, watching: Watching) -> None:
        """The asset says what to look for from now on."""
        if watching != self.state.watching:
            self.state.expect(watching)
            self._changed = True

    @workflow.query
    def describe(self) -> WatcherView:
        """What it looks for, and what it has found."""
        return self.state.view()
