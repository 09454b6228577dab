"""What the web knows of DAGs and runs: asked of the service, each question once however many look."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar
from urllib.parse import quote

from ...activities.attempts.key_values import KeyValues
from ...model.asset.events import AssetEvent
from ...model.asset.state import AssetView
from ...model.dag.records import KnownVersion
from ...model.dag.row import DagRow, row_of_view
from ...model.dag.views import DagView, whole_row
from ...model.run.changes import marked_while_queued
from ...model.run.row import RunRow
from ...model.run.state import DagRunState
from ...model.run.views import RunDetails, RunView, details_of_unbegun, queued_details
from ...model.spec.dag import DagSpec
from ...model.states import RunState
from ...worker.client import Tidemill
from ...worker.service.connection import NotFoundError
from ...worker.service.listing import run_rows
from ...worker.settings.reading import Settings
from ...worker.supervision.attempt_starts import AttemptStart
from .cache import Cache
from .concurrency import SILENT, after_change, each
from .database import ArchiveError
from .ended_runs import ROUGHLY, EndedRun, RunArchive
from .favourites import Favourites
from .notes import Key, Notes, begin_notes
from .replays import Replays

DELETING = timedelta(minutes=2)
"""So long Temporal may take to delete a history that it was asked to."""
T = TypeVar("T")
log = logging.getLogger(__name__)
SHORT = 1.0
"""How long an answer about what goes on is held, in seconds."""
LISTED = 2.0
PAUSES = 5
"""Between two listings there is so many times what one takes: with thousands of DAGs that is work."""
STALE = 60.0
"""How long a listing is shown while the next is on its way: that of thousands of DAGs takes seconds."""
LONG = 3600.0
"""For what never changes: a version of a DAG, a run that has ended."""
SEEN_TIMEOUT, LOOKS_FIRST, LOOKS_LAST = 5.0, 0.1, 1.0
"""In seconds: a run that has ended is changed by another execution of its workflow, which takes a moment."""
RUNS_OF_VERSIONS = 25
A_WHILE = 60.0
MAX_STATES, MAX_DETAILS, MAX_SPECS = 32, 300, 1000
"""How many of each are held in memory: a run's state may have megabytes."""
MAX_CACHED = 20_000
"""How many ended runs a server's own file holds where there is no archive."""
MAX_ARCHIVED = 1000
"""How many archived runs of a DAG, or of all, a list shows beside those that Temporal knows."""
MAX_RUNS = 1000
"""Runs of all DAGs that a list looks at, the newest first."""


class _GoesOnError(Exception):
    """A run has not ended after all: it was cleared, and runs again."""


class CachedClient:
    """The one way of the web to what there is."""

    def __init__(self, tidemill: Tidemill, settings: Settings) -> None:
        self.tidemill, self.settings = tidemill, settings
        self.values = KeyValues.beside(settings.results_url)
        """What tasks keep by themselves: state, and variables where nobody has a key."""
        self.replays = Replays()
        self._cache = Cache()
        self._states, self._details, self._specs = Cache(MAX_STATES), Cache(MAX_DETAILS), Cache(MAX_SPECS)
        self.keeps_all = settings.archive is not None
        """Whether runs are shown that Temporal has forgotten."""
        archive = settings.archive.get_secret_value() if settings.archive is not None else None
        self.ended = RunArchive(
            archive or _own_file(settings, "web.db"), tidemill.client, None if self.keeps_all else MAX_CACHED
        )
        self.notes = Notes(archive or _own_file(settings, "notes.db"), tidemill.client)
        self.favourites = Favourites(archive or _own_file(settings, "notes.db"), tidemill.client.namespace)
        self._changed: dict[str, float] = {}
        """When somebody changed a DAG here: lists may not show that yet."""
        self._to_delete: set[tuple[str, str]] = set()
        """Runs, and with "" whole DAGs, that the archive could not be told of."""
        self._listing_took = 0.0
        self._forgotten: dict[tuple[str, str], datetime] = {}
        """When which runs were deleted here; of a DAG, with an empty run_id. Temporal lists them for a while."""
        self.backfills_seen: dict[int, str] = {}
        """By the number that clients know it by, the DAG of a backfill."""

    async def _if_it_answers(self, query: Awaitable[T], otherwise: T) -> T:
        """What the archive says, or *otherwise*: it never hides what Temporal knows, and fails nobody's change."""
        try:
            return await query
        except ArchiveError as error:
            log.warning("%s", error)
            return otherwise

    @property
    def archive_problem(self) -> str | None:
        """Why runs are missing that Temporal has forgotten; None: none are, or there is no archive."""
        return self.ended.problem if self.keeps_all else None

    async def changed(self, dag_id: str, run_id: str | None = None) -> None:
        """Somebody has changed the DAG or a run of it: what is held of it is asked again."""
        for kind in ("view", "runs"):
            self._cache.forget(kind, dag_id)
        for held in (self._states, self._details):
            held.forget(dag_id)
        self._specs.forget("run", dag_id)
        if run_id is not None:
            await self._if_it_answers(self.ended.forget(dag_id, run_id), None)  # its new end is another one anyway
        self._cache.forget("all_runs")
        self._changed[dag_id] = time.monotonic()

    async def begin(self) -> None:
        """Opens its databases. Raises InvalidInputError for an archive that cannot be used."""
        await self.ended.begin()
        for written_down in (self.notes, self.favourites):
            await begin_notes(written_down, in_archive=self.keeps_all)

    def close(self) -> None:
        """Ends the connections to its databases."""
        self.ended.close()
        self.notes.close()
        self.favourites.close()

    async def write_note(self, keys: Collection[Key], note: str | None, *, beside: bool) -> None:
        """Keeps or removes a note; *beside* a change, which stands whatever becomes of the note. Else: ArchiveError."""
        written = self.notes.write(keys, note)
        await (self._if_it_answers(written, None) if beside else written)

    async def note(self, keys: Collection[Key], note: str | None) -> None:
        """Keeps a note that came with a change, which stands whatever becomes of the note."""
        if note:
            await self._if_it_answers(self.notes.write(keys, note), None)

    async def runs_with_note(self, dag_id: str) -> frozenset[str]:
        """The runs of a DAG that have a note of their own."""
        return await self._if_it_answers(self.notes.runs_with(dag_id), frozenset())

    async def tasks_with_note(self, dag_id: str, run_id: str) -> frozenset[str]:
        """The tasks of a run that have a note."""
        return await self._if_it_answers(self.notes.tasks_with(dag_id, run_id), frozenset())

    async def favourites_of(self, person: str, *, has_to_know: bool = False) -> frozenset[str]:
        """Return the dag_ids that *person* has marked.

        Where the archive does not answer: none of them, or ArchiveError if the caller *has to know*.
        """
        marked = self.favourites.of(person)
        return await (marked if has_to_know else self._if_it_answers(marked, frozenset()))

    async def until(self, dag_id: str, run_id: str, is_so: Callable[[RunDetails], bool]) -> None:
        """Waits, for a few seconds at most, until a change of a run can be seen: who has made it is answered by it."""
        until, pause = time.monotonic() + SEEN_TIMEOUT, LOOKS_FIRST
        while time.monotonic() < until:
            with suppress(*SILENT, LookupError):  # it goes on as another execution
                if is_so(await self.tidemill.runs.describe(dag_id, run_id)):
                    break
            await asyncio.sleep(pause)
            pause = min(2 * pause, LOOKS_LAST)
        await self.changed(dag_id, run_id)

    async def deleted(self, dag_id: str, run_id: str = "", *, only_there: bool = False) -> int:
        """Somebody has deleted a run here, or the DAG: the archive forgets it, too. How many runs that had.

        One that does not answer is told later, unless the run is *only there*: then it raises ArchiveError.
        """
        await self.changed(dag_id)
        now = datetime.now(UTC)
        self._forgotten = {key: at for key, at in self._forgotten.items() if now - at < DELETING}
        self._forgotten[dag_id, run_id] = now
        await self._if_it_answers(self.notes.forget(dag_id, run_id), None)
        if not run_id:
            await self._if_it_answers(self.favourites.forget(dag_id), None)
        try:
            return await self.ended.delete(dag_id, run_id)
        except ArchiveError:
            if only_there:
                raise
            self._to_delete.add((dag_id, run_id))
            return 0

    def _is_forgotten(self, dag_id: str, run: RunView | RunRow) -> bool:
        """Whether a run that Temporal still lists was deleted here; one that was made since is another."""
        known = [self._forgotten[key] for key in ((dag_id, run.run_id), (dag_id, "")) if key in self._forgotten]
        at = [one for one in known if datetime.now(UTC) - one < DELETING]
        made = run.started_at or run.run_after
        return bool(at) and (made is None or made <= max(at))

    def _is_deleted(self, dag_id: str, run_id: str) -> bool:
        return not self._to_delete.isdisjoint([(dag_id, run_id), (dag_id, "")])

    async def delete_what_was_meant(self) -> None:
        """Has the archive forget what was deleted while it did not answer. Raises ArchiveError if it still does not."""
        for dag_id, run_id in sorted(self._to_delete):
            await self.ended.delete(dag_id, run_id)
            self._to_delete.discard((dag_id, run_id))

    async def rows(self) -> list[DagRow]:
        """A line for every DAG, by dag_id: as they were listed a moment ago, and what was changed here since."""

        async def ask() -> list[DagRow]:
            start = time.monotonic()
            found, _ = await self.tidemill.dags.list()
            cut = [row for row in found if row.lacks_texts]
            whole = {row.dag_id: row for row in await each(cut, self._whole, _as_listed)}
            self._listing_took = time.monotonic() - start
            return [whole.get(row.dag_id, row) for row in found]

        listed = await self._cache.get(("rows",), ask, max(LISTED, PAUSES * self._listing_took), STALE)
        now = time.monotonic()
        self._changed = {dag_id: at for dag_id, at in self._changed.items() if now - at < STALE}
        changed = [row for row in listed if row.dag_id in self._changed]
        if not changed:
            return listed
        fresh = {row.dag_id: row for row in await each(changed, self._row_now, _as_listed)}
        gone = {row.dag_id for row in changed} - {*fresh}
        return [fresh.get(row.dag_id, row) for row in listed if row.dag_id not in gone]

    async def row(self, dag_id: str) -> DagRow:
        """The line of a DAG as it is now. Raises NotFoundError for one that is not there."""
        return row_of_view((await self.view(dag_id)).model_dump(mode="json"))

    async def _row_now(self, listed: DagRow) -> DagRow:
        """Its line by its own answer. Raises NotFoundError if it is gone."""
        row = await self.row(listed.dag_id)
        return listed.model_copy(update={name: getattr(row, name) for name in row.model_fields_set})

    async def _whole(self, row: DagRow) -> DagRow:
        return whole_row(row, await self.spec(row.dag_id, row.version))

    async def view(self, dag_id: str) -> DagView:
        """Raises NotFoundError for a DAG that is not there."""
        return await self._cache.get(("view", dag_id), lambda: self.tidemill.dags.describe(dag_id), SHORT)

    async def spec(self, dag_id: str, version: str | None = None) -> DagSpec:
        """The version of the DAG that is in place; asked for once while *version* stays the same."""
        known = version or (await self.view(dag_id)).version

        async def ask() -> DagSpec:
            if (kept := await self._if_it_answers(self.ended.spec(dag_id, known), None)) is not None:
                return kept
            fresh = await self.tidemill.dags.spec(dag_id)
            await self._if_it_answers(self.ended.keep_spec(fresh), None)
            return fresh

        found = await self._specs.get((dag_id, known), ask, LONG)
        if found.version != known:  # the line lags behind: what is in place now is another version
            self._specs.forget(dag_id, known)
        return found

    async def display_name(self, dag_id: str) -> str:
        """What people read in the place of the dag_id; that where its DAG is silent or gone."""
        return await after_change(self._display_name(dag_id), lambda: dag_id)

    async def _display_name(self, dag_id: str) -> str:
        try:
            return (await self.spec(dag_id)).display_name
        except NotFoundError:
            return dag_id

    async def versions(self, dag_id: str) -> tuple[KnownVersion, ...]:
        """The versions that the DAG remembers, the one in place at the end; none where it is silent or gone."""

        async def ask() -> tuple[KnownVersion, ...]:
            try:
                return (await self.view(dag_id)).versions
            except NotFoundError:
                return ()

        return await after_change(ask(), lambda: ())

    async def spec_of(self, dag_id: str, number: int | None) -> DagSpec:
        """The version of that number, None for the one in place; of earlier ones, those that the newest runs have.

        Raises NotFoundError for a number that the DAG does not remember, or that none of them has.
        """
        spec, known = await self.spec(dag_id), {one.version_number: one.version for one in await self.versions(dag_id)}
        if number is None or known.get(number) == spec.version:
            return spec
        if number not in known:
            raise NotFoundError(f"DAG {dag_id!r} has no version {number}: it remembers {', '.join(map(str, known))}")
        for run in (await self.runs(dag_id))[:RUNS_OF_VERSIONS]:
            found = await self.run_spec(dag_id, run)
            if found is not None and found.version == known[number]:
                return found
        raise NotFoundError(f"version {number} of DAG {dag_id!r} is kept by its runs, and none of the last has it")

    async def runs(self, dag_id: str) -> list[RunView]:
        """The runs of a DAG, the newest first."""
        return await self._cache.get(("runs", dag_id), partial(self._runs_now, dag_id), SHORT)

    async def _runs_now(self, dag_id: str) -> list[RunView]:
        listed = await self.tidemill.runs.list(dag_id)
        if not self.keeps_all:
            return listed
        known = {run.run_id for run in listed}
        archived = await self._if_it_answers(self.ended.runs(dag_id, MAX_ARCHIVED), [])
        kept = (run for run in archived if not self._is_deleted(dag_id, run.run_id))
        return listed + [run for run in kept if run.run_id not in known]

    async def runs_of_row(self, row: DagRow) -> list[RunView]:
        """The same, as of a DAG's line: asked for once while that stays the same."""
        key = ("runs", row.dag_id, "of", row.model_dump_json())
        return await self._cache.get(key, partial(self._runs_now, row.dag_id), A_WHILE)

    async def run(self, dag_id: str, run_id: str) -> RunView:
        """Raises NotFoundError for a run that is not there."""
        for view in await self.runs(dag_id):
            if view.run_id == run_id:
                return view

        async def ask() -> RunView:
            try:
                found = await self.tidemill.runs.find(dag_id, run_id)
                if self._is_forgotten(dag_id, found):
                    raise NotFoundError(f"run {run_id!r} of DAG {dag_id!r} was deleted")
                return found
            except NotFoundError:
                kept = await self.ended.find(dag_id, run_id) if self.keeps_all else None
                if kept is None:
                    raise
                return kept.view

        return await self._cache.get(("runs", dag_id, run_id), ask, LISTED)

    async def details(self, dag_id: str, run: RunView) -> RunDetails | None:
        """A run with its tasks; None where Temporal has forgotten it."""

        async def ask() -> RunDetails:
            return (await self._ended(dag_id, run)).details

        async def ask_now() -> RunDetails:
            queued = await self._queued(dag_id, run)
            return (
                queued_details(*queued)
                if queued is not None
                else await self.tidemill.runs.describe_workflow(run.workflow_id)
            )

        found = await self._of_run(self._details, dag_id, run, ask, ask_now)
        return details_of_unbegun(dag_id, run, await self.spec(dag_id)) if found is None and run.never_began else found

    async def state(self, dag_id: str, run: RunView) -> DagRunState | None:
        """All that a run knows, with its version of the DAG and the results that are in its history."""

        async def ask() -> DagRunState:
            return (await self._ended(dag_id, run)).state

        async def ask_now() -> DagRunState:
            if (queued := await self._queued(dag_id, run)) is not None:
                return queued[0]
            return await self.tidemill.runs.state(run.workflow_id)

        return await self._of_run(self._states, dag_id, run, ask, ask_now)

    async def _queued(self, dag_id: str, run: RunView) -> tuple[DagRunState, str] | None:
        """How a run that has not begun stands, and what it waits for; of the DAG that is known: many may be queued."""
        if run.state is not RunState.QUEUED:
            return None
        found = await self.tidemill.runs.queued(dag_id, run.run_id)
        if found is None:
            return None
        return marked_while_queued(found.run, await self.spec(dag_id), found.marks), found.why

    async def _of_run(
        self,
        held: Cache,
        dag_id: str,
        run: RunView,
        of_ended: Callable[[], Awaitable[T]],
        now: Callable[[], Awaitable[T]],
    ) -> T | None:
        """What there is of a run that has ended, else what it answers now; None where Temporal has forgotten it."""
        key = _key(dag_id, run)
        try:
            if run.state.finished and run.ended_at is not None:
                with suppress(_GoesOnError):
                    return await held.get(key, of_ended, LONG)
            return await held.get((*key, "now"), partial(_or_none, now), SHORT)
        except LookupError:
            return None

    async def of_ended(self, what: str, dag_id: str, run: RunView, ask: Callable[[], Awaitable[T]]) -> T:
        """What *ask* makes of a run; of one that has ended it is asked for once."""
        if not run.state.finished or run.ended_at is None:
            return await ask()
        return await self._cache.get((what, *_key(dag_id, run)), ask, LONG)

    async def starts(self, dag_id: str, run: RunView) -> list[AttemptStart] | None:
        """Which workers have begun the tries of a run; None where Temporal has forgotten it."""
        if run.state is RunState.QUEUED:
            return []
        seconds = A_WHILE if run.state.finished else SHORT
        try:
            ask = partial(self.tidemill.runs.attempt_starts, run.workflow_id)
            return await self._states.get((*_key(dag_id, run), "starts"), ask, seconds)
        except LookupError:
            return None

    def temporal_link(self, workflow_id: str) -> str | None:
        """The page of a workflow in Temporal's own user interface, where that is known."""
        if self.settings.temporal_ui is None:
            return None
        namespace, quoted = quote(self.tidemill.client.namespace, safe=""), quote(workflow_id, safe="")
        return f"{self.settings.temporal_ui.rstrip('/')}/namespaces/{namespace}/workflows/{quoted}"

    async def run_spec(self, dag_id: str, run: RunView) -> DagSpec | None:
        """The version of the DAG that a run has; None where `details` has none."""

        async def ask() -> DagSpec | None:
            state = await self.state(dag_id, run)
            if state is None and run.never_began:
                return await self.spec(dag_id)
            # One object for all runs of a version.
            return await self._specs.get((dag_id, state.spec.version), _is(state.spec), LONG) if state else None

        return await self._specs.get(("run", *_key(dag_id, run)), ask, LONG if run.state.finished else A_WHILE)

    async def _ended(self, dag_id: str, run: RunView, *, has_to_keep: bool = False) -> EndedRun:
        """What there is of a run that has ended, kept by then if that can be. Raises LookupError for one that is gone.

        With *has_to_keep* also ArchiveError, where it could not be kept.
        """
        query = self.ended.find(dag_id, run.run_id, run.ended_at)
        kept = await (query if has_to_keep else self._if_it_answers(query, None))
        if kept is None:
            try:
                details, state = await asyncio.gather(
                    self.tidemill.runs.describe_workflow(run.workflow_id), self.tidemill.runs.state(run.workflow_id)
                )
            except LookupError:
                kept = await self.ended.find(dag_id, run.run_id, run.ended_at, ROUGHLY)
                if kept is None:
                    raise
                return kept
            if not details.state.finished:
                raise _GoesOnError(f"run {run.run_id!r} of DAG {dag_id!r} has been cleared meanwhile")
            kept = EndedRun(run, details, state)
            keeping = self.ended.keep(kept)
            await (keeping if has_to_keep else self._if_it_answers(keeping, None))
        return kept

    async def archive(self, row: RunRow) -> bool:
        """Keeps a run that has ended; whether it was not kept yet. Raises LookupError for one that is gone."""
        if row.ended_at is not None and await self.ended.has(row.dag_id, row.run_id, row.ended_at):
            return False
        run = await self.run(row.dag_id, row.run_id)
        if not run.state.finished or run.ended_at is None:
            return False
        try:
            await self._ended(row.dag_id, run, has_to_keep=True)
        except _GoesOnError:
            return False
        return True

    async def all_runs(self) -> list[RunRow]:
        """Runs of all DAGs that have begun, the newest first."""

        async def ask() -> list[RunRow]:
            found = [row async for row in run_rows(self.tidemill.client, limit=MAX_RUNS)]
            listed = [row for row in found if row.dag_id is None or not self._is_forgotten(row.dag_id, row)]
            if not self.keeps_all:
                return listed
            known = {(row.dag_id, row.run_id) for row in listed}
            archived = await self._if_it_answers(self.ended.rows(MAX_ARCHIVED), [])
            kept = (row for row in archived if not self._is_deleted(row.dag_id, row.run_id))
            return listed + [row for row in kept if (row.dag_id, row.run_id) not in known]

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
        return await self._cache.get(("assets",), self.tidemill.assets.list, LISTED)

    async def asset(self, name: str) -> AssetView:
        return await self._cache.get(("asset", name), lambda: self.tidemill.assets.describe(name), LISTED)

    async def asset_events(self, name: str) -> list[AssetEvent]:
        """The last events of an asset, oldest first."""
        return await self._cache.get(("asset_events", name), lambda: self.tidemill.assets.events(name), LISTED)

    def asset_changed(self, name: str) -> None:
        """Somebody has told the asset of something."""
        self._cache.forget("asset", name)
        self._cache.forget("asset_events", name)


def _key(dag_id: str, run: RunView) -> tuple[str, str, RunState, datetime | None]:
    """What tells the answers of a run from those that it gives when it has moved."""
    return dag_id, run.run_id, run.state, run.ended_at


async def _or_none(ask: Callable[[], Awaitable[T]]) -> T | None:
    """What is answered; None of a run that is not there."""
    try:
        return await ask()
    except LookupError:
        return None


async def _as_listed(row: DagRow) -> DagRow:
    """The line of a DAG that is silent."""
    return row


def _is(spec: DagSpec) -> Callable[[], Awaitable[DagSpec]]:
    async def answer() -> DagSpec:
        return spec

    return answer


def _own_file(settings: Settings, name: str) -> str:
    home = settings.web_home
    with suppress(OSError):  # then nothing is kept, and it is told at the start
        home.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{home / name}"
