"""One asset, or alias, for as long as somebody names it: numbers its events, and tells the DAGs that wait for it.

Its state and its decisions are `model.asset.state`; this is told, and tells.
"""

import asyncio
from collections.abc import Sequence

from temporalio import workflow
from temporalio.exceptions import FailureError

from ..model.asset.events import AssetEvent
from ..model.asset.state import AssetState, AssetView, Delivery, Tie, ToldEvent, check_event
from ..model.run.identity import dag_workflow_id
from .alarm import Alarm
from .calls import refusing

TOGETHER = 50
"""So many DAGs are told at a time: the server takes a second for each that waits for its turn."""
PER_MESSAGE = 20
"""How many events one message may have: each may have 32 KB to say."""


@workflow.defn(name="Asset", sandboxed=False)
class AssetWorkflow:
    """An asset. Tasks tell it of events by signals, and it tells DAGs, each in order."""

    @workflow.init
    def __init__(self, state: AssetState) -> None:
        self.state = state
        self._alarm = Alarm()
        self._outbox: dict[str, list[tuple[AssetEvent, bool]]] = {}
        self._sending: set[str] = set()

    @workflow.run
    async def run(self, _: AssetState) -> None:
        """Tells whoever waits for it, for ever."""
        while True:
            self._send()
            if workflow.info().is_continue_as_new_suggested():
                await self._go_on_as_new()
            await self._alarm.until(None)

    async def _go_on_as_new(self) -> None:
        while self._outbox or self._sending or not workflow.all_handlers_finished():
            self._send()
            await workflow.wait_condition(lambda: not self._sending or bool(self._outbox.keys() - self._sending))
            await workflow.wait_condition(workflow.all_handlers_finished)
        workflow.continue_as_new(self.state)

    def _send(self) -> None:
        """Tells those who have something waiting and are not being told."""
        for dag_id in [*self._outbox]:
            if dag_id not in self._sending and len(self._sending) < TOGETHER:
                self._sending.add(dag_id)
                asyncio.create_task(self._tell(dag_id))  # noqa: RUF006 - `_sending` holds it

    async def _tell(self, dag_id: str) -> None:
        handle = workflow.get_external_workflow_handle(dag_workflow_id(dag_id))
        try:
            while self._outbox.get(dag_id):
                waiting = self._outbox[dag_id]
                history = waiting[0][1]
                part = [event for event, before in waiting[:PER_MESSAGE] if before is history]
                del waiting[: len(part)]
                await handle.signal("asset_events", Delivery(events=tuple(part), history=history))
        except FailureError:  # there is no such DAG any more
            self.state.ties.pop(dag_id, None)
        finally:
            self._outbox.pop(dag_id, None)
            self._sending.discard(dag_id)
            self._alarm.ring()

    def _queue(self, dag_ids: Sequence[str], events: Sequence[AssetEvent], *, history: bool) -> None:
        for dag_id in dag_ids:
            self._outbox.setdefault(dag_id, []).extend((event, history) for event in events)
        self._alarm.ring()

    @workflow.signal
    def tie(self, tie: Tie) -> None:
        """A DAG says what it has to do with the asset."""
        before = self.state.tie(tie)
        if before:
            self._queue([tie.dag_id], before, history=True)

    @workflow.signal
    def tell(self, told: ToldEvent) -> None:
        """A task, or somebody outside, has updated the asset."""
        event = self.state.add(told, workflow.now())
        if event is not None:
            self._queue(self.state.consumers, [event], history=False)

    @workflow.update
    def emit(self, told: ToldEvent) -> AssetEvent | None:
        """The same, answered: None if the event is known already."""
        with refusing():
            check_event(told.extra, told.partition_key)
        event = self.state.add(told, workflow.now())
        if event is not None:
            self._queue(self.state.consumers, [event], history=False)
        return event

    @workflow.query
    def describe(self) -> AssetView:
        """The asset, who writes it, who waits for it."""
        return self.state.view(workflow.now())

    @workflow.query
    def events(self) -> list[AssetEvent]:
        """Its last events, oldest first."""
        return self.state.events
