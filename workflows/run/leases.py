"""Asks pools to let tasks of a run in, one pool after the other, and gives back what is no longer needed."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError

from ...model.base import iso
from ...model.interfaces.calls import Signal
from ...model.interfaces.pool import PoolInterface
from ...model.names import LIMIT
from ...model.pool.state import (
    PARALLELISM,
    SPARK_POOL_SETTINGS,
    Granted,
    LeaseRequest,
    PoolSettings,
    PoolState,
    RunLeases,
    pool_workflow_id,
    pools_of,
)
from ...model.run.planner import RunPlan
from ...model.run.ready_tasks import parallelism_reached
from ...model.run.state import DagRunState, HeldLease
from ...model.spec.tasks import BaseTask
from ...model.spec.tasks.spark import SPARK_POOL
from ..calls import send
from .pool_messages import PoolMessages

ASK_AGAIN = timedelta(seconds=15)
REMIND_FIRST, REMIND_LAST = timedelta(minutes=1), timedelta(minutes=8)
"""How often a pool that does not answer is asked again: it may have been ended, and made anew without its memory."""
NOTE_AFTER = timedelta(seconds=1)
"""How long a lease that was passed on is with its new task before its pools are told: many are given back by then."""


class Leases:
    """The leases of one run. What is held is part of the run's state; messages are sent from here."""

    def __init__(self, state: DagRunState, plan: RunPlan, wake: Callable[[], None]) -> None:
        """*wake*: has the run look whether its history is too long; else it would only ask, for ever."""
        self._state = state
        self._plan = plan
        self._wake = wake
        self.since_reset = ""
        """What the ids of new leases end in: what was asked before a reset is not to be taken for what is asked now."""
        self._messages = PoolMessages(self._ask_pool, self._delivered)
        self._free: list[tuple[int, HeldLease]] = []
        """Leases that a task has just left, with how many slots each has: see `let_go`."""
        self._passed_on: set[str] = set()
        """The tasks that leases were passed on to, of which pools have not been told."""
        self._noting: asyncio.Task[None] | None = None
        self._reminder: asyncio.Task[None] | None = None

    def follow(self, plan: RunPlan) -> None:
        """Serves *plan* from now on; what is on its way goes on."""
        self._plan = plan

    @property
    def unanswered(self) -> dict[str, HeldLease]:
        """The leases that some pool has not granted yet."""
        return {key: held for key, held in self._state.leases.items() if held.granted < len(held.pools)}

    @property
    def keeps_free(self) -> bool:
        """Whether slots are free that have not been given back."""
        return bool(self._free)

    @property
    def telling(self) -> bool:
        """Whether pools are being told something, or have to be."""
        return self.keeps_free or self._messages.telling

    async def all_sent(self) -> None:
        """Waits for what is on its way: a workflow that closes takes its undelivered messages with it."""
        self.settle()
        self._note()
        await self._messages.all_sent()

    def ask(self, keys: Iterable[str]) -> bool:
        """Asks the first pool of each of *keys*. Returns whether some have got slots that were passed on to them."""
        by_pool: dict[str, list[LeaseRequest]] = {}
        may_pass_on = bool(self._free) and not self.unanswered  # those that wait already come first
        passed_on = False
        for key in keys:
            self.give_back([key])
            if may_pass_on and self._take_over(key):
                passed_on = True
                continue
            task = self._task(key)
            self._state.leases_made += 1
            ending = self.since_reset if self.since_reset and workflow.patched("asks-anew-since-a-reset") else ""
            lease_id = f"{workflow.info().workflow_id}#{self._state.leases_made}{ending}"
            held = HeldLease(lease_id=lease_id, pools=self._pools_of(task))
            self._state.leases[key] = held
            by_pool.setdefault(held.pools[0], []).append(self._request(key, held, held.pools[0]))
        self._ask_pools(by_pool)
        self._remind()
        return passed_on

    def let_go(self, keys: Iterable[str]) -> None:
        """*keys* are done with their slots: another task of the run takes them over at once, or they go back."""
        for key in keys:
            held = self._state.leases.get(key)
            if held is not None and _may_be_passed_on(held):
                workflow.deprecate_patch("passes-slots-on")
                self._free.append((self._slots_of(key), self._state.leases.pop(key)))
            else:
                self.give_back([key])

    def settle(self) -> None:
        """Gives back what no other task has taken over."""
        free, self._free = self._free, []
        self._return(held for _, held in free)

    def _take_over(self, key: str) -> bool:
        """Passes a lease on to *key*, if there is a free one of the same slots."""
        slots, pools = self._slots_of(key), self._pools_of(self._task(key))
        found = next((at for at, (had, held) in enumerate(self._free) if (had, held.pools) == (slots, pools)), None)
        if found is None:
            return False
        _, held = self._free.pop(found)
        self._state.leases[key] = held
        if not self._plan.grant(key):
            self.give_back([key])
        self._passed_on.add(key)
        if self._noting is None or self._noting.done():
            self._noting = asyncio.create_task(self._note_later())
        return True

    async def _note_later(self) -> None:
        await workflow.sleep(NOTE_AFTER)
        self._note()

    def _note(self) -> None:
        """Tells pools who has the leases that were passed on: it is what they show."""
        keys, self._passed_on = sorted(self._passed_on), set()
        for key in keys:
            if (held := self._state.leases.get(key)) is not None:
                for pool in held.pools[: held.granted]:
                    self._messages.tell(pool, PoolInterface.passed_on, [self._request(key, held, pool)])

    def _remind(self) -> None:
        """Have what waits asked for again now and then. To a pool that knows of it, it is the same request."""
        under_way = self._reminder is not None and not self._reminder.done()
        if self.unanswered and not under_way:
            workflow.deprecate_patch("asks-pools-again")
            self._reminder = asyncio.create_task(self._ask_now_and_then())

    async def _ask_now_and_then(self) -> None:
        pause = REMIND_FIRST
        while self.unanswered:
            await workflow.sleep(pause)
            pause = min(2 * pause, REMIND_LAST)
            self._ask_unanswered()
            self._wake_run()

    def _wake_run(self) -> None:
        if workflow.patched("goes-on-as-new-while-asking"):
            self._wake()

    def _ask_unanswered(self) -> None:
        by_pool: dict[str, list[LeaseRequest]] = {}
        for key, held in self.unanswered.items():
            pool = held.pools[held.granted]
            by_pool.setdefault(pool, []).append(self._request(key, held, pool))
        self._ask_pools(by_pool)

    def of_pool(self, pool: str) -> RunLeases:
        """Return what this run holds and waits for of *pool*, a workflow id."""
        leases = [(key, held) for key, held in self._state.leases.items() if pool in held.pools[: held.granted + 1]]
        requests = [(held, self._request(key, held, pool)) for key, held in leases]
        return RunLeases(
            held=tuple(request for held, request in requests if pool in held.pools[: held.granted]),
            waiting=tuple(request for held, request in requests if pool not in held.pools[: held.granted]),
        )

    def _ask_pools(self, by_pool: dict[str, list[LeaseRequest]]) -> None:
        for pool, requests in by_pool.items():
            self._messages.ask(pool, requests)

    def ask_again(self) -> None:
        """After continue-as-new: what was not answered yet is asked once more. It is the same request to the pool."""
        self._ask_unanswered()
        self._remind()

    def granted(self, answer: Granted) -> None:
        """A pool has let instances in: the next pool is asked, or the instance may start."""
        by_id = {held.lease_id: key for key, held in self._state.leases.items()}
        unwanted = [lease_id for lease_id in answer.lease_ids if lease_id not in by_id]
        for lease_id in answer.lease_ids:
            key = by_id.get(lease_id)
            if key is None:
                continue
            held = self._state.leases[key]
            if held.granted == len(held.pools) or held.pools[held.granted] != answer.pool:
                continue  # told twice
            held.passable_until = _earliest(held, answer)
            held.granted, held.error = held.granted + 1, None
            if held.granted < len(held.pools):
                pool = held.pools[held.granted]
                self._messages.ask(pool, [self._request(key, held, pool)])
            elif not self._plan.grant(key):
                self.give_back([key])
        if unwanted:
            self._give_back(answer.pool, unwanted)

    def give_back(self, keys: Iterable[str]) -> None:
        """*keys* are done with their slots, or do not want them now."""
        self._return([held for key in keys if (held := self._state.leases.pop(key, None)) is not None])

    def _return(self, leases: Iterable[HeldLease]) -> None:
        by_pool: dict[str, list[str]] = {}
        for held in leases:
            for pool in held.pools[: held.granted + 1]:
                by_pool.setdefault(pool, []).append(held.lease_id)
        for pool, lease_ids in by_pool.items():
            self._give_back(pool, lease_ids)

    def _give_back(self, pool: str, lease_ids: list[str]) -> None:
        self._state.returning.setdefault(pool, []).extend(lease_ids)
        self._messages.tell(pool, PoolInterface.give_back, lease_ids)

    def _delivered(self, pool: str, message: Signal[[list[Any]]], leases: Sequence[Any]) -> None:
        """A message to a pool has arrived, or there is no such pool."""
        if message == PoolInterface.give_back and pool in self._state.returning:
            left = [lease_id for lease_id in self._state.returning.pop(pool) if lease_id not in leases]
            if left:
                self._state.returning[pool] = left

    def begin_anew(self) -> None:
        """Gives back what an execution that was ended from outside has held, or had on its way back."""
        if self._state.returning and workflow.patched("returns-what-was-on-its-way"):
            for pool, lease_ids in self._state.returning.items():
                self._messages.tell(pool, PoolInterface.give_back, lease_ids)
        self.give_back([*self._state.leases])

    def park(self, key: str) -> None:
        """*key* waits outside of a worker: its pools may count it or not."""
        held = self._state.leases.get(key)
        if held is not None:
            held.passable_until = None
            for pool in held.pools:
                self._messages.tell(pool, PoolInterface.park, [held.lease_id])

    def why(self, key: str) -> str | None:
        """What keeps *key* waiting that the plan does not know: a pool that is missing, or the last of several."""
        held = self._state.leases.get(key)
        if held is None or held.error is not None or held.granted == len(held.pools):
            return held.error if held is not None else None
        return parallelism_reached(self._state.parallelism) if held.pools[held.granted] == PARALLELISM else None

    # Messages

    def _request(self, key: str, held: HeldLease, pool: str) -> LeaseRequest:
        instance, run = self._state.instances[key], self._state.run
        shared = not pool.startswith(LIMIT)
        return LeaseRequest(
            lease_id=held.lease_id,
            holder=workflow.info().workflow_id,
            key=key,
            slots=self._task(key).pool_slots if shared else 1,
            priority_weight=self._plan.weights[instance.task_id],
            date=run.logical_date or run.run_after,
            map_index=instance.map_index,
            limit=None if shared else self._limit(pool, key),
            limit_as_of=self._state.started_at if pool == PARALLELISM else None,
        )

    async def _ask_pool(self, pool: str, requests: Sequence[LeaseRequest]) -> None:
        while True:
            try:
                await send(workflow.get_external_workflow_handle(pool), PoolInterface.ask(requests))
                return
            except FailureError:
                if pool.startswith(LIMIT):
                    await self._make_limit(pool, requests[0].key)
                    continue
                if pool == pool_workflow_id(SPARK_POOL):
                    await self._make(PoolState(name=SPARK_POOL, settings=SPARK_POOL_SETTINGS), pool)
                    continue
            waiting = [held for held in self.unanswered.values() if held.pools[held.granted] == pool]
            if not {held.lease_id for held in waiting} & {request.lease_id for request in requests}:
                return
            name = pool.removeprefix("pool:")
            for held in waiting:
                held.error = (
                    f"pool {name!r} does not exist. Make it with `tidemill pools set {name} SLOTS`; it was asked at "
                    f"{iso(workflow.now().replace(microsecond=0))}, and is again every {ASK_AGAIN.total_seconds():g} s"
                )
            await workflow.sleep(ASK_AGAIN)
            self._wake_run()

    async def _make_limit(self, pool: str, key: str) -> None:
        """A limit is a pool that is made when it is first asked."""
        description = f"max_active_tis_per_dag of {key}"
        if pool == PARALLELISM:
            description = "tasks of all DAGs: the setting parallelism of workers"
        settings = PoolSettings(
            slots=self._limit(pool, key) or 1, include_deferred=pool != PARALLELISM, description=description
        )
        await self._make(PoolState(name=pool, settings=settings), pool)

    def _limit(self, pool: str, key: str) -> int | None:
        return self._state.parallelism if pool == PARALLELISM else self._task(key).max_active_tis_per_dag

    def _pools_of(self, task: BaseTask) -> tuple[str, ...]:
        return tuple(pools_of(self._state.run.dag_id, task, self._state.parallelism))

    async def _make(self, state: PoolState, pool: str) -> None:
        try:
            await workflow.start_child_workflow(
                PoolInterface.workflow,
                state,
                id=pool,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            )
        except WorkflowAlreadyStartedError:
            return

    def _task(self, key: str) -> BaseTask:
        return self._state.spec.by_id[self._state.instances[key].task_id]

    def _slots_of(self, key: str) -> int:
        return self._task(key).pool_slots


def _may_be_passed_on(held: HeldLease) -> bool:
    until = held.passable_until
    return until is not None and held.granted == len(held.pools) and workflow.now() < until


def _earliest(held: HeldLease, answer: Granted) -> datetime | None:
    """Until when all pools that have let *held* in allow that it is passed on, the one of *answer* among them."""
    if not held.granted or held.passable_until is None or answer.passable_until is None:
        return answer.passable_until if not held.granted else None
    return min(held.passable_until, answer.passable_until)
