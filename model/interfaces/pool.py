"""The messages of a pool's workflow."""

from collections.abc import Sequence

from ..pool.state import LeaseRequest, PoolSettings, PoolView
from .calls import Interface, Query, Signal, Update


class PoolInterface(Interface):
    """What a pool answers to."""

    workflow = "Pool"
    ask: Signal[[Sequence[LeaseRequest]]]
    give_back: Signal[[list[str]]]
    park: Signal[[list[str]]]
    passed_on: Signal[[list[LeaseRequest]]]
    set: Update[[PoolSettings], PoolView]
    describe: Query[[], PoolView]
