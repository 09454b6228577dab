"""What an author may write for `schedule`, and the timetable that it means."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

from dateutil.relativedelta import relativedelta
from pydantic import BaseModel

from .timetables import AssetOrTime, CronInterval, CronTrigger, MultiCronTrigger

ZONED = (CronInterval, CronTrigger, MultiCronTrigger)
ZONED_KINDS = ("cron_interval", "cron_trigger", "multi_cron_trigger", "cron_partition")
UNSAID = ("dst_policy", "airflow")
"""What holds where nothing is said."""
ScheduleKind = Literal["data_interval", "trigger"]


def read_schedule(fields: dict[str, Any]) -> dict[str, Any]:
    """*fields* of a DAG with `schedule` written out as a timetable.

    It has the DAG's `timezone` and `dst_policy` where it names none of its own.
    """
    schedule = fields.get("schedule")
    if schedule is None:
        return {**fields, "schedule": {"kind": "null"}}
    of_dag = {"timezone": fields.get("timezone"), "dst_policy": fields.get("dst_policy")}
    named = {name: value for name, value in of_dag.items() if value is not None and (name, value) != UNSAID}
    if not isinstance(schedule, dict | BaseModel):
        schedule = timetable_for(schedule, fields.get("timezone", "UTC"), fields.get("schedule_kind", "data_interval"))
    return {**fields, "schedule": _as_the_dag_says(schedule, named)}


def _as_the_dag_says(schedule: Any, named: dict[str, Any]) -> Any:
    """*schedule*, also one within another, with what the DAG has *named* and it has not."""
    if isinstance(schedule, ZONED):
        missing = {name: value for name, value in named.items() if name not in schedule.model_fields_set}
        return schedule.model_copy(update=missing)
    if isinstance(schedule, AssetOrTime):
        return schedule.model_copy(update={"timetable": _as_the_dag_says(schedule.timetable, named)})
    if isinstance(schedule, dict) and str(schedule.get("kind")) in ZONED_KINDS:
        return {**named, **schedule}
    if isinstance(schedule, dict) and schedule.get("kind") == "asset_or_time" and "timetable" in schedule:
        return {**schedule, "timetable": _as_the_dag_says(schedule["timetable"], named)}
    return schedule


def timetable_for(schedule: Any, timezone: str, kind: ScheduleKind) -> dict[str, Any]:
    """The fields of the timetable that *schedule* is short for. Raises ValueError."""
    intervals = kind == "data_interval"
    match schedule:
        case "@once" | "@continuous":
            return {"kind": schedule[1:]}
        case str():
            return {
                "kind": "cron_interval" if intervals else "cron_trigger",
                "expression": schedule,
                "timezone": timezone,
            }
        case bool():
            pass
        case int() | float() | timedelta() | relativedelta():
            return {"kind": "delta_interval" if intervals else "delta_trigger", "delta": schedule}
        case Sequence() if schedule and all(isinstance(part, str) for part in schedule):
            return {"kind": "multi_cron_trigger", "expressions": tuple(schedule), "timezone": timezone}
        case _:
            pass
    raise ValueError(
        f"schedule = {schedule!r} is not understood. "
        "Give a cron string, a preset such as @daily, a timedelta, a timetable, or None"
    )
