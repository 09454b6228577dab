"""What a simulated run meets: the time, what is assumed, and what it shares with others."""

from .assumptions import Assumptions
from .clock import Clock
from .slots import Pools, WorkerSlots
from .spans import TrySpan


class Surroundings:
    """The part of a world that its runs know."""

    def __init__(self, clock: Clock, assumptions: Assumptions) -> None:
        self.clock = clock
        self.assumptions = assumptions
        self.pools = Pools(clock, assumptions.pools)
        self.slots = WorkerSlots(assumptions.worker_slots)
        self.leases_made = 0
        self.tries: list[TrySpan] = []
        """Of the present busy period."""
