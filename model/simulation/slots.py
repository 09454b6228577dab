"""Who may run: pools as the engine's own keep them, and the slots of workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..pool.state import LeaseRequest, PoolSettings, PoolState
from .clock import Clock


@dataclass
class _Held:
    """A lease, and the pools that it is asked of, one after the other."""

    request: Callable[[str], LeaseRequest]
    pools: tuple[str, ...]
    let_in: Callable[[], bool]
    """Starts the task. False if it does not want to any more."""
    granted: int = 0


BEHIND_ALL_DAGS = 2**31
"""The turn of pools: all that is asked for at a moment is there when slots are given out."""
BEHIND_ALL_POOLS = BEHIND_ALL_DAGS + 1
"""The turn of counts: a wait that ends at the moment at which it begins is none, whoever else is in the world."""


class Pools:
    """The pools of a world, by the ids of their workflows."""

    def __init__(self, clock: Clock, settings: Mapping[str, PoolSettings]) -> None:
        self._clock = clock
        self._pools = {f"pool:{name}": PoolState(name=name, settings=each) for name, each in settings.items()}
        self._held: dict[str, _Held] = {}
        self.unknown: set[str] = set()
        """Pools that somebody has asked for and nobody has described: they are taken to be unlimited."""
        self.max_waiting: dict[str, int] = {}
        """By pool, how many tasks waited for its slots at the same time."""

    def ask(
        self, lease_id: str, pools: tuple[str, ...], request: Callable[[str], LeaseRequest], let_in: Callable[[], bool]
    ) -> None:
        """Asks *pools* for a lease, in turn; *let_in* is called when all have granted it."""
        self._held[lease_id] = _Held(request, pools, let_in)
        self._ask_next(lease_id)

    def give_back(self, lease_id: str) -> None:
        """The task is done with its slots, or wants none any more."""
        held = self._held.pop(lease_id, None)
        for name in held.pools[: held.granted + 1] if held is not None else ():
            self._pools[name].give_back([lease_id])
            self._grant_soon(name)

    def park(self, lease_id: str) -> None:
        """The task waits outside of a worker: its pools may count it or not."""
        held = self._held[lease_id]
        for name in held.pools:
            self._pools[name].park([lease_id])
            self._grant_soon(name)

    def _ask_next(self, lease_id: str) -> None:
        held = self._held[lease_id]
        name = held.pools[held.granted]
        if name not in self._pools:
            self._pools[name] = PoolState(name=name, settings=PoolSettings(slots=-1))
            if name.startswith("pool:"):
                self.unknown.add(name.removeprefix("pool:"))
        self._pools[name].ask(held.request(name))
        self._grant_soon(name)

    def _grant_soon(self, name: str) -> None:
        self._clock.at(self._clock.now, lambda: self._grant(name), BEHIND_ALL_DAGS)

    def _grant(self, name: str) -> None:
        granted = self._pools[name].grant(self._clock.now)
        self._clock.at(self._clock.now, lambda: self._count_waiting(name), BEHIND_ALL_POOLS)
        for request in granted:
            held = self._held.get(request.lease_id)
            if held is None:
                continue
            held.granted += 1
            if held.granted < len(held.pools):
                self._ask_next(request.lease_id)
            elif not held.let_in():
                self.give_back(request.lease_id)

    def _count_waiting(self, name: str) -> None:
        pool = self._pools[name]
        self.max_waiting[pool.name] = max(len(pool.waiting), self.max_waiting.get(pool.name, 0))


class WorkerSlots:
    """How many tasks run at a time on all workers; who comes first is served first, as by a task queue."""

    def __init__(self, slots: int | None) -> None:
        self._slots = self._free = slots
        self._waiting: deque[Callable[[], bool]] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether no task has one."""
        return self._free == self._slots

    def take(self, start: Callable[[], bool]) -> None:
        """Calls *start* as soon as a slot is free; it answers False if its task wants none any more."""
        if self._free is None:
            start()
        elif self._free > 0:
            self._free -= 1
            start()
        else:
            self._waiting.append(start)

    def give_back(self) -> None:
        """A task is done with its slot."""
        if self._free is None:
            return
        while self._waiting:
            if self._waiting.popleft()():
                return
        self._free += 1
