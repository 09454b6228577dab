"""Assets: shows them, and tells them of events."""

import builtins
from typing import Any
from uuid import uuid4

from ...activities.calling import signal
from ...model.asset.events import AssetEvent
from ...model.asset.state import AssetView, ReportedEvent, asset_workflow_id
from ...model.asset.watching import WatcherView, watcher_workflow_id
from ...model.errors import InvalidInputError
from ...model.interfaces.asset import AssetInterface, WatcherInterface
from ...model.run.identity import RunIdentity, TriggeredBy, TriggerRequest
from ..service.connection import NotFoundError, clear_errors
from .caller import Caller
from .runs import Runs


class Assets:
    """The assets of an installation."""

    def __init__(self, caller: Caller, runs: Runs) -> None:
        self._caller = caller
        self._runs = runs

    async def describe(self, name: str) -> AssetView:
        """The asset, who writes it, who waits for it."""
        return await self._caller.ask(f"asset {name!r}", asset_workflow_id(name), AssetInterface.describe())

    async def events(self, name: str) -> builtins.list[AssetEvent]:
        """Its last events, oldest first."""
        return await self._caller.ask(f"asset {name!r}", asset_workflow_id(name), AssetInterface.events())

    async def watchers(self, name: str) -> builtins.list[WatcherView]:
        """What looks for events of an asset outside of tidemill."""
        views = []
        for watcher in (await self.describe(name)).watchers:
            try:
                what, workflow_id = f"watcher {watcher!r} of asset {name!r}", watcher_workflow_id(name, watcher)
                views.append(await self._caller.ask(what, workflow_id, WatcherInterface.describe()))
            except NotFoundError as error:  # somebody has ended it; the next registration begins it anew
                fields = {"asset": name, "name": watcher, "trigger": None, "found": 0, "last_found_at": None}
                views.append(WatcherView.model_validate({**fields, "error": str(error)}))
        return views

    async def pause(self, name: str, paused: bool = True) -> None:
        """Holds the asset's events back from DAGs, or has them told; its watchers rest meanwhile."""
        async with clear_errors(f"asset {name!r}", self._caller.task_queue):
            handle = self._caller.handle(asset_workflow_id(name))
            await signal(handle, AssetInterface.pause() if paused else AssetInterface.unpause())

    async def emit(
        self,
        name: str,
        *,
        extra: dict[str, Any] | None = None,
        partition_key: str | None = None,
        cause: str | None = None,
    ) -> AssetEvent | None:
        """Tells an asset of an event from outside. None if one of that *cause* is known already.

        Raises NotFoundError for an asset that nobody has named.
        """
        fields = {"extra": extra or {}, "partition_key": partition_key}
        event = ReportedEvent.model_validate({"cause": cause or f"client/{uuid4()}", **fields})
        return await self._caller.change(f"asset {name!r}", asset_workflow_id(name), AssetInterface.emit(event))

    async def materialize(self, name: str, request: TriggerRequest | None = None) -> RunIdentity:
        """Has the DAG run that writes the asset, as *request* says (Airflow: materialize an asset).

        Raises InvalidInputError if no DAG writes it, or several do.
        """
        producers = [*(await self.describe(name)).producers]
        if len(producers) != 1:
            text = f"is written by {', '.join(producers)}: trigger one of them" if producers else "is written by no DAG"
            raise InvalidInputError(f"asset {name!r} {text}")
        fields = {"run_type": "asset_materialization", "triggered_by": TriggeredBy.CLIENT}
        return await self._runs.trigger(producers[0], (request or TriggerRequest()).model_copy(update=fields))

    async def list(self) -> builtins.list[str]:
        """The names of all assets that somebody has named. Visibility may lag behind by a moment."""
        found = [id_ async for id_ in self._caller.running(AssetInterface)]
        return sorted(name.removeprefix("asset:") for name in found if name.startswith("asset:"))
