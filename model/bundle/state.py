"""A bundle of DAG files over time: which file is parsed when, whose each DAG is, and what its DAG has to be told.

Pure decisions over plain data; the `DagBundle` workflow carries them out.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from pydantic import Field

from ..base import Instant, OmitDefaults, Record, iso
from .data import (
    CHANGING,
    BundleSettings,
    BundleView,
    DagFileState,
    FileView,
    Listing,
    ListQuestion,
    ParseQuestion,
    ParseResult,
)

COMPARE_EVERY = timedelta(minutes=5)
"""How often it is looked whether DAGs are what they were registered as."""
REGISTER_AGAIN = timedelta(minutes=1)
PARSE_AGAIN = timedelta(seconds=30)
SETTLING_PAUSE = timedelta(seconds=1)
"""A file that changed while it was parsed is given so much time before it is parsed once more."""


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


class FileRecord(OmitDefaults, Record):
    """A DAG file."""

    listed: str
    """The digest of its content as it was listed last."""
    digest: str | None = None
    """The digest that was parsed last."""
    parsed_at: Instant | None = None
    seconds: float | None = None
    parses: int = 0
    dags: dict[str, str] = {}
    """Versions by dag_id, as of the last parse that went well."""
    error: str | None = None
    trouble: str | None = None
    """Why it could not be parsed, where that is not the file's fault. It is tried again."""
    extras: tuple[str, ...] = ()
    forced: bool = False


class OwnedDag(OmitDefaults, Record):
    """A DAG of the bundle."""

    path: str
    registered: str | None = None
    """The version that its file had when its workflow took it on."""
    in_place: str | None = None
    """The version that its workflow has said that it has: an equal DAG keeps the one that it had."""
    gone_since: Instant | None = None
    """Since when no file defines it."""
    reported: DagFileState = Field(DagFileState(), alias="told")
    error: str | None = None
    """Why it could not be registered."""
    register_after: Instant | None = None
    """When it is tried again, if its workflow could not be asked."""


class BundleState(Record):
    """All that is known of a bundle. Only its workflow changes it."""

    settings: BundleSettings
    files: dict[str, FileRecord] = {}
    dags: dict[str, OwnedDag] = {}
    digest: str | None = None
    revision: str | None = None
    listed_at: Instant | None = None
    problem: str | None = None
    """Why the folder could not be listed. Then everything stays as it is."""
    warnings: tuple[str, ...] = ()
    executions: int = 1
    compared_at: Instant | None = None
    """When the DAGs were last looked at, or registered for the first time."""
    removals_since: Instant | None = None
    """Since when most of the files are gone, which is not believed yet."""
    removals_confirmed: bool = False
    """Whether a person has said that they are meant to be gone."""
    compare_now: bool = False
    """Whether somebody has asked for it."""

    # Listing

    def list_question(self) -> ListQuestion:
        extras = {path: record.extras for path, record in self.files.items() if record.extras}
        return ListQuestion(settings=self.settings, known=self.digest, extras=extras)

    def next_listing(self) -> datetime | None:
        """When the folder is listed next; None: now."""
        return None if self.listed_at is None else self.listed_at + self.settings.dag_dir_list_interval

    def take_listing(self, listing: Listing, now: datetime, requested_at: datetime | None = None) -> None:
        """Takes note of the files that are there.

        A file that was parsed since *requested_at* is known better than the listing knows it: it is looked at again.
        Most files are not believed to be gone at once, and none that may be where nobody could look.
        """
        self.listed_at, self.problem, self.warnings = now, None, listing.warnings
        self.compared_at = self.compared_at or now
        self.digest, self.revision = listing.digest, listing.revision
        if listing.files is None:
            return
        passed_over = {path for path in listing.passed_over if not self._has_dags(path)}
        files = {path: digest for path, digest in listing.files.items() if path not in passed_over}
        for path in [path for path in self.files if path in passed_over]:
            del self.files[path]  # it is there, and is no file of DAGs
        gone = [path for path in self.files if path not in files]
        gone = [path for path in gone if not any(_is_below(path, folder) for folder in listing.unreadable)]
        for path in self._believed(gone, len(files), now):
            del self.files[path]
        for path, digest in files.items():
            record = self.files.get(path)
            if record is None:
                self.files[path] = FileRecord(listed=digest)
            elif requested_at is not None and record.parsed_at is not None and record.parsed_at >= requested_at:
                self.digest = None
            else:
                record.listed = digest
        self._settle(now)

    def _has_dags(self, path: str) -> bool:
        return path in self.files and bool(self.files[path].dags)

    def _believed(self, gone: list[str], left: int, now: datetime) -> list[str]:
        """Return the files that are taken for removed: none, while few are *left* and nobody has confirmed it.

        Files that have other names now are no loss, and what a commit says of its repository is meant.
        """
        few = (left == 0 and len(gone) > 1) or (len(gone) > 2 and 2 * left < len(self.files))
        if not few or self.removals_confirmed or self.settings.kind == "git":
            self.removals_since, self.removals_confirmed = None, False
            return gone
        self.removals_since = self.removals_since or now
        until = self.removals_since + self.settings.mass_removal_threshold
        if now >= until:
            self.removals_since = None
            return gone
        self.problem = (
            f"{left} of {len(self.files)} files are left in {self.settings.path}: is everything "
            f"mounted there? Until {iso(until)} the DAGs of the others stay as they are. If they are meant to be gone: "
            f"tidemill bundles refresh {self.settings.name} --all-removed"
        )
        self.digest = None  # the next listing is to tell of all files again
        return []

    def confirm_removals(self) -> None:
        """Have the next listing believed, however many files it has left."""
        self.removals_confirmed, self.digest = True, None

    def cannot_list(self, problem: str, now: datetime) -> None:
        self.listed_at, self.problem = now, problem

    def configure(self, settings: BundleSettings) -> None:
        """Look after the bundle otherwise from now on. Whose names it owns is told to its DAGs by parsing them anew."""
        if settings.owns != self.settings.owns:
            for record in self.files.values():
                record.forced = True
        self.settings, self.digest = settings, None

    # Parsing

    def wants_parse(self, path: str) -> bool:
        record = self.files[path]
        return record.forced or record.digest != record.listed

    def may_parse(self, path: str) -> datetime | None:
        """When *path* may be parsed again at the earliest; None: at once."""
        record = self.files[path]
        if record.forced or record.parsed_at is None:
            return None
        pause = self.settings.min_file_process_interval
        if record.trouble is not None:
            pause = max(pause, PARSE_AGAIN)
        elif record.digest == CHANGING:
            pause = max(pause, SETTLING_PAUSE)
        return record.parsed_at + pause

    @property
    def unparsed(self) -> list[str]:
        """Files whose content has not been parsed yet: not those that were, and are for some reason once more."""
        return [path for path in self.files if self.wants_parse(path) and self.files[path].digest != CHANGING]

    def next_parses(self, now: datetime, under_way: Collection[str]) -> list[str]:
        """The files to parse now: those that were parsed longest ago first, and never one that is being parsed."""
        room = self.settings.parsing_processes - len(under_way)
        wanted = [
            path
            for path in self.files
            if path not in under_way and self.wants_parse(path) and (self.may_parse(path) or now) <= now
        ]
        wanted.sort(key=lambda path: (self.files[path].parsed_at is not None, self.files[path].parsed_at or now, path))
        return wanted[: max(0, room)]

    def force(self, paths: Collection[str] | None = None) -> None:
        """Has files parsed whether they have changed or not, and their DAGs asked that could not be; None: all.

        What was refused is asked once more: whose a DAG is may have been changed.
        """
        for path, record in self.files.items():
            record.forced = record.forced or paths is None or path in paths
        for owned in self.dags.values():
            if paths is None or owned.path in paths:
                owned.register_after = None
                if owned.error is not None:
                    owned.registered = None
        self.compare_now = True

    def parse_question(self, path: str) -> ParseQuestion:
        extras = self.files[path].extras
        return ParseQuestion(settings=self.settings, path=path, revision=self.revision, extras=extras)

    def parsed(self, path: str, result: ParseResult, now: datetime) -> None:
        """Takes note of what a file defines, or of what is wrong with it. Its last good DAGs are kept then."""
        record = self.files.get(path)
        if record is None:
            return  # removed meanwhile
        record.digest, record.parsed_at, record.seconds = result.digest, now, round(result.seconds, 3)
        record.parses, record.forced, record.error = record.parses + 1, False, result.error
        record.trouble, record.extras = None, result.extras
        if result.digest not in (CHANGING, record.listed):
            # Newer than the listing, or older: only the next one can tell, and has to look at everything for it.
            record.listed, self.digest = result.digest, None
        if result.error is None:
            record.dags = {dag.dag_id: dag.version for dag in result.dags}
        self._settle(now)

    def not_parsed(self, path: str, reason: str, now: datetime) -> None:
        """The file could not be parsed, and not for its own fault: all stays as it is, and it is tried again."""
        record = self.files.get(path)
        if record is not None:
            record.digest, record.parsed_at, record.forced = CHANGING, now, False
            record.trouble = f"it could not be parsed, and is tried again: {reason}"

    # DAGs

    def _settle(self, now: datetime) -> None:
        """Whose each DAG is: of the file that had it already, else of the first one that defines it."""
        claims: dict[str, list[str]] = {}
        for path in sorted(self.files):
            for dag_id in self.files[path].dags:
                claims.setdefault(dag_id, []).append(path)
        for dag_id, paths in claims.items():
            owned = self.dags.get(dag_id)
            if owned is None:
                self.dags[dag_id] = OwnedDag(path=paths[0])
            else:
                owned.path = owned.path if owned.path in paths else paths[0]
                owned.gone_since = None
        for dag_id, owned in self.dags.items():
            if dag_id not in claims and owned.gone_since is None:
                owned.gone_since = now

    def error_of(self, path: str) -> str | None:
        """What is wrong with a file: it cannot be imported, or defines a DAG that another file defines, too."""
        record = self.files[path]
        if record.error is not None or record.trouble is not None:
            return record.error or record.trouble
        problems = []
        for dag_id in record.dags:
            owned = self.dags[dag_id]
            if owned.path != path:
                problems.append(
                    f"dag_id {dag_id!r} is defined by {owned.path} and by {path}. Rename or remove one of them"
                )
            elif owned.error is not None:
                problems.append(f"DAG {dag_id!r}: {owned.error}")
        return "; ".join(problems) or None

    def registrations(self, now: datetime, under_way: Collection[str]) -> dict[str, list[str]]:
        """By file, the DAGs whose workflow has another version than the file, and is to be asked now."""
        wanted: dict[str, list[str]] = {}
        for dag_id, owned in self.dags.items():
            due = owned.register_after is None or owned.register_after <= now
            if due and owned.path not in under_way and self._has_new_version(dag_id, owned):
                wanted.setdefault(owned.path, []).append(dag_id)
        return wanted

    def _has_new_version(self, dag_id: str, owned: OwnedDag) -> bool:
        record = self.files.get(owned.path)
        version = record.dags.get(dag_id) if record is not None else None
        return version is not None and version != owned.registered

    def version_of(self, path: str, dag_id: str) -> str:
        return self.files[path].dags[dag_id]

    def registered(self, dag_id: str, version: str, error: str | None, in_place: str | None = None) -> None:
        """The DAG's workflow has *version* now, which it calls *in_place*, or refuses it."""
        owned = self.dags[dag_id]
        owned.registered, owned.error, owned.register_after = version, error, None
        owned.in_place = in_place

    def to_compare(self) -> dict[str, str]:
        """Return the versions of the DAGs that the bundle has registered, as their workflows have called them."""
        return {
            dag_id: owned.in_place
            for dag_id, owned in self.dags.items()
            if owned.in_place is not None and owned.gone_since is None
        }

    def next_comparison(self) -> datetime | None:
        """Return when DAGs are to be looked at again; None: now."""
        return None if self.compare_now or self.compared_at is None else self.compared_at + COMPARE_EVERY

    def compared(self, strays: Collection[str], requested: dict[str, str], now: datetime) -> None:
        """Take note of DAGs that are not what was *requested*: they are registered again, and told of their files.

        One that is refused is refused again, which nothing but its file or a person can change: it stays as it is.
        """
        self.compared_at, self.compare_now = now, False
        for dag_id in strays:
            owned = self.dags.get(dag_id)
            if owned is not None and owned.error is None and owned.in_place == requested[dag_id]:
                owned.registered, owned.in_place, owned.reported = None, None, DagFileState()

    def not_registered(self, dag_id: str, reason: str, now: datetime) -> None:
        """The DAG's workflow could not be asked. Its file is parsed again, too, lest its version be lost."""
        owned = self.dags[dag_id]
        owned.error, owned.register_after = reason, now + REGISTER_AGAIN
        if owned.path in self.files:
            self.files[owned.path].forced = True

    def file_states(self, now: datetime) -> dict[str, DagFileState]:
        """What DAGs have to be told of their files, because they were told something else last."""
        changed = {}
        for dag_id, owned in self.dags.items():
            state = self._file_state(owned, now)
            # What is mended or back goes on with its new version, not with the one before.
            too_early = state.holds_up is False and self._has_new_version(dag_id, owned)
            if owned.registered is not None and state != owned.reported and not too_early:
                changed[dag_id] = state
        return changed

    def _file_state(self, owned: OwnedDag, now: datetime) -> DagFileState:
        if owned.gone_since is not None:
            stale = now >= owned.gone_since + self.settings.stale_dag_threshold
            return DagFileState(bundle=self.settings.name, is_stale=True) if stale else owned.reported
        record = self.files.get(owned.path)
        error = record.error if record is not None else None
        stops = error is None or self.settings.on_import_error == "stop"
        return DagFileState(bundle=self.settings.name if error is not None else None, import_error=error, stops=stops)

    def record_states(self, states: dict[str, DagFileState]) -> None:
        for dag_id, state in states.items():
            self.dags[dag_id].reported = state

    # Time

    def next_wake(self, now: datetime, under_way: Collection[str]) -> datetime | None:
        """When something has to be done next if nothing happens before; None: only when something happens.

        What is due already is under way, or waits for what is.
        """
        times = [self.next_listing() or now]
        waiting = (path for path in self.files if path not in under_way and self.wants_parse(path))
        times += [self.may_parse(path) or now for path in waiting]
        gone = (o.gone_since for o in self.dags.values() if o.gone_since is not None and not o.reported.is_stale)
        times += [since + self.settings.stale_dag_threshold for since in gone]
        if self.to_compare():
            times.append(self.next_comparison() or now)
        times += [owned.register_after for owned in self.dags.values() if owned.register_after is not None]
        return min((time for time in times if time > now), default=None)

    # Views

    def view(self) -> BundleView:
        return BundleView(
            settings=self.settings,
            files=len(self.files),
            dags=sum(owned.gone_since is None for owned in self.dags.values()),
            stale=sum(owned.reported.is_stale for owned in self.dags.values()),
            errors=sum(self.error_of(path) is not None for path in self.files),
            waiting=sum(self.wants_parse(path) for path in self.files),
            revision=self.revision,
            listed_at=self.listed_at,
            problem=self.problem,
            warnings=self.warnings,
        )

    def file_views(self) -> list[FileView]:
        return [
            FileView(
                bundle=self.settings.name,
                path=path,
                dags=tuple(record.dags),
                parsed_at=record.parsed_at,
                seconds=record.seconds,
                parses=record.parses,
                error=self.error_of(path),
            )
            for path, record in sorted(self.files.items())
        ]
