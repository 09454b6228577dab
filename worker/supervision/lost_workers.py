"""Tells Temporal of tasks whose worker is gone with its host: where workers share a store, or where it is asked for.

Workers report to Temporal by themselves (worker heartbeats, apart from those of activities). One that no longer does,
while the service has answered its observer all the time, is gone, or cut off alone: what it had under way begins
elsewhere, after it was told to end it where workers share a store (`fence.py`). Where the service itself is away nobody
reports, and nobody is taken for lost.
"""

import asyncio
import logging
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256

from temporalio.api.enums.v1 import PendingActivityState, WorkerStatus
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import GetSystemInfoRequest, ListWorkersRequest
from temporalio.client import Client, WorkflowExecution
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ...activities.attempts.supervision import cut_off
from .fence import ANSWERS, Fence

ANSWER_TIMEOUT = timedelta(seconds=10)
REPORTS = 5
"""How often a worker reports within the time after which it is taken for lost, and is looked for."""
OBSERVERS = 5
"""So many workers look for lost ones all the time; what each lists grows with their number."""
SPARE_LOOKS_EVERY = 60.0
"""About how often, in seconds, the others look for a moment whether those are still there."""
POLLS_LAST, BEGINS_AGAIN_EVERY = 90.0, 10.0
"""In seconds: so long the service may hand tasks to a worker that is gone, and so often it is looked for them."""
WITH_TASKS = 'ExecutionStatus = "Running" AND WorkflowType IN ("DagRun", "Watcher")'
UNSUPPORTED = (RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.PERMISSION_DENIED)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Report:
    """What the service lists of a worker: when it reported last, by its own clock, in nanoseconds."""

    key: str
    identity: str
    reported: int
    interval: float = 0.0
    """How long before it had reported, in seconds; 0 where it has only reported once."""
    is_running: bool = True
    process: str = ""
    """One process has several workers."""


@dataclass
class Reports:
    """Which workers have stopped to report. Counts by the observer's clock alone, so that no clock has to agree."""

    lost_after: float
    are_known_to_report: bool = False
    """Whether each worker says elsewhere how often it reports; else its reports have to show it."""
    _intervals: dict[str, float] = field(default_factory=dict)
    """The shortest time between two reports by the worker's key, in seconds: a busy one may report late."""
    _changed: dict[str, tuple[int, float]] = field(default_factory=dict)
    """The last report by the worker's key, and when it was first seen."""
    _observed: float | None = None
    _handled: set[str] = field(default_factory=set)
    _alive: set[str] = field(default_factory=set)
    """The identities that were not silent when it was looked last."""

    def observe(self, listed: Sequence[Report], now: float) -> list[str]:
        """Returns the identities of processes that have been silent for `lost_after` seconds, while it was looked.

        *now* is monotonic, in seconds. After a gap, as when the service was away, all begin anew. Who reports too
        rarely to be missed, or is about to end by itself, is not lost; nor is one whose identity another process has.
        """
        if self._observed is None or now - self._observed > self.lost_after / 2:
            self._changed.clear()
        self._observed = now
        keys = {one.key for one in listed}
        self._handled &= keys
        self._intervals = {key: value for key, value in self._intervals.items() if key in keys}
        before, self._changed = self._changed, {}
        lost: dict[tuple[str, str], bool] = {}
        alive: set[str] = set()
        for one in listed:
            reported, since = before.get(one.key, (one.reported, now))
            self._changed[one.key] = (one.reported, now if reported != one.reported else since)
            is_silent = now - self._changed[one.key][1] >= self.lost_after
            if not is_silent:
                alive.add(one.identity)
            process = (one.identity, one.process)
            is_missed = one.is_running and self._reports_often(one) and one.key not in self._handled
            lost[process] = lost.get(process, True) and is_silent and is_missed
        self._alive = alive
        return sorted({identity for (identity, _), is_lost in lost.items() if is_lost} - alive)

    def is_observer(self, identity: str) -> bool:
        """Whether *identity* is one of the few that look all the time: by their names, so that all agree."""
        chosen = sorted(self._alive, key=lambda one: sha256(one.encode()).digest())[:OBSERVERS]
        return identity in chosen or identity not in self._alive

    def _reports_often(self, one: Report) -> bool:
        if self.are_known_to_report:
            return True
        shortest = min(one.interval or math.inf, self._intervals.get(one.key, math.inf))
        self._intervals[one.key] = shortest
        return shortest <= self.lost_after / 2

    def handled(self, identity: str, listed: Sequence[Report]) -> None:
        """Has what is listed of *identity* not returned again."""
        self._handled |= {one.key for one in listed if one.identity == identity}


class Lookout:
    """One worker's part in looking for lost ones: a few of all look all the time, the others now and then."""

    def __init__(self, client: Client, lost_after: float, fence: Fence | None) -> None:
        self._client, self._fence = client, fence
        self._reports = Reports(lost_after, are_known_to_report=fence is not None)
        self._pause = lost_after / REPORTS
        self._looks_from = time.monotonic()
        """Until then only whether Temporal answers."""
        self._has_answered = True
        self._beginning: dict[str, asyncio.Task[None]] = {}
        """By lost one, what has its tasks begin elsewhere."""

    async def look(self) -> None:
        """Looks once, and acts on what it finds. Raises RPCError where the service lists no workers."""
        listed = await self._listed()
        if self._fence is not None:
            await self._fence.heed(reaches_temporal=listed is not None)
        if not listed:
            return
        lost = self._reports.observe(listed, time.monotonic())
        ended = lost if self._fence is None else await self._fence.ended(lost)
        await self._follow(ended, listed)
        has_looked = time.monotonic() - self._looks_from > 2 * self._reports.lost_after
        has_work = bool(lost) or (self._fence is not None and self._fence.has_put_out)
        if has_looked and not has_work and not self._reports.is_observer(self._client.identity):
            self._looks_from = time.monotonic() + random.uniform(0.5, 1.5) * SPARE_LOOKS_EVERY

    async def _listed(self) -> list[Report] | None:
        """What is listed, nothing for one that need not look now; None where Temporal does not answer."""
        looks = time.monotonic() >= self._looks_from
        request = list_reports(self._client) if looks else _nothing_if_reached(self._client)
        timeout = self._reports.lost_after / ANSWERS
        problem: Exception | str = f"Temporal did not answer within {timeout:.1f} s"
        try:
            found = await asyncio.wait_for(request, timeout)
        except RPCError as error:
            if error.status in UNSUPPORTED:
                raise
            found, problem = None, error
        except TimeoutError:
            found = None
        if self._has_answered and found is None:
            log.warning("lost workers cannot be looked for: %s; looking again", problem)
        self._has_answered = found is not None
        return found

    async def _begin_elsewhere(self, identity: str) -> None:
        """Begins its tasks elsewhere, also those that the service hands to a poll that it has left open."""
        until = time.monotonic() + POLLS_LAST
        while time.monotonic() < until:
            await asyncio.sleep(random.uniform(0, self._pause))
            try:
                await begin_elsewhere(self._client, identity)
            except Exception as error:
                log.warning("tasks of %s, which is gone, could not be begun elsewhere: %s", identity, error)
            await asyncio.sleep(BEGINS_AGAIN_EVERY)

    async def _follow(self, ended: Sequence[str], listed: Sequence[Report]) -> None:
        """Has tasks of *ended* begin elsewhere, beside looking; those of others no longer."""
        for identity in [one for one in self._beginning if one not in ended]:
            self._beginning.pop(identity).cancel()
        for identity in ended:
            if identity not in self._beginning:
                self._beginning[identity] = asyncio.create_task(self._begin_elsewhere(identity))
            elif self._beginning[identity].done():
                self._reports.handled(identity, listed)
                if self._fence is not None:
                    await self._fence.forget(identity)

    def close(self) -> None:
        """Ends what it has begun."""
        for task in self._beginning.values():
            task.cancel()
        cut_off.clear()  # nobody would any more


async def look_after_lost_workers(client: Client, lost_after: timedelta, fence: Fence | None = None) -> None:
    """Looks until it is cancelled; whatever goes wrong is tried again. Ends where the service lists no workers.

    *fence*: what the worker shares with others, so that one that is cut off ends its tasks before they begin elsewhere.
    """
    seconds = lost_after.total_seconds()
    lookout = Lookout(client, seconds, fence)
    try:
        while True:
            try:
                await lookout.look()
            except Exception as error:
                if isinstance(error, RPCError) and error.status in UNSUPPORTED:
                    log.warning("workers that are lost cannot be told: the service lists no workers (%s)", error)
                    return
                log.warning("lost workers could not be looked for: %s; looking again", error)
            await asyncio.sleep(seconds / REPORTS)
    finally:
        lookout.close()


async def _nothing_if_reached(client: Client) -> list[Report]:
    await client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=ANSWER_TIMEOUT)
    return []


async def list_reports(client: Client) -> list[Report]:
    """Lists what workers of the namespace have reported. Raises RPCError."""
    found: list[Report] = []
    request = ListWorkersRequest(namespace=client.namespace, page_size=1000)
    while True:
        answer = await client.workflow_service.list_workers(request, timeout=ANSWER_TIMEOUT)
        for one in answer.workers_info:
            beat = one.worker_heartbeat
            running = beat.status == WorkerStatus.WORKER_STATUS_RUNNING
            found.append(
                Report(
                    key=beat.worker_instance_key,
                    identity=beat.worker_identity,
                    reported=beat.heartbeat_time.ToNanoseconds(),
                    interval=beat.elapsed_since_last_heartbeat.ToNanoseconds() / 1e9,
                    is_running=running,
                    process=beat.host_info.worker_grouping_key,
                )
            )
        if not answer.next_page_token:
            return found
        request.next_page_token = answer.next_page_token


async def begin_elsewhere(client: Client, identity: str) -> None:
    """Fails the starts that *identity* has under way, so that Temporal starts them elsewhere. Raises RPCError."""
    async for listed in client.list_workflows(WITH_TASKS, rpc_timeout=ANSWER_TIMEOUT):
        handle = client.get_workflow_handle(listed.id, run_id=listed.run_id)
        try:
            described = await handle.describe(rpc_timeout=ANSWER_TIMEOUT)
            for pending in described.raw_description.pending_activities:
                if pending.last_worker_identity == identity:
                    await _begin_elsewhere(client, listed, pending)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:  # it has ended meanwhile
                raise


async def _begin_elsewhere(client: Client, run: WorkflowExecution, pending: PendingActivityInfo) -> None:
    handle = client.get_async_activity_handle(workflow_id=run.id, run_id=run.run_id, activity_id=pending.activity_id)
    if pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED:
        await handle.report_cancellation(rpc_timeout=ANSWER_TIMEOUT)
    elif pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED:
        message = f"no worker finished the attempt: the one that had it, {pending.last_worker_identity}, is gone"
        await handle.fail(ApplicationError(message, type="WorkerLost"), rpc_timeout=ANSWER_TIMEOUT)
    else:
        return
    log.warning("%s is gone: activity %s of %s begins again", pending.last_worker_identity, pending.activity_id, run.id)
