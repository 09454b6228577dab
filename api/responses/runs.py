"""Runs as Airflow's API answers them."""

from datetime import UTC, datetime
from typing import Any, Literal, Self

from pydantic import AwareDatetime, model_validator

from ...model.run.identity import RunIdentity
from ...model.run.views import RunView
from ...model.states import RunState
from ..read.filters import seconds_between
from .common import Answer, Body, Note
from .dags import DagVersion

TRIGGERED_BY = {"client": "rest_api", "signal": "rest_api"}
"""What Airflow calls those who ask for runs, where it has no such thing."""


class RunAnswer(Answer):
    """Airflow: DAGRunResponse."""

    dag_run_id: str
    dag_id: str
    logical_date: datetime | None
    queued_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None
    duration: float | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    run_after: datetime
    last_scheduling_decision: datetime | None
    run_type: str
    state: str
    triggered_by: str | None
    triggering_user_name: str | None
    conf: dict[str, Any] | None
    note: str | None
    dag_versions: list[DagVersion]
    bundle_version: str | None
    dag_display_name: str
    partition_key: str | None
    partition_date: datetime | None


class RunCollection(Answer):
    dag_runs: list[RunAnswer]
    total_entries: int | None = None
    total_entries_limit: int | None = None
    next_cursor: str | None = None
    previous_cursor: str | None = None


class GridRun(Answer):
    """Airflow: GridRunsResponse."""

    dag_id: str
    run_id: str
    queued_at: datetime | None
    start_date: datetime | None
    end_date: datetime | None
    run_after: datetime
    state: str | None
    run_type: str
    dag_versions: list[DagVersion] = []
    has_missed_deadline: bool
    has_note: bool
    duration: float

    @classmethod
    def of(cls, dag_id: str, run: RunView, *, has_note: bool) -> "GridRun":
        return cls(
            dag_id=dag_id,
            run_id=run.run_id,
            queued_at=run.queued_at,
            start_date=run.started_at,
            end_date=run.ended_at,
            run_after=run.run_after,
            state=run.state,
            run_type=run.run_type,
            has_missed_deadline=False,
            has_note=has_note,
            duration=seconds_between(run.started_at, run.ended_at or datetime.now(UTC)) or 0,
        )


class TriggerBody(Body):
    """Airflow: TriggerDAGRunPostBody."""

    dag_run_id: str | None = None
    data_interval_start: AwareDatetime | None = None
    data_interval_end: AwareDatetime | None = None
    logical_date: AwareDatetime | None
    run_after: AwareDatetime | None = None
    conf: dict[str, Any] | None = None
    note: Note = None
    partition_key: str | None = None

    @model_validator(mode="after")
    def _whole_interval(self) -> Self:
        if (self.data_interval_start is None) != (self.data_interval_end is None):
            raise ValueError("data_interval_start and data_interval_end go together. Give both, or none")
        return self


class RunPatch(Body):
    """Airflow: DAGRunPatchBody."""

    state: Literal["queued", "success", "failed"] | None = None
    note: Note = None


class RunClearBody(Body):
    """Airflow: DAGRunClearBody."""

    dry_run: bool = True
    only_failed: bool = False
    only_new: bool = False
    run_on_latest_version: bool | None = None
    note: Note = None


class BulkRunBody(Body):
    """Airflow: BulkDAGRunBody."""

    dag_run_id: str
    dag_id: str | None = None
    state: Literal["queued", "success", "failed"] | None = None
    note: Note = None


class BulkRunClearBody(RunClearBody):
    """Airflow: BulkDAGRunClearBody."""

    dag_runs: list[BulkRunBody]
    """Partitions are not asked for here: they are run again by a backfill with reprocess_behavior."""


def just_made(run: RunIdentity) -> RunView:
    """The view of a run that has just been made, and of which nothing else can be seen."""
    return RunView.of(run, state=RunState.QUEUED, queued_at=datetime.now(UTC))


def in_state(run: RunView, state: str) -> RunView:
    """The view of a run that has just been given *state*, and of which nothing else can be seen."""
    return run.model_copy(update={"state": RunState(state), "ended_at": None if state == "queued" else run.ended_at})


def versions_of(version: DagVersion | None) -> dict[str, Any]:
    """The fields of a run that tell of the version of its DAG; None where that is not known."""
    if version is None:
        return {"dag_versions": [], "bundle_version": None}
    names = {"bundle_version": version.bundle_version, "dag_display_name": version.dag_display_name}
    return {"dag_versions": [version], **names}


def run_answer(
    dag_id: str, run: RunView, identity: RunIdentity | None = None, version: DagVersion | None = None
) -> RunAnswer:
    """A run; what only its own workflow knows is there where *identity* and *version* are."""
    interval = identity.data_interval if identity is not None else None
    triggered_by = str(identity.triggered_by) if identity is not None else run.triggered_by
    return RunAnswer(
        dag_run_id=run.run_id,
        dag_id=dag_id,
        logical_date=run.logical_date,
        queued_at=run.queued_at,
        start_date=run.started_at,
        end_date=run.ended_at,
        duration=seconds_between(run.started_at, run.ended_at),
        data_interval_start=interval.start if interval is not None else None,
        data_interval_end=interval.end if interval is not None else None,
        run_after=run.run_after,
        last_scheduling_decision=None,
        run_type=run.run_type,
        state=run.state,
        triggered_by=TRIGGERED_BY.get(triggered_by, triggered_by) if triggered_by else None,
        triggering_user_name=run.triggering_user_name if identity is None else identity.triggering_user_name,
        conf=identity.conf if identity is not None else None,
        note=run.reason if run.state == "failed" else None,
        partition_key=run.partition_key,
        partition_date=identity.partition_date if identity is not None else None,
        **{"dag_display_name": dag_id, **versions_of(version)},
    )
