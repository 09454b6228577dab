"""What a DAG keeps of its runs and of its own decisions."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from ..base import Instant, Model, OmitDefaults, Record
from ..errors import InvalidInputError
from ..run.identity import ListedRun, RunIdentity
from ..run.revisions import MarkRequest, Revision
from ..states import RunState, TaskState

NAMED = 50
"""So many tasks a record names one by one, whatever they have come to."""


class KnownVersion(Model):
    """A version of a DAG that was registered (Airflow: DagVersion)."""

    version_number: int
    """Counts from 1; a version that comes back has a new one, as in Airflow."""
    version: str
    """The digest of its content."""
    created_at: Instant
    bundle_version: str | None = None


class TrackedRun(Record):
    """A run that is queued here, or running as a workflow of its own."""

    run: RunIdentity
    state: RunState = RunState.QUEUED
    queued_at: Instant
    started_at: Instant | None = None
    backfill_id: str | None = None
    again: bool = False
    """Whether a finished run is run again, under the id that it had."""
    revised_at: Instant | None = None
    """When a person has said otherwise how it has ended; None: `queued_at`, or it has not run before."""
    revision: Revision | None = None
    """What is changed in it first, if a person has it run again."""
    marks: list[MarkRequest] = []
    """What a person has said of its tasks before it has begun."""
    previous: str | None = None
    """The run_id of the run before, where tasks depend on it."""
    ignores_past: bool = False
    """Whether it is the first of its backfill, which looks back at nothing (as in Airflow)."""
    past: dict[str, TaskState] = {}
    """How those of its tasks have ended that the next run looks back at."""
    watched: bool = False
    """Whether this execution of the workflow hears of the run's end by itself, however it ends."""


class RunRecord(OmitDefaults, ListedRun):
    """A finished run as the ledger keeps it, beyond the time that Temporal keeps its history."""

    # These are written also where they are None: release 0.3 wants to read them.
    logical_date: Instant | None
    started_at: Instant | None
    queued_at: Instant
    ended_at: Instant
    past: dict[str, TaskState] = {}
    """How those of its tasks ended that the next run looks back at."""
    past_others: TaskState | None = None
    """How all those ended that `past` does not name: of thousands, most have ended alike."""
    partition_date: Instant | None = None

    def all_past(self, tasks: Iterable[str]) -> dict[str, TaskState]:
        """The same written out, for *tasks*."""
        return self.past if self.past_others is None else {**dict.fromkeys(tasks, self.past_others), **self.past}


def short_past(past: Mapping[str, TaskState]) -> dict[str, Any]:
    """The fields of a record for *past*: five hundred records have to fit into one state."""
    if len(past) < NAMED:
        return {"past": past}
    [(others, _)] = Counter(past.values()).most_common(1)
    return {"past": {task: state for task, state in past.items() if state is not others}, "past_others": others}


class DecisionKind(StrEnum):
    CREATED = "created"
    BACKFILL = "backfill"
    SKIPPED = "skipped"
    STARTED = "started"
    REVISED = "revised"
    FINISHED = "finished"
    REGISTERED = "registered"
    PAUSED = "paused"
    UNPAUSED = "unpaused"
    HELD_UP = "held up"
    """The DAG is stale, or its file is broken."""
    REFUSED = "refused"
    BROKEN = "broken"


class MadeDecision(Model):
    """Something that the DAG decided, and why: what `explain` answers from."""

    at: Instant
    kind: DecisionKind
    about: str
    reason: str


class DateTakenError(InvalidInputError):
    """The run cannot be made: another one holds its date or its id. Says which."""
