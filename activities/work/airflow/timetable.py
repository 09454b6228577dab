"""A Timetable class that somebody has written for Airflow, asked as tidemill asks timetables."""

from __future__ import annotations

import re
from datetime import datetime
from importlib import import_module
from typing import Any

from ....model.run.context_views import date_of
from ....model.run.identity import LONGEST_RUN_ID, RUN_ID, RunType
from ....model.spec.timetables import DagRunInfo, DataInterval, TimeRestriction

NAMED = (RunType.SCHEDULED, RunType.BACKFILL)
"""The runs that a timetable names: those that it asks for."""


class AirflowTimetable:
    """The class at *path* (`package.module:Class`), made from what it has serialized of itself."""

    def __init__(self, path: str, data: dict[str, Any]) -> None:
        module, _, name = path.partition(":")
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        self._timetable = found.deserialize(data)

    def next_dagrun_info(
        self,
        last: DataInterval | None,
        restriction: TimeRestriction,
        now: datetime,  # noqa: ARG002 - Airflow's read the clock
    ) -> DagRunInfo | None:
        """The run that follows the one over *last*."""
        from airflow.timetables import base

        info = self._timetable.next_dagrun_info(
            last_automated_data_interval=_theirs(last),
            restriction=base.TimeRestriction(
                date_of(restriction.earliest), date_of(restriction.latest), restriction.catchup
            ),
        )
        if info is None:
            return None
        interval = _ours(info.data_interval, info.run_after)
        if restriction.latest is not None and interval.start > restriction.latest:
            return None  # a class need not look at the DAG's end_date
        return DagRunInfo(
            run_after=_plain(info.run_after), data_interval=interval, run_ids=self._own_ids(info.run_after, interval)
        )

    def _own_ids(self, run_after: datetime, interval: DataInterval) -> dict[str, str]:
        """What the class calls the run, by its type; nothing where it leaves that to Airflow."""
        from airflow.timetables import base
        from airflow.utils.types import DagRunType

        if type(self._timetable).generate_run_id is base.Timetable.generate_run_id:
            return {}
        known = {"run_after": date_of(_plain(run_after)), "data_interval": _theirs(interval)}
        found = {str(kind): str(self._timetable.generate_run_id(run_type=DagRunType(kind), **known)) for kind in NAMED}
        for run_id in found.values():
            if re.fullmatch(RUN_ID, run_id) is None or len(run_id) > LONGEST_RUN_ID or run_id in (".", ".."):
                rule = f"it has to match {RUN_ID}, and to have {LONGEST_RUN_ID} characters at most"
                raise ValueError(f"generate_run_id gives {run_id[:300]!r}, which is no run_id: {rule}")
        return found

    def manual_interval(self, run_after: datetime) -> DataInterval:
        """The interval of a manual run."""
        return _ours(self._timetable.infer_manual_data_interval(run_after=date_of(run_after)), run_after)


def _theirs(interval: DataInterval | None) -> Any:
    from airflow.timetables import base

    if interval is None:
        return None
    return base.DataInterval(date_of(interval.start), date_of(interval.end))


def _ours(interval: Any, run_after: datetime) -> DataInterval:
    if interval is None:
        return DataInterval.exact(run_after)
    return DataInterval(start=_plain(interval.start), end=_plain(interval.end))


def _plain(at: datetime) -> datetime:
    """*at* without pendulum, whose dates lose their zone when one of datetime's own is put on them."""
    return datetime.fromisoformat(at.isoformat())
