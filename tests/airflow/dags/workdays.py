"""A timetable of one's own, as Airflow's users write them, and assets that wait for each other."""

from __future__ import annotations

import pendulum
from airflow.sdk import DAG, Asset, AssetAlias, Metadata, Variable, task
from airflow.timetables.base import DagRunInfo, DataInterval, Timetable

written, found = Asset("written", uri="file:///written"), AssetAlias("found")


class EveryTwoHours(Timetable):
    """A run every two hours, about the two before."""

    def infer_manual_data_interval(self, *, run_after):
        return DataInterval(run_after.subtract(hours=2), run_after)

    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        start = last_automated_data_interval.end if last_automated_data_interval else restriction.earliest
        return DagRunInfo.interval(start=start, end=start.add(hours=2))

    def serialize(self):
        return {}

    @classmethod
    def deserialize(cls, data):
        return cls()


with DAG("of_ones_own", schedule=EveryTwoHours(), start_date=pendulum.datetime(2026, 1, 1), catchup=True):

    @task
    def start(data_interval_start=None):
        return data_interval_start.isoformat()

    start()

with DAG("producer", schedule=None):

    @task(outlets=[written, found])
    def write(outlet_events=None):
        outlet_events[written].extra = {"rows": 3}
        yield Metadata(Asset("come_upon", uri="file:///come_upon"), {"by": "alias"}, alias=found)

    write()

with DAG("consumer", schedule=[written]):

    @task(inlets=[written])
    def read(triggering_asset_events=None, inlet_events=None):
        events = triggering_asset_events[written]
        return [events[0].extra["rows"], inlet_events[written][-1].extra["rows"]]

    read()

with DAG("consumer_by_alias", schedule=[found]):

    @task
    def names(triggering_asset_events=None):
        return [event.asset.name for event in triggering_asset_events[found]]

    names()

if Variable.get("never_set", default=None) is not None:
    raise AssertionError("there is no such variable")
