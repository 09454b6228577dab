"""What the web knows of DAGs and runs: asked of the service, each question once however many look."""

import time
from collections.abc import Sequence

from ...model.asset.events import AssetEvent
from ...model.asset.state import AssetView
from ...model.dag.row import DagRow, row_of_view
from ...model.dag.views import DagView
from ...model.run.row import RunRow
from ...model.run.state import DagRunState
from ...model.run.views import RunDetails, RunView
from ...model.spec.dag import DagSpec
from ...model.states import RunState
from ...worker.client import Tidemill
from ...worker.connection import NotFoundError
from ...worker.listing import run_rows
from ...worker.settings import Settings
from ..responses.dags import version_number
from .cache import Cache

SHORT = 1.0
"""How long an answer about what goes on is held, in seconds."""
LISTED = 2.0
PAUSES = 5
"""Between two listings there is so many times what one takes: with thousands of DAGs that is work."""
STALE = 60.0
"""How long a listing is shown while the next is on its way: that of thousands of DAGs takes seconds."""
OF_VIEW = (
    "is_paused", "is_stale", "has_import_errors", "next_dagrun_create_after", "active_runs", "queued_runs", "version",
    "bundle",
)  # fmt: skip
"""What a DAG's line and its own answer have in common."""
LONG = 3600.0
"""For what never changes: a version of a DAG, a run that has ended."""
RUNS_OF_VERSIONS = 25
MOST_RUNS = 1000
"""Runs of all DAGs that a list looks at, the newest first."""


class Source:
    """The one way of the web to what there is."""

    def __init__(self, tidemill: Tidemill, settings: Settings) -> None:
        self.tidemill, self.settings = tidemill, settings
        self._cache = Cache()
        self._changed: dict[str, float] = {}
        """When somebody changed a DAG here: lists may not show that yet."""
        self._listing_took = 0.0
        self.backfills_seen: dict[int, str] = {}
        """By the number that clients know it by, the DAG of a backfill."""

    def changed(self, dag_id: str) -> None:
        """Somebody has changed the DAG or a run of it: what is held of it is asked again."""
        for kind in ("view", "runs", "details", "state"):
            self._cache.forget(kind, dag_id)
        self._cache.forget("all_runs")
        self._changed[dag_id] = time.monotonic()

    async def rows(self) -> list[DagRow]:
        """A line for every DAG, by dag_id: as they were listed a moment ago, and what was changed here since."""

        async def ask() -> list[DagRow]:
            start = time.monotonic()
            found, _ = await self.tidemill.dags()
            self._listing_took = time.monotonic() - start
            return found

        listed = await self._cache.get(("rows",), ask, max(LISTED, PAUSES * self._listing_took), STALE)
        now = time.monotonic()
        self._changed = {dag_id: at for dag_id, at in self._changed.items() if now - at < STALE}
        changed = [row for row in listed if row.dag_id in self._changed]
        fresh = {row.dag_id: await self._row_now(row.dag_id, row) for row in changed}
        return [row for one in listed if (row := fresh.get(one.dag_id, one)) is not None]

    async def row(self, dag_id: str) -> DagRow:
        """The line of a DAG as it is now. Raises NotFoundError for one that is not there."""
        return row_of_view((await self.view(dag_id)).model_dump(mode="json"))

    async def _row_now(self, dag_id: str, listed: DagRow) -> DagRow | None:
        """Its line by its own answer; None if it is gone."""
        try:
            view = await self.view(dag_id)
        except NotFoundError:
            return None
        return listed.model_copy(update={name: getattr(view, name) for name in OF_VIEW})

    async def view(self, dag_id: str) -> DagView:
        """Raises NotFoundError for a DAG that is not there."""
        return await self._cache.get(("view", dag_id), lambda: self.tidemill.describe(dag_id), SHORT)

    async def spec(self, dag_id: str, version: str | None = None) -> DagSpec:
        """The version of the DAG that is in place; asked for once while *version* stays the same."""
        known = version or (await self.view(dag_id)).version
        found = await self._cache.get(("spec", dag_id, known), lambda: self.tidemill.spec(dag_id), LONG)
        if found.version != known:  # the line lags behind: what is in place now is another version
            self._cache.forget("spec", dag_id, known)
        return found

    async def spec_of(self, dag_id: str, number: int | None) -> DagSpec:
        """The version of that number, None for the one in place; of earlier ones, those that the newest runs have.

        Raises NotFoundError for a number that none of them has.
        """
        spec = await self.spec(dag_id)
        if number is None or version_number(spec) == number:
            return spec
        for run in (await self.runs(dag_id))[:RUNS_OF_VERSIONS]:
            state = await self.state(dag_id, run)
            if state is not None and version_number(state.spec) == number:
                return state.spec
        raise NotFoundError(f"DAG {dag_id!r} has no version {number}, nor have its last {RUNS_OF_VERSIONS} runs")

    async def runs(self, dag_id: str) -> list[RunView]:
        """The runs of a DAG, the newest first."""
        return await self._cache.get(("runs", dag_id), lambda: self.tidemill.runs(dag_id), SHORT)

    async def run(self, dag_id: str, run_id: str) -> RunView:
        """Raises NotFoundError for a run that is not there."""
        for view in await self.runs(dag_id):
            if view.run_id == run_id:
                return view
        return await self._cache.get(("runs", dag_id, run_id), lambda: self.tidemill.find_run(dag_id, run_id), LISTED)

    async def details(self, dag_id: str, run: RunView) -> RunDetails | None:
        """A run with its tasks; None while it is queued, and where Temporal has forgotten it."""
        if run.state is RunState.QUEUED:
            return None
        key = ("details", dag_id, run.run_id, run.state, run.ended_at)
        seconds = LONG if run.state.finished else SHORT
        try:
            return await self._cache.get(key, lambda: self.tidemill.run_by_workflow(run.workflow_id), seconds)
        except LookupError:
            return None

    async def state(self, dag_id: str, run: RunView) -> DagRunState | None:
        """All that a run knows, with its version of the DAG and the results that are in its history."""
        if run.state is RunState.QUEUED:
            return None
        key = ("state", dag_id, run.run_id, run.state, run.ended_at)
        seconds = LONG if run.state.finished else SHORT
        try:
            return await self._cache.get(key, lambda: self.tidemill.state_of(run.workflow_id), seconds)
        except LookupError:
            return None

    async def all_runs(self) -> list[RunRow]:
        """Runs of all DAGs that have begun, the newest first."""

        async def ask() -> list[RunRow]:
            return [row async for row in run_rows(self.tidemill.client, most=MOST_RUNS)]

        return await self._cache.get(("all_runs",), ask, LISTED, STALE)

    async def dag_ids(self, wanted: str) -> Sequence[str]:
        """The DAG *wanted*, or all of them for `~`. Raises NotFoundError for one that is not there."""
        if wanted == "~":
            return [row.dag_id for row in await self.rows()]
        await self.view(wanted)
        return [wanted]

    # Assets

    async def assets(self) -> list[str]:
        """The names of all assets."""
        return await self._cache.get(("assets",), self.tidemill.assets, LISTED)

    async def asset(self, name: str) -> AssetView:
        return await self._cache.get(("asset", name), lambda: self.tidemill.asset(name), LISTED)

    async def asset_events(self, name: str) -> list[AssetEvent]:
        """The last events of an asset, oldest first."""
        return await self._cache.get(("asset_events", name), lambda: self.tidemill.asset_events(name), LISTED)

    def asset_changed(self, name: str) -> None:
        """Somebody has told the asset of something."""
        self._cache.forget("asset", name)
        self._cache.forget("asset_events", name)
