"""What an author may write for `schedule`, and the timetable that it means."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal

from dateutil.relativedelta import relativedelta
from pydantic import BaseModel

from .timetables import CronInterval, CronTrigger, MultiCronTrigger

ZONED = (CronInterval, CronTrigger, MultiCronTrigger)
ZONED_KINDS = ("cron_interval", "cron_trigger", "multi_cron_trigger")
ScheduleKind = Literal["data_interval", "trigger"]


def read_schedule(fields: dict[str, Any]) -> dict[str, Any]:
    """*fields* of a DAG with `schedule` written out as a timetable.

    It has the DAG's `timezone` and `dst_policy` where it names none of its own.
    """
    schedule = fields.get("schedule")
    if schedule is None:
        return {**fields, "schedule": {"kind": "null"}}
    of_dag = {name: fields[name] for name in ("timezone", "dst_policy") if fields.get(name) is not None}
    if isinstance(schedule, ZONED):
        missing = {name: value for name, value in of_dag.items() if name not in schedule.model_fields_set}
        return {**fields, "schedule": schedule.model_copy(update=missing)}
    if isinstance(schedule, BaseModel):
        return fields
    if isinstance(schedule, dict):
        zoned = str(schedule.get("kind")) in ZONED_KINDS
        return {**fields, "schedule": {**of_dag, **schedule}} if zoned else fields
    made = timetable_for(schedule, fields.get("timezone", "UTC"), fields.get("schedule_kind", "data_interval"))
    return {**fields, "schedule": {**of_dag, **made} if made["kind"] in ZONED_KINDS else made}


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
