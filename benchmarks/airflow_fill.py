"""Fills the database of an Airflow whose lists are measured. Runs with Airflow's own interpreter: DAGS RUNS."""

import sys
from datetime import UTC, datetime, timedelta

from airflow import settings
from airflow.models import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.utils.state import DagRunState
from sqlalchemy import func, insert, select

PART = 5000


def fill(dags: int, runs: int) -> None:
    """Sees to it that there are so many DAGs, and runs of the first hundred of them in turn."""
    now = datetime.now(UTC)
    with settings.Session() as session:
        if session.get(DagBundleModel, "bench") is None:
            session.add(DagBundleModel(name="bench"))
            session.commit()
        there = session.scalar(select(func.count()).select_from(DagModel)) or 0
        rows = [
            {
                "dag_id": f"b_real_{n:05}", "is_paused": False, "is_stale": False, "bundle_name": "bench",
                "fileloc": "/dags/x.py", "relative_fileloc": "x.py", "timetable_summary": "0 6 * * *",
                "timetable_description": "", "timetable_partitioned": False, "timetable_periodic": True,
                "max_active_tasks": 16, "max_active_runs": 16, "max_consecutive_failed_dag_runs": 0,
                "has_task_concurrency_limits": False, "last_parsed_time": now,
            }
            for n in range(there, dags)
        ]  # fmt: skip
        for part in range(0, len(rows), PART):
            session.execute(insert(DagModel.__table__), rows[part : part + PART])
        known = session.scalar(select(func.count()).select_from(DagRun)) or 0
        made = [
            {
                "dag_id": f"b_real_{n % 100:05}", "run_id": f"old{n:06}", "run_type": "manual", "clear_number": 0,
                "run_after": now - timedelta(hours=runs - n), "logical_date": now - timedelta(hours=runs - n),
                "queued_at": now - timedelta(hours=runs - n), "start_date": now - timedelta(hours=runs - n),
                "end_date": now - timedelta(hours=runs - n), "state": DagRunState.SUCCESS, "span_status": "ended",
            }
            for n in range(known, runs)
        ]  # fmt: skip
        for part in range(0, len(made), PART):
            session.execute(insert(DagRun.__table__), made[part : part + PART])
        session.commit()


if __name__ == "__main__":
    settings.initialize()
    fill(int(sys.argv[1]), int(sys.argv[2]))
