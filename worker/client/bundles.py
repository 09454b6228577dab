"""Bundles of DAG files."""

import builtins
from collections.abc import Sequence

from temporalio.client import WorkflowUpdateFailedError

from ...activities.calling import starting, update_with_start
from ...model.bundle.data import BundleSettings, BundleView, FileView, bundle_workflow_id
from ...model.bundle.state import BundleState
from ...model.interfaces.bundle import BundleInterface
from ..service.connection import REFRESH_TIMEOUT, UPDATE_TIMEOUT, clear_errors, is_under_way_elsewhere
from .caller import Caller


class Bundles:
    """The bundles of DAG files that are looked after."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def configure(self, settings: BundleSettings) -> BundleView:
        """Has a folder or repository looked after, or changes how it is."""
        workflow_id, state = bundle_workflow_id(settings.name), BundleState(settings=settings)
        start = starting(BundleInterface, state, workflow_id, self._caller.task_queue)
        async with clear_errors(f"bundle {settings.name!r}", self._caller.task_queue):
            call = BundleInterface.configure(settings)
            return await update_with_start(self._caller.client, start, call, rpc_timeout=UPDATE_TIMEOUT)

    async def describe(self, name: str) -> BundleView:
        """How the bundle *name* is."""
        return await self._caller.ask(f"bundle {name!r}", bundle_workflow_id(name), BundleInterface.describe())

    async def files(self, bundle: str) -> builtins.list[FileView]:
        """The files of a bundle, with what is wrong with them."""
        return await self._caller.ask(f"bundle {bundle!r}", bundle_workflow_id(bundle), BundleInterface.files())

    async def refresh(self, name: str, paths: Sequence[str] = (), *, all_removed: bool = False) -> BundleView:
        """Has files parsed now, changed or not; returns when their DAGs are registered.

        *all_removed*: most of the files may be gone, and are meant to be.
        """
        async with clear_errors(f"bundle {name!r}", self._caller.task_queue):
            if all_removed:
                await self._caller.update(bundle_workflow_id(name), BundleInterface.confirm_removals())
            try:
                call = BundleInterface.refresh([*paths])
                return await self._caller.update(bundle_workflow_id(name), call, rpc_timeout=REFRESH_TIMEOUT)
            except WorkflowUpdateFailedError as error:
                if not is_under_way_elsewhere(error):
                    raise
        await self.look(name)  # what is to be parsed is known already
        return await self.describe(name)

    async def look(self, name: str) -> builtins.list[FileView]:
        """Has changed files parsed now; returns when their DAGs are registered."""
        async with clear_errors(f"bundle {name!r}", self._caller.task_queue):
            while True:
                try:
                    call = BundleInterface.look_now()
                    return await self._caller.update(bundle_workflow_id(name), call, rpc_timeout=REFRESH_TIMEOUT)
                except WorkflowUpdateFailedError as error:
                    if not is_under_way_elsewhere(error):
                        raise

    async def delete(self, name: str) -> None:
        """Looks after the files no more. Their DAGs stay as they are."""
        async with clear_errors(f"bundle {name!r}", self._caller.task_queue):
            await self._caller.handle(bundle_workflow_id(name)).terminate("deleted")

    async def list(self) -> builtins.list[BundleView]:
        """Every bundle that is looked after, by name."""
        names = sorted([id_.removeprefix("bundle:") async for id_ in self._caller.running(BundleInterface)])
        return [await self.describe(name) for name in names]
