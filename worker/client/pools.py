"""Pools of slots."""

import builtins

from ...activities.calling import starting, update_with_start
from ...model.errors import InUseError
from ...model.interfaces.pool import PoolInterface
from ...model.names import check_pool_name
from ...model.pool.state import PARALLELISM, PoolSettings, PoolState, PoolView, pool_workflow_id
from ..service.connection import UPDATE_TIMEOUT, clear_errors
from .caller import Caller


class Pools:
    """The pools of an installation."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def configure(self, name: str, settings: PoolSettings) -> PoolView:
        """Makes a pool, or changes it. Slots that are held stay held. Raises InvalidInputError for a bad name."""
        check_pool_name(name)
        state = PoolState(name=name, settings=settings)
        start = starting(PoolInterface, state, pool_workflow_id(name), self._caller.task_queue)
        async with clear_errors(f"pool {name!r}", self._caller.task_queue):
            call = PoolInterface.set(settings)
            return await update_with_start(self._caller.client, start, call, rpc_timeout=UPDATE_TIMEOUT)

    async def describe(self, name: str) -> PoolView:
        return await self._caller.ask(f"pool {name!r}", pool_workflow_id(name), PoolInterface.describe())

    async def delete(self, name: str) -> None:
        """Ends a pool. Raises InUseError while somebody holds slots of it or waits for some.

        A limit is made again when a task asks for it.
        """
        view = await self.describe(name)
        if view.holders or view.queued:
            used = ", ".join([*view.holders, *view.queued][:5])
            raise InUseError(f"pool {name!r} is in use by {used}. Wait for them, or set its slots to 0")
        async with clear_errors(f"pool {name!r}", self._caller.task_queue):
            await self._caller.handle(pool_workflow_id(name)).terminate("deleted")

    async def list(self) -> builtins.list[PoolView]:
        """Every pool that a person has made, by name, and the limit of the installation, where there is one."""
        ids = [id_ async for id_ in self._caller.running(PoolInterface)]
        names = sorted(id_.removeprefix("pool:") for id_ in ids if id_.startswith("pool:") or id_ == PARALLELISM)
        return [await self.describe(name) for name in names]
