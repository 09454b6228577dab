"""What identifies a run: its type, its run_id, and the one workflow id that can hold it."""

import re
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from ..asset.events import AssetEvent
from ..asset.gathering import Taken
from ..asset.partitioning import TakenPartition
from ..base import Instant, Model, OmitNewDefaults, Request, iso, to_utc
from ..json_values import Conf
from ..sizes import json_size
from ..spec.timetables import CronPartition, DagRunInfo, DataInterval
from ..spec.timetables.base import BaseTimetable
from ..states import RunState
from ..workflow_ids import beginnings_of, of_dag


class RunType(StrEnum):
    """Why a run exists (Airflow: DagRunType)."""

    SCHEDULED = "scheduled"
    MANUAL = "manual"
    BACKFILL = "backfill"
    ASSET_TRIGGERED = "asset_triggered"
    ASSET_MATERIALIZATION = "asset_materialization"
    OPERATOR_TRIGGERED = "operator_triggered"


class TriggeredBy(StrEnum):
    """Who asked for a run (Airflow: DagRunTriggeredByType)."""

    TIMETABLE = "timetable"
    CLI = "cli"
    CLIENT = "client"
    SIGNAL = "signal"
    BACKFILL = "backfill"
    ASSET = "asset"
    OPERATOR = "operator"


ODD = r"[^A-Za-z0-9_.~:+-]"
"""What is in no run_id."""
RUN_ID = r"^[A-Za-z0-9_.~:+-]+$"
LONGEST_RUN_ID = 200
"""In characters."""
EVENTS_CARRIED, BYTES_CARRIED = 20, 16 * 1024


class RunColumns(Model):
    """What every list, record and answer shows of a run, whatever becomes of it: declared here, and here alone."""

    run_id: str
    run_type: RunType
    logical_date: Instant | None = None
    run_after: Instant
    partition_key: str | None = None
    triggered_by: str | None = None
    triggering_user_name: str | None = None
    """Whose request made the run, where somebody is known to have asked (Airflow's name)."""
    backfill_id: str | None = None
    """The backfill that made the run, or has run it again last (Airflow: DagRun.backfill_id)."""


class ListedRun(RunColumns):
    """A run with how it stands: what a list, a record or an answer adds to is declared by itself."""

    state: RunState
    queued_at: Instant | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    reason: str | None = None
    """Why it has ended as it has."""


class RunIdentity(OmitNewDefaults, RunColumns):
    """A run as everyone else knows it, fixed when it is created.

    A run about no particular data (`logical_date` None) is told apart by its run_id alone.
    """

    later_fields: ClassVar[tuple[str, ...]] = (
        "asset_events",
        "partition_key",
        "partition_date",
        "triggering_user_name",
        "backfill_id",
    )

    dag_id: str
    triggered_by: TriggeredBy
    data_interval: DataInterval | None = None
    conf: dict[str, Any] = {}
    asset_events: tuple[AssetEvent, ...] = ()
    """The events that the run was made for (Airflow: consumed_asset_events)."""
    partition_date: Instant | None = None

    @property
    def shown(self) -> dict[str, Any]:
        """Return the run's columns, by their names."""
        return {name: getattr(self, name) for name in RunColumns.model_fields}

    def called(self, columns: RunColumns) -> "RunIdentity":
        """Return the run as *columns* have it: one of its date that was there before has a name of its own."""
        return RunIdentity.model_validate(
            {**self.model_dump(), **columns.model_dump(include=set(RunColumns.model_fields))}
        )

    @property
    def in_short(self) -> "RunIdentity":
        """The run as each of its attempts carries it: who wants to know of many events asks for them."""
        few = len(self.asset_events) <= EVENTS_CARRIED
        if not self.asset_events or (few and json_size(self.model_dump(mode="json")) <= BYTES_CARRIED):
            return self
        return self.model_copy(update={"asset_events": ()})

    def __hash__(self) -> int:
        return hash((self.dag_id, self.run_id))

    def __lt__(self, other: "RunIdentity") -> bool:
        """By DAG, then by date: logical_date, or run_after where there is none; then by run_id."""
        return self._order < other._order

    @property
    def _order(self) -> tuple[str, datetime, str]:
        return self.dag_id, self.logical_date or self.run_after, self.run_id

    @property
    def key(self) -> str:
        """What is unique about the run within its DAG."""
        return run_key(self.logical_date, self.run_id)

    @property
    def workflow_id(self) -> str:
        return run_workflow_id(self.dag_id, self.key)


def dag_workflow_id(dag_id: str) -> str:
    return f"dag:{dag_id}"


def run_key(logical_date: datetime | None, run_id: str) -> str:
    """One key per logical date, whoever creates the run: scheduler, backfill or a person."""
    return iso(logical_date) if logical_date is not None else run_id


def is_key_of_a_date(text: str) -> bool:
    """Whether *text* is what a run with a logical date would be known by."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return False
    return found.tzinfo is not None and iso(to_utc(found)) == text


def run_workflow_id(dag_id: str, key: str) -> str:
    return of_dag("run", dag_id, key)


def beginnings_of_runs(dag_id: str | None) -> tuple[str, ...]:
    """What the workflow ids of the DAG's runs begin with; None: of all runs.

    Some stores find by beginnings without regard to case: what they have found has to be compared once more.
    """
    return beginnings_of("run", dag_id) if dag_id is not None else ("run:",)


def run_id(run_type: RunType, at: datetime, *, tail: str = "") -> str:
    """The run id that Airflow gives: type, two underscores, *at* with the offset it came with.

    *tail* tells apart runs that have no logical date and are not made by a timetable.
    """
    return f"{run_type}__{iso(at)}" + (f"_{tail}" if tail else "")


def operator_run_id(run: RunIdentity, key: str, try_number: int) -> str:
    """The id of a run that a task starts: the same for the same try of the same task, so that it is started once."""
    return re.sub(ODD, "_", f"operator_triggered__{run.dag_id}.{key}_{run.run_id}_{try_number}")[:LONGEST_RUN_ID]


def timetable_run_id(
    timetable: BaseTimetable, run_type: RunType, run_after: datetime, interval: DataInterval | None
) -> str:
    """The id of a run that a timetable names: from the interval's start where runs are about intervals."""
    if timetable.names_runs_by_interval and run_type is RunType.SCHEDULED and interval is not None:
        return run_id(run_type, interval.start)
    return run_id(run_type, run_after)


def asset_run(dag_id: str, taken: Taken) -> RunIdentity:
    """The run that assets have triggered."""
    name = [dag_id, iso(taken.run_after), *(event.cause for event in taken.events)]
    return RunIdentity(
        dag_id=dag_id,
        run_id=run_id(RunType.ASSET_TRIGGERED, taken.run_after, tail=short_hash(name)),
        run_type=RunType.ASSET_TRIGGERED,
        triggered_by=TriggeredBy.ASSET,
        run_after=taken.run_after,
        asset_events=taken.events,
    )


def partition_run(dag_id: str, taken: TakenPartition, now: datetime) -> RunIdentity:
    """The run for a partition that is complete."""
    name = [dag_id, taken.partition_key, *(event.cause for event in taken.events)]
    return RunIdentity(
        dag_id=dag_id,
        run_id=run_id(RunType.ASSET_TRIGGERED, now, tail=short_hash(name)),
        run_type=RunType.ASSET_TRIGGERED,
        triggered_by=TriggeredBy.ASSET,
        run_after=now,
        asset_events=taken.events,
        partition_key=taken.partition_key,
        partition_date=taken.partition_date,
    )


def short_hash(parts: Sequence[str]) -> str:
    """Eight characters that tell apart what would be called alike; the same on every replay."""
    return sha256("\n".join(parts).encode()).hexdigest()[:8]


def scheduled_run(dag_id: str, timetable: BaseTimetable, info: DagRunInfo) -> RunIdentity:
    """The run that *timetable* asked for with *info*."""
    if isinstance(timetable, CronPartition):
        return _run_of_partition(dag_id, timetable, info)
    return RunIdentity(
        dag_id=dag_id,
        run_id=info.run_ids.get(RunType.SCHEDULED)
        or timetable_run_id(timetable, RunType.SCHEDULED, info.run_after, info.data_interval),
        run_type=RunType.SCHEDULED,
        triggered_by=TriggeredBy.TIMETABLE,
        run_after=info.run_after,
        logical_date=info.logical_date,
        data_interval=info.data_interval,
    )


def _run_of_partition(dag_id: str, timetable: CronPartition, info: DagRunInfo) -> RunIdentity:
    date, key = timetable.partition_of(info.run_after)
    return RunIdentity(
        dag_id=dag_id,
        run_id=_partition_run_id(RunType.SCHEDULED, info.run_after, key, [dag_id, iso(info.run_after), key]),
        run_type=RunType.SCHEDULED,
        triggered_by=TriggeredBy.TIMETABLE,
        run_after=info.run_after,
        partition_key=key,
        partition_date=date,
    )


def _partition_run_id(run_type: RunType, run_after: datetime, key: str, name: Sequence[str]) -> str:
    return f"{run_id(run_type, run_after)}__{re.sub(ODD, '_', key)}__{short_hash(name)}"


def backfill_run(
    dag_id: str, timetable: BaseTimetable, info: DagRunInfo, conf: dict[str, Any], anew: str = ""
) -> RunIdentity:
    """A run of a backfill over *info*'s interval, or of the partition of its moment, which *anew* tells from others."""
    if isinstance(timetable, CronPartition):
        key = timetable.written(info.run_after)
        return RunIdentity(
            dag_id=dag_id,
            # A partition that is run again has another run beside the first (as in Airflow).
            run_id=_partition_run_id(RunType.BACKFILL, info.run_after, key, [dag_id, anew, key]),
            run_type=RunType.BACKFILL,
            triggered_by=TriggeredBy.BACKFILL,
            run_after=info.run_after,
            partition_key=key,
            partition_date=info.run_after,
            conf=conf,
        )
    return RunIdentity(
        dag_id=dag_id,
        run_id=info.run_ids.get(RunType.BACKFILL) or run_id(RunType.BACKFILL, info.run_after),
        run_type=RunType.BACKFILL,
        triggered_by=TriggeredBy.BACKFILL,
        run_after=info.run_after,
        logical_date=info.logical_date,
        data_interval=info.data_interval,
        conf=conf,
    )


def asset_pseudo_run(asset: str, dag_id: str, at: datetime) -> RunIdentity:
    """In the place of a run: what is called for an asset, and not for a run of the DAG in whose file it is."""
    return RunIdentity(
        dag_id=dag_id,
        run_id=f"asset__{re.sub(ODD, '_', asset)[:150]}",
        run_type=RunType.MANUAL,
        triggered_by=TriggeredBy.ASSET,
        run_after=at,
    )


class TriggerRequest(OmitNewDefaults, Request):
    """A manual run as its author asks for it (Airflow's REST body for a new run).

    Without `logical_date` the run is about no particular data and any number may exist. With a
    `run_after` in the future it stays queued until then.
    """

    later_fields: ClassVar[tuple[str, ...]] = ("run_type", "triggering_user_name", "dated_now")

    run_id: str | None = Field(default=None, pattern=RUN_ID, max_length=LONGEST_RUN_ID)
    logical_date: Instant | None = None
    run_after: Instant | None = None
    data_interval_start: Instant | None = None
    data_interval_end: Instant | None = None
    conf: Conf = {}
    triggered_by: TriggeredBy | None = None
    run_type: Literal["manual", "asset_materialization"] = "manual"
    triggering_user_name: str | None = Field(default=None, max_length=100)
    dated_now: bool = False
    """The logical_date is the service's now when the DAG takes the request; the one given is for a release before."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.data_interval_start is None) != (self.data_interval_end is None):
            raise ValueError("only one of data_interval_start and data_interval_end is given. Give both or neither")
        if self.data_interval_start and self.data_interval_end and self.data_interval_start > self.data_interval_end:
            raise ValueError(
                f"data_interval_start {iso(self.data_interval_start)} is after data_interval_end "
                f"{iso(self.data_interval_end)}. Swap or correct them"
            )
        if self.run_id in (".", ".."):
            raise ValueError(f"run_id {self.run_id!r} cannot be a part of an address. Choose another")
        if self.run_id is not None and self.run_id.startswith("scheduled__"):
            raise ValueError(f"run_id {self.run_id!r} looks like a scheduled run's. Choose another prefix, as manual__")
        if self.run_id is not None and self.logical_date is None and is_key_of_a_date(self.run_id):
            raise ValueError(
                f"run_id {self.run_id!r} is what a run of that logical_date is known by. Give the date, too"
            )
        return self


def manual_run(
    dag_id: str, timetable: BaseTimetable, request: TriggerRequest, now: datetime, interval: DataInterval | None = None
) -> RunIdentity:
    """The run that *request* asks for at *now*.

    *interval* is given for timetables that cannot be asked here (the user's own classes).
    """
    run_after = request.run_after or now
    data_interval = None
    if request.logical_date is not None:
        if request.data_interval_start is not None and request.data_interval_end is not None:
            data_interval = DataInterval(start=request.data_interval_start, end=request.data_interval_end)
        else:
            data_interval = interval or timetable.manual_interval(request.logical_date)
    return RunIdentity(
        dag_id=dag_id,
        run_id=request.run_id or run_id(RunType(request.run_type), run_after),
        run_type=RunType(request.run_type),
        triggered_by=request.triggered_by or TriggeredBy.SIGNAL,
        run_after=run_after,
        logical_date=request.logical_date,
        data_interval=data_interval,
        conf=request.conf,
        triggering_user_name=request.triggering_user_name,
    )
