"""One asset, or alias, for as long as somebody names it: numbers its events, and tells the DAGs that wait for it.

Its state and its decisions are `model.asset.state`; this is told, and tells.
"""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

from ..model.asset.events import AssetEvent
from ..model.asset.state import (
    WRAPPED_EVENT_LIMIT,
    AssetState,
    AssetView,
    Lateness,
    ReportedEvent,
    Tie,
    WantedWatcher,
    check_event,
)
from ..model.asset.watching import WatcherState, Watching, watcher_workflow_id
from ..model.errors import InvalidInputError
from ..model.interfaces.asset import AssetInterface, WatcherInterface
from ..model.interfaces.dag import DagInterface
from ..model.run.identity import dag_workflow_id
from ..model.run.notices import late_notice
from .alarm import Alarm
from .asset_messages import tell
from .calls import refusing, send
from .notifying import send_notice

TOGETHER = 40
"""So many DAGs are told at a time: with what each message may have, one step stays below what Temporal takes."""
AGAIN_FIRST, AGAIN_LAST = timedelta(seconds=1), timedelta(minutes=1)
"""After how long a DAG is told again that could not be."""
GONE = "not found"
"""In what Temporal says of a signal to a workflow that there is not."""


@workflow.defn(name=AssetInterface.workflow, sandboxed=False)
class AssetWorkflow:
    """An asset. Tasks tell it of events by signals, and it tells DAGs, each in order."""

    @workflow.init
    def __init__(self, state: AssetState) -> None:
        self.state = state
        self._alarm = Alarm()
        self._sending: set[str] = set()
        self._beside: set[asyncio.Task[None]] = set()
        """Watchers and notifiers that are being told."""
        self._holding = False

    @workflow.run
    async def run(self, _: AssetState) -> None:
        """Tells whoever waits for it, for ever."""
        while True:
            # What waits goes along, unless that is more than one payload may have: then it is told first.
            self._holding = workflow.info().is_continue_as_new_suggested() and self.state.fits_a_payload
            if self._holding and not self._sending and not self._beside and workflow.all_handlers_finished():
                workflow.continue_as_new(self.state)
            if not self._holding:
                self._tell_others()
            await self._alarm.until(None if self._holding else self.state.next_lateness())

    def _tell_others(self) -> None:
        """Tells DAGs of events, watchers what to look for, and people that it is late."""
        self._send()
        if self.state.watchers_need_bundle:
            workflow.deprecate_patch("watchers-of-bundles")
        for name, wanted in self.state.watchers_to_tell().items():
            self._begin(self._tell_watcher(name, wanted))
        for lateness in self.state.take_lateness(workflow.now()):
            self._begin(self._tell_late(lateness))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._beside.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            workflow.logger.error("asset %s: %s", self.state.asset.name, error, exc_info=error)
        self._alarm.fire()

    async def _tell_watcher(self, name: str, wanted: WantedWatcher | None) -> None:
        fields = {} if wanted is None else wanted.model_dump()
        watching = Watching.model_validate({"asset": self.state.asset.name, "name": name, **fields})
        workflow_id = watcher_workflow_id(self.state.asset.name, name)
        await tell(workflow_id, WatcherInterface.watch(watching), WatcherInterface, WatcherState(watching=watching))

    async def _tell_late(self, lateness: Lateness) -> None:
        notice = late_notice(self.state.asset.name, lateness, workflow.info().run_id)
        await send_notice(notice, lateness.reason)

    def _send(self) -> None:
        """Tells those who have something waiting and are not being told."""
        for dag_id in [*self.state.outbox]:
            if dag_id not in self._sending and len(self._sending) < TOGETHER and not self._holding:
                self._sending.add(dag_id)
                asyncio.create_task(self._tell(dag_id))  # noqa: RUF006 - `_sending` holds it

    async def _tell(self, dag_id: str) -> None:
        """Tells one DAG all that waits for it, a message at a time; what it has not got stays."""
        pause = AGAIN_FIRST
        try:
            while (delivery := self.state.next_delivery(dag_id)) is not None and not self._holding:
                tie = self.state.ties.get(dag_id)
                try:
                    dag = workflow.get_external_workflow_handle(dag_workflow_id(dag_id))
                    await send(dag, DagInterface.asset_events(delivery))
                except FailureError as error:
                    if GONE in str(error).lower() and self.state.ties.get(dag_id) is tie:
                        self.state.forget(dag_id)
                        return
                    workflow.logger.warning("DAG %s could not be told of %s: %s", dag_id, self.state.asset.name, error)
                    await workflow.sleep(pause)
                    pause = min(2 * pause, AGAIN_LAST)
                else:
                    self.state.delivered(dag_id, len(delivery.events))
        finally:
            self._sending.discard(dag_id)
            self._alarm.fire()

    @workflow.signal
    def tie(self, tie: Tie) -> None:
        """A DAG says what it has to do with the asset."""
        self.state.tie(tie, workflow.now())
        self._alarm.fire()

    @workflow.signal
    def pause(self) -> None:
        """Events are taken, and DAGs hear of them when it is unpaused; its watchers rest."""
        self.state.pause(True)
        self._alarm.fire()

    @workflow.signal
    def unpause(self) -> None:
        """DAGs hear of what has come meanwhile."""
        self.state.pause(False)
        self._alarm.fire()

    @workflow.signal
    def tell(self, report: ReportedEvent) -> None:
        """A task, or somebody outside, has updated the asset."""
        try:
            check_event(report.extra, report.partition_key, limit=WRAPPED_EVENT_LIMIT)
        except InvalidInputError as error:  # a signal has nobody to answer
            workflow.logger.warning("an event of asset %s is passed over: %s", self.state.asset.name, error)
            return
        self.state.add(report, workflow.now())
        self._alarm.fire()

    @workflow.update
    def emit(self, report: ReportedEvent) -> AssetEvent | None:
        """The same, answered: None if the event is known already."""
        with refusing():
            check_event(report.extra, report.partition_key)
        event = self.state.add(report, workflow.now())
        self._alarm.fire()
        return event

    @workflow.query
    def describe(self) -> AssetView:
        """The asset, who writes it, who waits for it."""
        return self.state.view(workflow.now())

    @workflow.query
    def events(self) -> list[AssetEvent]:
        """Its last events, oldest first."""
        return self.state.events
