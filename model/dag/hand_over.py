"""Where another scheduler has left a DAG."""

from ..base import Request
from ..spec.timetables import DataInterval


class HandOver(Request):
    """The last run that another scheduler has made of a DAG's schedule."""

    last_interval: DataInterval
    by: str = "Airflow"
