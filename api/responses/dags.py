"""DAGs as Airflow's API answers them."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from ...model.dag.records import KnownVersion
from ...model.dag.row import DagRow
from ...model.dag.views import DagView
from ...model.errors import InvalidInputError
from ...model.run.views import RunView
from ...model.spec.assets.condition import AssetAll, AssetAny, Condition
from ...model.spec.assets.identity import Asset, AssetAlias
from ...model.spec.dag import DagSpec
from ...model.spec.timetables import CronPartition, PartitionedAsset, waited_for
from ...model.spec.timetables.describe import airflows_description, airflows_summary
from ...worker.service.connection import NotFoundError
from ..read.filters import seconds_between
from .common import Answer, Body, asset_number, number_of, uuid_of


class DagTag(Answer):
    name: str
    dag_id: str
    dag_display_name: str


class DagVersion(Answer):
    id: UUID
    version_number: int
    dag_id: str
    bundle_name: str | None
    bundle_version: str | None
    created_at: datetime
    dag_display_name: str
    bundle_url: str | None


class DagAnswer(Answer):
    """Airflow: DAGResponse."""

    dag_id: str
    dag_display_name: str
    is_paused: bool
    is_stale: bool
    last_parsed_time: datetime | None
    last_parse_duration: float | None
    last_expired: datetime | None
    bundle_name: str | None
    bundle_version: str | None
    relative_fileloc: str | None
    fileloc: str
    description: str | None
    timetable_summary: str | None
    timetable_description: str | None
    timetable_partitioned: bool
    timetable_periodic: bool
    tags: list[DagTag]
    max_active_tasks: int
    max_active_runs: int | None
    max_consecutive_failed_dag_runs: int
    has_task_concurrency_limits: bool
    has_import_errors: bool
    next_dagrun_logical_date: datetime | None
    next_dagrun_data_interval_start: datetime | None
    next_dagrun_data_interval_end: datetime | None
    next_dagrun_run_after: datetime | None
    allowed_run_types: list[str] | None
    owners: list[str]
    is_backfillable: bool
    file_token: str


class DagCollection(Answer):
    dags: list[DagAnswer]
    total_entries: int


class DagDetails(DagAnswer):
    """Airflow: DAGDetailsResponse."""

    catchup: bool
    dag_run_timeout: timedelta | None
    asset_expression: dict[str, Any] | None
    doc_md: str | None
    start_date: datetime | None
    end_date: datetime | None
    is_paused_upon_creation: bool | None
    params: dict[str, Any] | None
    render_template_as_native_obj: bool
    template_search_path: list[str] | None
    timezone: str | None
    last_parsed: datetime | None
    default_args: dict[str, Any] | None
    rerun_with_latest_version: bool | None = None
    owner_links: dict[str, str] | None = None
    is_favorite: bool = False
    active_runs_count: int = 0
    concurrency: int
    latest_dag_version: DagVersion | None


class LightRun(Answer):
    """Airflow: DAGRunLightResponse."""

    id: int
    dag_id: str
    run_id: str
    logical_date: datetime | None
    run_after: datetime
    start_date: datetime | None
    end_date: datetime | None
    state: str
    duration: float | None

    @classmethod
    def of(cls, dag_id: str, run: RunView) -> "LightRun":
        return cls(
            id=number_of("run", dag_id, run.run_id),
            dag_id=dag_id,
            run_id=run.run_id,
            logical_date=run.logical_date,
            run_after=run.run_after,
            start_date=run.started_at,
            end_date=run.ended_at,
            state=run.state,
            duration=seconds_between(run.started_at, run.ended_at),
        )


class DagWithRuns(DagAnswer):
    """Airflow: DAGWithLatestDagRunsResponse."""

    asset_expression: dict[str, Any] | None
    latest_dag_runs: list[LightRun]
    pending_actions: list[Any]
    is_favorite: bool


class DagsWithRuns(Answer):
    total_entries: int
    dags: list[DagWithRuns]


class DagTags(Answer):
    tags: list[str]
    total_entries: int


class DagPatch(Body):
    """Airflow: DAGPatchBody."""

    is_paused: bool


class DagSourceAnswer(Answer):
    """Airflow: DAGSourceResponse."""

    content: str | None
    dag_id: str
    version_number: int | None
    dag_display_name: str


class DagVersions(Answer):
    dag_versions: list[DagVersion]
    total_entries: int


def dag_fields(row: DagRow, spec: DagSpec) -> dict[str, Any]:
    """What all answers about a DAG have in common."""
    source, interval = spec.source, row.next_dagrun_data_interval
    schedule = spec.schedule.model_dump(mode="json")
    name = source.name if source is not None else None
    return {
        "dag_id": row.dag_id,
        "dag_display_name": spec.display_name,
        "is_paused": row.is_paused,
        "is_stale": row.is_stale,
        "last_parsed_time": None,
        "last_parse_duration": None,
        "last_expired": None,
        "bundle_name": row.bundle,
        "bundle_version": source.snapshot if source is not None else None,
        "relative_fileloc": name,
        "fileloc": source.path if source is not None else "",
        "description": spec.description,
        "timetable_summary": airflows_summary(schedule, row.timetable_summary),
        "timetable_description": airflows_description(schedule),
        "timetable_partitioned": isinstance(spec.schedule, CronPartition | PartitionedAsset),
        "timetable_periodic": spec.schedule.periodic,
        "tags": [DagTag(name=tag, dag_id=row.dag_id, dag_display_name=spec.display_name) for tag in spec.tags],
        "max_active_tasks": spec.max_active_tasks,
        "max_active_runs": spec.max_active_runs,
        "max_consecutive_failed_dag_runs": spec.max_consecutive_failed_dag_runs,
        "has_task_concurrency_limits": any(
            task.max_active_tis_per_dag is not None or task.max_active_tis_per_dagrun is not None for task in spec.tasks
        ),
        "has_import_errors": row.has_import_errors,
        "next_dagrun_logical_date": row.next_dagrun,
        "next_dagrun_data_interval_start": interval.start if interval is not None else None,
        "next_dagrun_data_interval_end": interval.end if interval is not None else None,
        "next_dagrun_run_after": row.next_dagrun_create_after,
        "allowed_run_types": list(spec.allowed_run_types) or None,
        "owners": list(spec.owners),
        "is_backfillable": spec.schedule.periodic
        and (not spec.allowed_run_types or "backfill" in spec.allowed_run_types),
        "file_token": file_token(row.bundle, name),
    }


def fields_of_line(row: DagRow) -> dict[str, Any]:
    """Return the same of a DAG that is silent, as its line has it.

    What no line says is None, False or empty; and 0 where Airflow's clients have to have a number.
    """
    known = DagSpec(
        dag_id=row.dag_id, dag_display_name=row.dag_display_name, description=row.description, tags=row.tags
    )
    return {
        **dag_fields(row, known),
        "fileloc": row.source or "",
        "timetable_summary": row.timetable_summary or None,
        "timetable_description": None,
        "max_active_tasks": 0,
        "max_active_runs": row.max_active_runs or None,
        "owners": list(row.owners),
        "is_backfillable": False,
    }


def dag_details(row: DagRow, spec: DagSpec, view: DagView) -> DagDetails:
    """A DAG with all that its file says of it."""
    return DagDetails(
        **dag_fields(row, spec),
        catchup=spec.catchup,
        dag_run_timeout=spec.dagrun_timeout,
        asset_expression=asset_expression(spec),
        doc_md=spec.doc_md,
        start_date=spec.start_date,
        end_date=spec.end_date,
        is_paused_upon_creation=spec.is_paused_upon_creation,
        params={name: param_of(param) for name, param in spec.params.items()},
        render_template_as_native_obj=spec.render_template_as_native_obj,
        template_search_path=list(spec.template_searchpath) or None,
        timezone=spec.timezone,
        last_parsed=None,
        default_args=None,
        active_runs_count=row.active_runs,
        rerun_with_latest_version=spec.reruns_latest,
        concurrency=spec.max_active_tasks,
        latest_dag_version=version_in_place(spec, view.versions),
    )


def version_of(spec: DagSpec, versions: Sequence[KnownVersion], at: datetime) -> DagVersion:
    """The version that a run of *at* has: of *versions*, those that the DAG remembers, the last one of its content."""
    mine = [one for one in versions if one.version == spec.version]
    before = [one for one in mine if one.created_at <= at]
    found = before[-1] if before else next(iter(mine), None)
    # What is not remembered is older than all that is; a worker of release 0.3 remembers none.
    number = found.version_number if found is not None else max(1, versions[0].version_number - 1 if versions else 1)
    source = spec.source
    return DagVersion(
        id=uuid_of("version", spec.dag_id, spec.version, number),
        version_number=number,
        dag_id=spec.dag_id,
        bundle_name=source.bundle if source is not None else None,
        bundle_version=source.snapshot if source is not None else None,
        created_at=found.created_at if found is not None else at,
        dag_display_name=spec.display_name,
        bundle_url=None,
    )


def version_in_place(spec: DagSpec, versions: Sequence[KnownVersion]) -> DagVersion:
    """The version that is in place."""
    return version_of(spec, versions, datetime.now(UTC))


def listed_version(spec: DagSpec, one: KnownVersion) -> DagVersion:
    """A version of the DAG whose *spec* is in place, as a list of versions shows it."""
    there = version_in_place(spec, (one,))
    return there.model_copy(
        update={
            "id": uuid_of("version", spec.dag_id, one.version, one.version_number),
            "version_number": one.version_number,
            "created_at": one.created_at,
            "bundle_version": one.bundle_version,
        }
    )


def param_of(param: Any, source: Literal["dag", "task"] = "dag") -> dict[str, Any]:
    """Return a param as the user interface's form reads it; *source*: whose it is."""
    if isinstance(param, dict) and "schema" in param:
        found = {"value": param.get("value"), "schema": param["schema"], "description": param.get("description")}
    else:
        found = {"value": param, "schema": {}, "description": None}
    return {**found, "source": source}


def asset_expression(spec: DagSpec) -> dict[str, Any] | None:
    """The condition that the DAG waits for, as Airflow stores it."""
    condition = waited_for(spec.schedule)
    return _expression(condition) if condition is not None else None


def _expression(part: Condition) -> dict[str, Any]:
    match part:
        case AssetAll():
            return {"all": [_expression(one) for one in part.of]}
        case AssetAny():
            return {"any": [_expression(one) for one in part.of]}
        case Asset():
            return {"asset": {"id": asset_number(part.name), "uri": part.uri, "name": part.name, "group": part.group}}
        case AssetAlias():
            return {"alias": {"name": part.name, "group": part.group}}
        case _:
            known = {"name": part.name} if part.name is not None else {"uri": part.uri}
            return {"asset_ref": known}


def file_token(bundle: str | None, name: str | None) -> str:
    """By which a DAG's file is asked to be parsed again."""
    return urlsafe_b64encode(json.dumps([bundle, name]).encode()).decode()


def read_file_token(token: str) -> tuple[str, str]:
    """The bundle and the file that a token means. Raises NotFoundError for one that means none."""
    try:
        bundle, name = json.loads(urlsafe_b64decode(token.encode()))
    except (ValueError, TypeError, RecursionError) as error:
        raise NotFoundError("file_token is none that was given here") from error
    if not isinstance(bundle, str) or not isinstance(name, str):
        raise InvalidInputError("the DAG is of no bundle: register its file again instead")
    return bundle, name
