"""One pool for as long as it exists: the only one to give out its slots."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError

from ..activities.holders import HoldersQuestion, find_holders
from ..activities.names import calls_queue
from ..activities.runs import RunsQuestion, find_ended_runs
from ..model.interfaces.pool import PoolInterface
from ..model.interfaces.run import RunInterface
from ..model.pool.state import Granted, LeaseRequest, PoolSettings, PoolState, PoolView, dag_of_limit
from . import metrics
from .alarm import Alarm
from .calls import FOR_EVER, look_up, send

LOOK_FIRST = timedelta(seconds=5)
LOOK_LAST = timedelta(minutes=1)
HOLDERS_PER_QUERY = 1000
HOLDERS_TIMEOUT, HOLDERS_HEARTBEAT = timedelta(minutes=10), timedelta(seconds=30)
HOLDERS_PATIENCE, HOLDERS_PAUSE = timedelta(minutes=2), timedelta(seconds=5)
"""How long runs are waited for that do not answer: their worker may just be starting. Then the pool goes on."""
VISIBILITY_LAG = timedelta(seconds=10)
"""After so long a run that has begun is in lists."""


@workflow.defn(name=PoolInterface.workflow, sandboxed=False)
class PoolWorkflow:
    """A pool of slots. Runs ask for them, are told, and give them back, all by signals."""

    @workflow.init
    def __init__(self, state: PoolState) -> None:
        self.state = state
        self._alarm = Alarm()
        self._look_at: datetime | None = None
        self._pause = LOOK_FIRST
        self._looking: asyncio.Task[None] | None = None
        self._given_back: set[str] | None = None
        """Leases given back while those who hold slots are being asked; None: nobody is."""
        self._was_reset = False

    def _reset(self, _: int) -> None:
        """Take note that an operator has reset the workflow: only then does Temporal give it another seed."""
        self._was_reset = True
        self._alarm.fire()

    @workflow.run
    async def run(self, _: PoolState) -> None:
        """Grants what is free whenever something changes, for ever."""
        workflow.register_random_seed_callback(self._reset)  # not in __init__: a replay makes the object earlier
        if workflow.info().continued_run_id is None:
            workflow.deprecate_patch("asks-holders")
            await self._learn_holders()
        while True:
            if self._was_reset:
                workflow.deprecate_patch("asks-holders-after-reset")
                self._was_reset = False
                await self._learn_holders()
            await self._grant()
            metrics.pool_changed(
                self.state.name, self.state.settings.slots, self.state.occupied, len(self.state.waiting)
            )
            if self._holders_to_look_at():
                self._looking = asyncio.create_task(self._look_for_the_dead())
            if workflow.info().is_continue_as_new_suggested():
                await workflow.wait_condition(lambda: workflow.all_handlers_finished() and not self._is_looking)
                workflow.continue_as_new(self.state)
            await self._alarm.until(self._look_at)

    async def _learn_holders(self) -> None:
        """Ask runs what they hold, before anything is granted: a pool of this name may have been ended, or reset."""
        self._given_back = set()
        pool = workflow.info().workflow_id
        question = HoldersQuestion(pool=pool, dag_id=dag_of_limit(pool))
        begun, patience_ends = workflow.now(), workflow.now() + HOLDERS_PATIENCE
        while True:
            requested_at = workflow.now()
            answer = await workflow.execute_activity(
                find_holders,
                question,
                task_queue=calls_queue(workflow.info().task_queue),
                start_to_close_timeout=HOLDERS_TIMEOUT,
                heartbeat_timeout=HOLDERS_HEARTBEAT,
                retry_policy=FOR_EVER,
            )
            self.state.recover(answer, workflow.now(), self._given_back)
            too_early = answer.follows_another and requested_at < begun + VISIBILITY_LAG
            if not too_early and (not answer.silent or workflow.now() >= patience_ends):
                break
            await workflow.sleep(VISIBILITY_LAG if too_early else HOLDERS_PAUSE)
        self._given_back = None

    async def _grant(self) -> None:
        granted: dict[str, list[str]] = {}
        for request in self.state.grant(workflow.now()):
            granted.setdefault(request.holder, []).append(request.lease_id)
        if granted:
            await asyncio.gather(*(self._tell(holder, lease_ids) for holder, lease_ids in granted.items()))

    async def _tell(self, holder: str, lease_ids: list[str]) -> None:
        answer = Granted(
            pool=workflow.info().workflow_id,
            lease_ids=tuple(lease_ids),
            passable_until=self.state.passable_until(workflow.now()),
        )
        try:
            await send(workflow.get_external_workflow_handle(holder), RunInterface.granted(answer))
        except FailureError:  # the run is gone: nobody will give these back
            self.state.forget(holder)
            self._alarm.fire()

    def _holders_to_look_at(self) -> bool:
        """Whether it is time to ask about those who hold slots: while somebody waits, now and then."""
        if not self.state.waiting:
            self._look_at, self._pause = None, LOOK_FIRST
            return False
        if self._look_at is None or workflow.now() < self._look_at:
            self._look_at = self._look_at or workflow.now() + self._pause
            return False
        self._pause = min(2 * self._pause, LOOK_LAST)
        self._look_at = workflow.now() + self._pause
        return not self._is_looking

    @property
    def _is_looking(self) -> bool:
        return self._looking is not None and not self._looking.done()

    async def _look_for_the_dead(self) -> None:
        """Asks whether those who hold slots still exist: a terminated run tells nobody."""
        holders = self.state.holders
        for part in range(0, len(holders), HOLDERS_PER_QUERY):
            question = RunsQuestion(workflow_ids={h: h for h in holders[part : part + HOLDERS_PER_QUERY]})
            for report in await look_up(find_ended_runs, question):
                self.state.forget(report.key)
                self._alarm.fire()

    @workflow.signal
    def ask(self, requests: Sequence[LeaseRequest]) -> None:
        """Instances of tasks ask to be let in."""
        for request in requests:
            if self.state.was_returned(request):
                workflow.deprecate_patch("remembers-returns")
                if workflow.patched("forgets-returns"):
                    self.state.forget_return(request)
                continue
            self.state.ask(request)
        self._alarm.fire()

    @workflow.signal
    def give_back(self, lease_ids: list[str]) -> None:
        """Instances are done with their slots."""
        if self._given_back is not None:
            self._given_back.update(lease_ids)
        self.state.give_back(lease_ids)
        self._alarm.fire()

    @workflow.signal
    def park(self, lease_ids: list[str]) -> None:
        """Instances wait outside of a worker."""
        self.state.park(lease_ids)
        self._alarm.fire()

    @workflow.signal
    def passed_on(self, requests: list[LeaseRequest]) -> None:
        """A run has passed slots on from one of its tasks to another."""
        self.state.pass_on(requests)

    @workflow.update
    def set(self, settings: PoolSettings) -> PoolView:
        """Changes the pool. Slots that are held stay held, also where there are now fewer."""
        self.state.settings = settings
        self._alarm.fire()
        return self.state.view()

    @workflow.query
    def describe(self) -> PoolView:
        """The pool, who holds its slots, and who waits."""
        return self.state.view()
