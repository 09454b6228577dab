"""Schedules by assets: runs are made when data has been written, beside or instead of those of time."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from ...base import OmitDefaults
from ..assets.condition import AssetAll, Condition
from ..assets.identity import Asset
from ..assets.partitioned import Partitioned
from .base import DagRunInfo, DataInterval, TimeRestriction
from .deltas import CalendarDelta  # noqa: F401 - a schedule may be one
from .interval import CronInterval, DeltaInterval
from .special import Continuous, Events, Once, Unscheduled
from .trigger import CronTrigger, DeltaTrigger, MultiCronTrigger

OfTime = Annotated[
    CronInterval | CronTrigger | MultiCronTrigger | DeltaInterval | DeltaTrigger | Once | Continuous | Events,
    Field(discriminator="kind"),
]
"""A schedule that assets may stand beside."""


class AssetTriggered(OmitDefaults, Unscheduled):
    """Runs when assets are updated; time alone never makes one (Airflow: AssetTriggeredTimetable)."""

    kind: Literal["asset"] = "asset"
    assets: tuple[str, ...] = ()
    """The names of assets, all of which are waited for; where it is more than that, `condition` says what."""
    condition: Condition | None = None
    """Which assets have to be updated; None: all of `assets`."""

    @property
    def waited_for(self) -> Condition:
        """What the DAG waits for."""
        if self.condition is not None:
            return self.condition
        return AssetAll(of=tuple(Asset.model_validate({"name": name}) for name in self.assets))


class AssetOrTime(Unscheduled):
    """Runs when assets are updated, and by a timetable (Airflow: AssetOrTimeSchedule)."""

    kind: Literal["asset_or_time"] = "asset_or_time"
    timetable: OfTime
    """The timetable."""
    condition: Condition
    """The assets."""

    @property
    def waited_for(self) -> Condition:
        """What the DAG waits for."""
        return self.condition

    @property
    def periodic(self) -> bool:
        return self.timetable.periodic

    @property
    def answers_by_moment(self) -> bool:
        return self.timetable.answers_by_moment

    @property
    def names_runs_by_interval(self) -> bool:
        return self.timetable.names_runs_by_interval

    def check(self) -> None:
        self.timetable.check()

    def next_dagrun_info(
        self, last: DataInterval | None, restriction: TimeRestriction, now: datetime
    ) -> DagRunInfo | None:
        return self.timetable.next_dagrun_info(last, restriction, now)

    def manual_interval(self, run_after: datetime) -> DataInterval:
        return self.timetable.manual_interval(run_after)

    def grid_start(self, date: datetime, restriction: TimeRestriction) -> datetime:
        return self.timetable.grid_start(date, restriction)


class PartitionedAsset(Unscheduled):
    """A run for each partition whose parts are there (Airflow: PartitionedAssetTimetable)."""

    kind: Literal["partitioned_asset"] = "partitioned_asset"
    partitioned: Partitioned
    """The assets and their mappers."""

    @property
    def waited_for(self) -> Condition:
        """What the DAG waits for."""
        return self.partitioned.assets


def waited_for(schedule: Any) -> Condition | None:
    """The assets that a DAG of that schedule waits for; None: for none."""
    found: Condition | None = getattr(schedule, "waited_for", None)
    return found
