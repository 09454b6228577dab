"""Timetables, from what Airflow's own encoder writes of them: pure.

A class of the user's own is asked in a process that has Airflow, by `timetable.AirflowTimetable`.
"""

from datetime import timedelta
from typing import Any

from ....model.spec.zones import offset_name
from .assets import TYPE, VAR, condition_of, partitioned_of

OWN = "tidemill.activities.work.airflow.timetable:AirflowTimetable"
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
PLACES = ("airflow.timetables.",)


def timetable_of(written: dict[str, Any], *, periodic: bool = True) -> dict[str, Any]:
    """The fields of the timetable, as tidemill's models read it; *periodic* is said of a class of one's own."""
    path, fields = written[TYPE], written[VAR]
    if not path.startswith(PLACES):
        return {"kind": "custom", "name": OWN, "arguments": {"path": path, "data": fields}, "periodic_runs": periodic}
    match path.rpartition(".")[2]:
        case "NullTimetable" | "PartitionedAtRuntime":
            return {"kind": "null"}
        case "OnceTimetable":
            return {"kind": "once"}
        case "ContinuousTimetable":
            return {"kind": "continuous"}
        case "EventsTimetable":
            return {
                "kind": "events",
                "event_dates": fields["event_dates"],
                "restrict_to_events": fields["restrict_to_events"],
            }
        case "AssetTriggeredTimetable":
            return {"kind": "asset", "condition": condition_of(fields["asset_condition"])}
        case "PartitionedAssetTimetable":
            return {"kind": "partitioned_asset", "partitioned": partitioned_of(fields)}
        case "AssetOrTimeSchedule":
            timetable = timetable_of(fields["timetable"])
            return {
                "kind": "asset_or_time",
                "condition": condition_of(fields["asset_condition"]),
                "timetable": timetable,
            }
        case name:
            return {"kind": KINDS[name], **_of_time(fields)}


KINDS = {
    "CronDataIntervalTimetable": "cron_interval",
    "CronTriggerTimetable": "cron_trigger",
    "MultipleCronTriggerTimetable": "multi_cron_trigger",
    "CronPartitionTimetable": "cron_partition",
    "DeltaDataIntervalTimetable": "delta_interval",
    "DeltaTriggerTimetable": "delta_trigger",
}


def _of_time(fields: dict[str, Any]) -> dict[str, Any]:
    found = {**fields}
    for name in ("delta", "interval"):
        if name in found:
            found[name] = _step(found[name])
    if isinstance(zone := found.get("timezone"), int | float):  # a fixed offset, in seconds
        whole = zone % 3600 == 0 and -12 <= zone // 3600 <= 14  # as releases before have written it
        found["timezone"] = f"Etc/GMT{-int(zone) // 3600:+d}" if whole else offset_name(timedelta(seconds=zone))
    if not found.get("run_immediately") and "run_immediately" in found:
        del found["run_immediately"]
    return {name: value for name, value in found.items() if value is not None}


def _step(written: float | dict[str, Any]) -> Any:
    if not isinstance(written, dict):
        return written
    weekday = written.get("weekday")
    if weekday is None:
        return written
    number = weekday[1] if len(weekday) > 1 else None
    return {**written, "weekday": (WEEKDAYS[weekday[0]], number)}
