"""A pool: slots that tasks of any run and any DAG share, and who gets the next one.

The same holds what one task may have active over all runs of its DAG (max_active_tis_per_dag):
such a limit is a pool of its own.
"""

from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import ClassVar

from pydantic import Field, PositiveInt

from ..base import Instant, Model, OmitDefaults, OmitNewDefaults, Record, Request, iso
from ..names import LIMIT
from ..run.instance_keys import UNMAPPED
from ..run.ready_tasks import counts_in_parallelism
from ..spec.tasks import BaseTask
from ..workflow_ids import SHORTENED, bounded, of_dag

UNLIMITED = -1
RETURNED_KEPT = 500
PASS_ON, PLENTY = timedelta(seconds=5), 32
"""How long a run may pass slots on from task to task by itself, and how many have to be free for it to do so."""
PARALLELISM = f"{LIMIT}parallelism"
"""The limit of the installation: each task that needs a worker takes one slot (Airflow: `[core] parallelism`)."""


class PoolSettings(Request):
    """What a person says of a pool."""

    slots: int = Field(ge=-1)
    """How many there are; -1: no limit."""
    description: str | None = None
    include_deferred: bool = False
    """Whether a task that waits outside of a worker keeps its slots."""


SPARK_POOL_SETTINGS = PoolSettings(slots=128, description="Spark tasks that name no pool; made when first asked")
"""As many as Airflow's default pool has."""


class LeaseRequest(OmitNewDefaults, Model):
    """An instance of a task that asks to be let in. Sent again, it is the same request."""

    later_fields: ClassVar[tuple[str, ...]] = ("limit_as_of",)

    lease_id: str
    holder: str
    """The workflow id of the run, which is told when the lease is granted."""
    key: str
    slots: PositiveInt = 1
    priority_weight: int = 1
    date: Instant
    """The run's logical date, or its run_after where it has none."""
    map_index: int = UNMAPPED
    limit: int | None = None
    """How many slots the pool has from now on, where it is a limit."""
    limit_as_of: Instant | None = None
    """When `limit` was set: an older one does not replace a newer one. None: it always replaces."""

    @property
    def order(self) -> tuple[int, Instant, int, str]:
        """Heaviest first, then the oldest run, then by map_index (as in Airflow)."""
        return (-self.priority_weight, self.date, self.map_index, self.lease_id)


class Granted(OmitDefaults, Model):
    """A pool's answer to a run: which of its requests have their slots."""

    pool: str
    lease_ids: tuple[str, ...]
    passable_until: Instant | None = None
    """Until when the run may pass the slots on from one of its tasks to another by itself. None: not at all."""


class RunLeases(Model):
    """What one run, or all runs together, have of a pool: what a pool cannot know that was ended, and made again."""

    held: tuple[LeaseRequest, ...] = ()
    waiting: tuple[LeaseRequest, ...] = ()


class Lease(Record):
    """Slots that are held."""

    request: LeaseRequest
    since: Instant
    parked: bool = False
    """Whether the task waits outside of a worker at present."""


class PoolView(Model):
    """A pool as it is shown; the names of the counts are Airflow's."""

    name: str
    settings: PoolSettings
    occupied_slots: int
    open_slots: int | None
    """None where there is no limit."""
    holders: tuple[str, ...]
    queued: tuple[str, ...]


class PoolState(OmitNewDefaults, Record):
    """A pool's state. Only its workflow changes it."""

    later_fields: ClassVar[tuple[str, ...]] = ("limit_as_of", "again", "returned")

    name: str
    settings: PoolSettings
    held: dict[str, Lease] = {}
    waiting: dict[str, LeaseRequest] = {}
    limit_as_of: Instant | None = None
    """When the number of slots was set, where the pool is a limit that says so."""
    again: list[str] = []
    """Leases that are held and whose holder has asked again: it gets the same answer."""
    returned: list[str] = []
    """The last leases that were given back before they were asked for: two messages may arrive in either order."""

    @property
    def occupied(self) -> int:
        counted = self.settings.include_deferred
        return sum(lease.request.slots for lease in self.held.values() if counted or not lease.parked)

    def holds(self, request: LeaseRequest) -> bool:
        """Whether *request* has its slots already, and takes them up at present."""
        lease = self.held.get(request.lease_id)
        return lease is not None and not lease.parked

    def ask(self, request: LeaseRequest) -> None:
        """Takes *request* on. A run that may have missed the answer asks again: after continue-as-new, or a reset.

        What it holds it keeps, and is answered again: its task may have started meanwhile.
        """
        self._follow_limit(request)
        if self.holds(request):
            self.again.append(request.lease_id)
            return
        self.held.pop(request.lease_id, None)
        self.waiting[request.lease_id] = request

    def was_returned(self, request: LeaseRequest) -> bool:
        """Return whether *request* has been given back already: its asking was overtaken, and nobody wants it."""
        return request.lease_id in self.returned

    def forget_return(self, request: LeaseRequest) -> None:
        """Take *request* on when it is asked for once more: a run that was reset uses its numbers again."""
        self.returned = [lease_id for lease_id in self.returned if lease_id != request.lease_id]

    def _follow_limit(self, request: LeaseRequest) -> None:
        if request.limit is None:
            return
        if request.limit_as_of is not None:
            if self.limit_as_of is not None and request.limit_as_of < self.limit_as_of:
                return
            self.limit_as_of = request.limit_as_of
        self.settings = self.settings.model_copy(update={"slots": request.limit})

    def recover(self, leases: RunLeases, now: Instant, given_back: Collection[str] = ()) -> None:
        """Take note of who holds slots that an earlier pool of the name has granted, and of who has asked that one.

        *given_back* are leases that their runs have had and do not want any more.
        """
        for request in leases.held:
            if request.lease_id not in given_back:
                self.waiting.pop(request.lease_id, None)
                self.held.setdefault(request.lease_id, Lease(request=request, since=now))
        for request in leases.waiting:
            if request.lease_id not in given_back and request.lease_id not in self.held:
                self.ask(request)

    def give_back(self, lease_ids: Iterable[str]) -> None:
        """The instance is done with its slots, or wants none any more."""
        for lease_id in lease_ids:
            if self.held.pop(lease_id, None) is None and self.waiting.pop(lease_id, None) is None:
                self.returned = [*self.returned, lease_id][-RETURNED_KEPT:]

    def park(self, lease_ids: Iterable[str]) -> None:
        """The instances wait outside of a worker."""
        for lease_id in lease_ids:
            if lease_id in self.held:
                self.held[lease_id].parked = True

    def grant(self, now: Instant) -> list[LeaseRequest]:
        """Gives out what is free. A request that is too big for that is passed over, and smaller ones go before it."""
        granted = [self.held[lease_id].request for lease_id in self.again if lease_id in self.held]
        self.again.clear()
        free = self._free()
        if free is not None and free <= 0:
            return granted
        for request in sorted(self.waiting.values(), key=lambda request: request.order):
            if free is not None and request.slots > free:
                continue
            if free is not None:
                free -= request.slots
            del self.waiting[request.lease_id]
            self.held[request.lease_id] = Lease(request=request, since=now)
            granted.append(request)
        return granted

    def passable_until(self, now: Instant) -> Instant | None:
        """Return until when runs may pass on what is granted at *now*; None: too few slots are free for that."""
        free = self._free()
        plenty = free is None or free >= max(PLENTY, self.settings.slots // 2)
        return now + PASS_ON if plenty and not self.waiting else None

    def pass_on(self, requests: Iterable[LeaseRequest]) -> None:
        """Take note that slots are held by other tasks of their runs now; what has been given back stays so."""
        for request in requests:
            if (lease := self.held.get(request.lease_id)) is not None:
                lease.request = request

    def _free(self) -> int | None:
        return None if self.settings.slots == UNLIMITED else self.settings.slots - self.occupied

    def forget(self, holder: str) -> None:
        """The run *holder* has ended: nothing is held for it."""
        mine = [lease.request.lease_id for lease in self.held.values() if lease.request.holder == holder]
        mine += [request.lease_id for request in self.waiting.values() if request.holder == holder]
        self.give_back(mine)

    @property
    def holders(self) -> list[str]:
        """The runs that hold slots or wait for some."""
        requests = [*(lease.request for lease in self.held.values()), *self.waiting.values()]
        return sorted({request.holder for request in requests})

    def view(self) -> PoolView:
        free = self._free()
        return PoolView(
            name=self.name,
            settings=self.settings,
            occupied_slots=self.occupied,
            open_slots=None if free is None else max(0, free),
            holders=tuple(
                f"{lease.request.holder} {lease.request.key} ({lease.request.slots}, since {iso(lease.since)})"
                for lease in self.held.values()
            ),
            queued=tuple(
                f"{request.holder} {request.key} ({request.slots}, priority {request.priority_weight})"
                for request in sorted(self.waiting.values(), key=lambda request: request.order)
            ),
        )


def pool_workflow_id(name: str) -> str:
    """The workflow of a pool, or of a limit, whose name is its workflow id."""
    return name if name.startswith(LIMIT) else bounded(f"pool:{name}")


def limit_workflow_id(dag_id: str, task_id: str) -> str:
    """The pool of max_active_tis_per_dag of one task."""
    return of_dag(LIMIT.removesuffix(":"), dag_id, task_id)


def dag_of_limit(workflow_id: str) -> str | None:
    """Return the DAG whose task a limit is of, by the limit's workflow id.

    None: a pool, a limit of all DAGs, or one whose id has only a part of the DAG's.
    """
    if not workflow_id.startswith(LIMIT) or workflow_id == PARALLELISM:
        return None
    dag_id = workflow_id.removeprefix(LIMIT).partition(":")[0]
    return dag_id if SHORTENED not in dag_id else None


def pools_of(dag_id: str, task: BaseTask, parallelism: int | None = None) -> list[str]:
    """The pools that have to let *task* in. Always in one order, so that two tasks never wait for each other.

    The installation's slots come last: a task that waits for a narrow pool takes none of them.
    """
    pools = [limit_workflow_id(dag_id, task.task_id)] if task.max_active_tis_per_dag is not None else []
    if task.pool is not None:
        pools.append(pool_workflow_id(task.pool))
    if parallelism is not None and counts_in_parallelism(task):
        pools.append(PARALLELISM)
    return pools
