"""What a DAG's workflow keeps, as plain data that travels through continue-as-new."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

from pydantic import Field, PrivateAttr

from ..asset.gathering import Gathering
from ..asset.partitioning import Partitioning
from ..asset.state import Tie
from ..base import Instant, OmitNewDefaults, Record
from ..bundle.data import DagFileState
from ..run.identity import RunIdentity
from ..spec.dag import DagSpec
from ..spec.timetables import DagRunInfo, DataInterval
from .backfills import Backfill
from .records import DecisionKind, KnownVersion, MadeDecision, RunRecord, TrackedRun

DECISIONS_KEPT = 10
DATES_KEPT = 5000
VERSIONS_KEPT = 50


class DagData(OmitNewDefaults, Record):
    """The fields of a DAG's state, and what all decisions about it share."""

    later_fields: ClassVar[tuple[str, ...]] = ("gathering", "partitioning", "ties", "assigned_to", "counted_versions")

    _noting: Callable[[MadeDecision], None] | None = PrivateAttr(default=None)

    spec: DagSpec
    is_paused: bool = False
    broken: str | None = None
    file: DagFileState = DagFileState()
    """How the file is that defines the DAG."""
    registered_at: Instant
    last_automated_interval: DataInterval | None = None
    resume_at: Instant | None = None
    """Where the present schedule takes over from another: no interval of it begins earlier."""
    ticks: tuple[DagRunInfo, ...] = ()
    ticks_ended: bool = False
    ticks_requested_at: Instant | None = Field(None, alias="ticks_asked_at")
    runs: dict[str, TrackedRun] = {}
    ledger: list[RunRecord] = []
    triggers: list[Any] = []
    """Triggers that have arrived and were not looked at yet."""
    backfills: list[Backfill] = []
    backfills_made: int = 0
    start_date_moves: int = 0
    """How often a new version moved the start_date on before there was a first run."""
    dates: dict[str, str] = {}
    """run_id by key, of runs made out of order: what the high-water mark does not tell."""
    deleted: list[str] = []
    """Keys of runs that were deleted, the last ones: Temporal may take a while to forget their workflows."""
    decisions: list[MadeDecision] = []
    last_update: int = Field(0, alias="news")
    """The number of the last message to a run."""
    gathering: Gathering | None = None
    """What the DAG has gathered of the assets that it waits for."""
    partitioning: Partitioning | None = None
    """Its partitions that are not complete."""
    ties: dict[str, Tie] = {}
    """By asset, what its workflow has been told that this DAG has to do with it."""
    assigned_to: str | None = None
    """The bundle that alone may register the DAG, as a person has said; "": no bundle; None: nobody has said so."""
    counted_versions: tuple[KnownVersion, ...] = ()
    """The versions up to the one in place, the oldest first: empty as long as that is the first."""
    executions: int = 1

    @property
    def held_up(self) -> str | None:
        """Why no run is created or started at present, whatever the schedule says; None if nothing is in the way."""
        if self.is_paused:
            return "the DAG is paused"
        if self.file.is_stale:
            return "the DAG is stale: it is in no file any more"
        if self.file.import_error is not None and self.file.stops:
            return f"its file cannot be imported: {self.file.import_error}"
        return None

    def holder(self, run: RunIdentity) -> str | None:
        """The run_id of the run that holds *run*'s date or its run_id; None if both are free."""
        tracked = self.runs.get(run.key)
        if tracked is not None:
            return tracked.run.run_id
        if run.key in self.dates:
            return self.dates[run.key]
        others = [(t.run.run_id, t.run.logical_date) for t in self.runs.values()]
        others += [(record.run_id, record.logical_date) for record in self.ledger]
        for other, logical_date in others:
            if other == run.run_id or (run.logical_date is not None and run.logical_date == logical_date):
                return other
        return None

    def with_unique_run_id(self, run: RunIdentity) -> RunIdentity:
        """Return *run*, whose id may be another's, with a number behind it where another date has it."""
        others = {tracked.run.run_id for key, tracked in self.runs.items() if key != run.key}
        others |= {run_id for key, run_id in self.dates.items() if key != run.key}
        others |= {record.run_id for record in self.ledger if record.logical_date != run.logical_date}
        n, wanted = 1, run
        while wanted.run_id in others:
            n += 1
            wanted = run.model_copy(update={"run_id": f"{run.run_id}_{n}"})
        return wanted

    def keep_date(self, run: RunIdentity) -> None:
        self.dates[run.key] = run.run_id
        while len(self.dates) > DATES_KEPT:
            self.dates.pop(next(iter(self.dates)))

    @property
    def versions(self) -> tuple[KnownVersion, ...]:
        """The last versions of the DAG, the one in place at the end."""
        known = self.counted_versions
        if not known:
            return (self._counted(self.spec, 1, self.registered_at),)
        last = known[-1]
        if last.version == self.spec.version:
            return known
        # A worker of release 0.3, which counts none, has registered the one in place.
        return (*known, self._counted(self.spec, last.version_number + 1, last.created_at))

    def count_version(self, spec: DagSpec, now: datetime) -> None:
        """Keeps that *spec* takes the place of the version that was there, if it is another."""
        known = self.versions
        if known[-1].version == spec.version:
            return
        new = self._counted(spec, known[-1].version_number + 1, now)
        self.counted_versions = (*known, new)[-VERSIONS_KEPT:]

    @staticmethod
    def _counted(spec: DagSpec, number: int, at: datetime) -> KnownVersion:
        snapshot = spec.source.snapshot if spec.source is not None else None
        return KnownVersion(version_number=number, version=spec.version, created_at=at, bundle_version=snapshot)

    def note(self, at: datetime, kind: DecisionKind, about: str, reason: str) -> None:
        made = MadeDecision(at=at, kind=kind, about=about, reason=reason)
        self.decisions.append(made)
        del self.decisions[:-DECISIONS_KEPT]
        if self._noting is not None:
            self._noting(made)

    def tell_decisions_to(self, listener: Callable[[MadeDecision], None]) -> None:
        """Has *listener* hear of every decision from now on: only the last are kept."""
        self._noting = listener
