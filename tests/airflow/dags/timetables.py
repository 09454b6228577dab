"""Timetables of one's own, as public reports have them."""

from datetime import timedelta

import pendulum
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, CronTriggerTimetable
from airflow.timetables.base import DagRunInfo, DataInterval, Timetable
from airflow.timetables.events import EventsTimetable
from airflow.timetables.interval import CronDataIntervalTimetable
from pendulum import Time


def utc(*parts):
    return pendulum.datetime(*parts, tz="UTC")


class OfOnesOwn(Timetable):
    """What every one of them has."""

    def infer_manual_data_interval(self, *, run_after):
        return DataInterval.exact(run_after)


class AtFour(OfOnesOwn):
    """A day, from four o'clock of the next one on."""

    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        start = last_automated_data_interval.end if last_automated_data_interval else restriction.earliest
        if restriction.latest and start > restriction.latest:
            return None
        end = start.add(days=1)
        return DagRunInfo(data_interval=DataInterval(start, end), run_after=end.at(4))


class Once(OfOnesOwn):
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        return None if last_automated_data_interval else DagRunInfo.exact(restriction.earliest)


class WithoutEnd(OfOnesOwn):
    """Does not look at the DAG's end_date."""

    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        start = last_automated_data_interval.end if last_automated_data_interval else restriction.earliest
        return DagRunInfo.interval(start, start.add(days=1))


class Workdays(OfOnesOwn):
    """The workday before, at a time of the day."""

    def __init__(self, at=Time(8)):
        self.at = at

    def serialize(self):
        return {"at": self.at.isoformat()}

    @classmethod
    def deserialize(cls, data):
        return cls(Time.fromisoformat(data["at"]))

    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        if last_automated_data_interval:
            start = last_automated_data_interval.start.add(days=1)
        else:
            start = restriction.earliest
            if start.time() > self.at:
                start = start.add(days=1)
        start = start.set(hour=0, minute=0, second=0, microsecond=0)
        while start.weekday() > 4:
            start = start.add(days=1)
        if restriction.latest and start > restriction.latest:
            return None
        end = start.add(days=1)
        return DagRunInfo(run_after=end.at(self.at.hour, self.at.minute), data_interval=DataInterval(start, end))


class Named(CronDataIntervalTimetable):
    def generate_run_id(self, *, data_interval, **_):
        return data_interval.start.strftime("%Y%m%d%H%M%S")


class NamedByMonth(CronDataIntervalTimetable):
    """Calls several runs alike."""

    def generate_run_id(self, *, data_interval, **_):
        return data_interval.start.strftime("%Y-%m")


class WithoutHolidays(CronDataIntervalTimetable):
    def _get_next(self, current):
        found = super()._get_next(current)
        while (found.month, found.day) == (6, 19):
            found = super()._get_next(found)
        return found


class Broken(OfOnesOwn):
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        raise RuntimeError("the calendar is not there")


def day_of_chicago(day):
    return pendulum.datetime(2023, 8, day, 1, tz="America/Chicago")


SCHEDULES = {
    "events": (EventsTimetable([day_of_chicago(n) for n in (1, 2, 3)]), utc(2023, 8, 1), None),
    "at_four": (AtFour(), utc(2026, 1, 1), utc(2026, 1, 3)),
    "once": (Once(), utc(2024, 1, 1), None),
    "without_end": (WithoutEnd(), utc(2024, 1, 1), utc(2024, 1, 2)),
    "workdays": (Workdays(Time(8)), utc(2023, 10, 12, 5), utc(2023, 10, 16)),
    "named": (Named("@daily", "UTC"), utc(2025, 9, 15), utc(2025, 9, 16)),
    "named_alike": (NamedByMonth("@daily", "UTC"), utc(2025, 9, 15), utc(2025, 9, 16)),
    "without_holidays": (WithoutHolidays("0 0 * * 1-5", "UTC"), utc(2023, 6, 15), utc(2023, 6, 20)),
    "weekly": (
        CronTriggerTimetable("10 0 * * 7", timezone="UTC", interval=timedelta(days=7)),
        utc(2025, 1, 5),
        utc(2025, 1, 12, 12),
    ),
    "broken": (Broken(), utc(2024, 1, 1), None),
}
for dag_id, (schedule, start, end) in SCHEDULES.items():
    with DAG(dag_id, schedule=schedule, start_date=start, end_date=end, catchup=True):
        EmptyOperator(task_id="only")
