"""When a DAG runs next.

A timetable answers one question, `next_dagrun_info`, from its arguments alone: it reads no clock
and keeps no state, so that its answer can be recorded, replayed and previewed.
"""

from typing import Annotated

from pydantic import Field

from .assets import AssetOrTime, AssetTriggered, PartitionedAsset, waited_for
from .base import DagRunInfo, DataInterval, TimeRestriction, TimetableError
from .cron import CronError
from .deltas import CalendarDelta
from .interval import CronInterval, DeltaInterval
from .partition import CronPartition
from .special import Continuous, Custom, Events, Null, Once
from .trigger import CronTrigger, DeltaTrigger, MultiCronTrigger

Timetable = Annotated[
    CronInterval
    | CronTrigger
    | MultiCronTrigger
    | DeltaInterval
    | DeltaTrigger
    | Once
    | Continuous
    | Events
    | AssetTriggered
    | AssetOrTime
    | PartitionedAsset
    | CronPartition
    | Custom
    | Null,
    Field(discriminator="kind"),
]
"""Any schedule, told apart by `kind`."""

__all__ = [
    "AssetOrTime",
    "AssetTriggered",
    "CalendarDelta",
    "Continuous",
    "CronError",
    "CronInterval",
    "CronPartition",
    "CronTrigger",
    "Custom",
    "DagRunInfo",
    "DataInterval",
    "DeltaInterval",
    "DeltaTrigger",
    "Events",
    "MultiCronTrigger",
    "Null",
    "Once",
    "PartitionedAsset",
    "TimeRestriction",
    "Timetable",
    "TimetableError",
    "waited_for",
]
