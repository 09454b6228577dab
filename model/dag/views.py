"""What a DAG answers when it is asked: plain data, the same in the CLI, the client and Temporal's UI."""

from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from ..base import Instant, Model, OmitNewDefaults
from ..run.identity import RunIdentity
from ..run.revisions import MarkRequest
from ..run.views import RunView
from ..spec.dag import DagSpec
from ..spec.timetables import DagRunInfo, DataInterval
from .explaining import next_run, why_queued
from .records import KnownVersion, MadeDecision, RunRecord
from .row import (
    LONG_TEXT,
    MANY_NAMES,
    NAMES,
    SOURCE,
    TEXT,
    DagRow,
    Interval,
    LastRun,
    NewestRun,
    names_that_fit,
    timetable_summary,
)
from .state import DagState


class DagView(Model):
    """A DAG as `describe` shows it; the fields of Airflow's DagModel, and what stands in the way of the next run."""

    dag_id: str
    dag_display_name: str | None = None
    description: str | None
    schedule: dict[str, Any]
    version: str
    source: str | None
    is_paused: bool
    is_stale: bool = False
    has_import_errors: bool = False
    import_error: str | None = None
    bundle: str | None = None
    broken: str | None
    next_dagrun: Instant | None
    next_dagrun_create_after: Instant | None
    next_dagrun_data_interval: DataInterval | None
    next_dagrun_note: str
    """Why the next run is due when it is, or why there is none: also tells a reached limit from the end."""
    last_automated_interval: DataInterval | None
    max_active_runs: int
    active_runs: int
    queued_runs: int
    last_run: RunRecord | None
    newest_run: NewestRun | None = None
    versions: tuple[KnownVersion, ...] = ()
    """The last versions, the one in place at the end; none where a worker of release 0.3 answers."""
    decisions: tuple[MadeDecision, ...]


class Change(StrEnum):
    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class Registration(Model):
    """What registering a DAG came to."""

    dag_id: str
    version: str
    change: Change


class QueuedRun(OmitNewDefaults, Model):
    """A run that has not begun, and what it waits for."""

    later_fields: ClassVar[tuple[str, ...]] = ("marks",)

    run: RunIdentity
    why: str
    marks: tuple[MarkRequest, ...] = ()
    """What a person has said of its tasks."""


def queued_run(state: DagState, run_id: str, now: datetime) -> QueuedRun | None:
    """Return a run that is queued for the first time; None where there is none of that id."""
    found = next((t for t in state.queued if t.run.run_id == run_id and not t.again), None)
    if found is None:
        return None
    return QueuedRun(run=found.run, why=why_queued(state, run_id, now), marks=tuple(found.marks))


def dag_view(state: DagState, now: datetime) -> DagView:
    info = state.next_info
    running = state.running
    return DagView(
        dag_id=state.spec.dag_id,
        dag_display_name=state.spec.dag_display_name,
        description=state.spec.description,
        schedule=state.spec.schedule.model_dump(mode="json"),
        version=state.spec.version,
        source=state.spec.source.path if state.spec.source is not None else None,
        is_paused=state.is_paused,
        is_stale=state.file.is_stale,
        has_import_errors=state.file.import_error is not None,
        import_error=state.file.import_error,
        bundle=state.spec.source.bundle if state.spec.source is not None else None,
        broken=state.broken,
        next_dagrun=info.logical_date if info is not None else None,
        next_dagrun_create_after=info.run_after if info is not None else None,
        next_dagrun_data_interval=info.data_interval if info is not None else None,
        next_dagrun_note=next_run(state, now),
        last_automated_interval=state.last_automated_interval,
        max_active_runs=state.spec.max_active_runs,
        active_runs=running,
        queued_runs=len(state.runs) - running,
        last_run=state.ledger[-1] if state.ledger else None,
        newest_run=_newest_run(state),
        versions=state.versions,
        decisions=tuple(state.decisions),
    )


def _interval(info: DagRunInfo | None) -> Interval | None:
    interval = info.data_interval if info is not None else None
    return Interval(start=interval.start, end=interval.end) if interval is not None else None


def _newest_run(state: DagState) -> NewestRun | None:
    known = [(t.run.run_after, t.queued_at, t.run.run_id, t.state, t.started_at) for t in state.runs.values()]
    known += [(one.run_after, one.queued_at, one.run_id, one.state, one.started_at) for one in state.ledger]
    if not known:
        return None
    run_after, _, run_id, run_state, started_at = max(known, key=lambda run: run[:2])
    return NewestRun(run_id=run_id, state=run_state, run_after=run_after, started_at=started_at)


def _texts(spec: DagSpec) -> dict[str, Any]:
    """What a list shows of a version that may be of any length."""
    return {
        "dag_display_name": spec.dag_display_name or None,
        "description": spec.description or None,
        "source": spec.source.path if spec.source is not None else None,
        "owners": spec.owners,
        "tags": spec.tags,
    }


def _cut(name: str, value: Any, text: int = TEXT, names: int = NAMES) -> Any:
    match value:
        case tuple():
            return names_that_fit(value, names)
        case str() if name != "source":
            return value[:text]
    return value


def whole_row(row: DagRow, spec: DagSpec) -> DagRow:
    """Return *row* with the texts that were too long for it, up to a length of any use in a list.

    *spec* is the version that it shows.
    """
    texts = {name: _cut(name, value, LONG_TEXT, MANY_NAMES) for name, value in _texts(spec).items()}
    return row.model_copy(update={**texts, "is_cut": False})


def dag_row(state: DagState) -> DagRow:
    """What a list shows of the DAG."""
    spec, info, last = state.spec, state.next_info, state.ledger[-1:]
    running, whole = state.running, _texts(state.spec)
    texts = {name: _cut(name, value) for name, value in whole.items()}
    texts["source"] = texts["source"][-SOURCE:] if texts["source"] is not None else None
    return DagRow(
        dag_id=spec.dag_id,
        **texts,
        is_cut=texts != whole,
        timetable_summary=timetable_summary(spec.schedule.model_dump(mode="json")),
        is_paused=state.is_paused,
        is_stale=state.file.is_stale,
        has_import_errors=state.file.import_error is not None,
        is_broken=state.broken is not None,
        next_dagrun=info.logical_date if info is not None else None,
        next_dagrun_create_after=info.run_after if info is not None else None,
        next_dagrun_data_interval=_interval(info),
        due_at=state.due_at,
        knows_due=True,
        max_active_runs=spec.max_active_runs,
        active_runs=running,
        queued_runs=len(state.runs) - running,
        last_run=LastRun.model_validate(last[0].model_dump()) if last else None,
        newest_run=_newest_run(state),
        version=spec.version,
        bundle=spec.source.bundle if spec.source is not None else None,
        written_for=spec.written_for,
    )


def run_views(state: DagState, workflow_id: Any) -> list[RunView]:
    """All runs that the DAG knows of, newest first. *workflow_id* maps a run's key to its workflow's id."""
    under_way = {tracked.run.run_id for tracked in state.runs.values()}
    known = [
        RunView.of(t.run, state=t.state, queued_at=t.queued_at, started_at=t.started_at) for t in state.runs.values()
    ]
    known += [
        RunView(
            # Not all of it: the next release may keep more of a run than this one knows.
            **record.model_dump(include={*RunView.model_fields}),
            workflow_id=workflow_id(record.logical_date, record.run_id),
        )
        for record in state.ledger
        if record.run_id not in under_way  # release 0.2 has kept what it ran again
    ]
    return sorted(known, key=lambda view: (view.run_after, view.known_since), reverse=True)
