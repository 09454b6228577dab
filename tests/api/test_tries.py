"""Tries as Airflow's API shows them."""

from __future__ import annotations

from tidemill.api.routes.grid import gantt_rows
from tidemill.worker.local_run import run_locally

from tidemill import DAG, task


def test_a_try_that_was_tried_again_has_failed() -> None:
    """As Airflow records it: a page draws a bar that has no end for one that is up_for_retry."""
    with DAG("again", schedule=None) as dag:

        @task(retries=1, retry_delay=0)
        def second_time_lucky(ti=None) -> None:  # type: ignore[no-untyped-def]
            if ti.try_number == 1:
                raise ValueError("not yet")

        second_time_lucky()
    rows = gantt_rows(run_locally(dag), dag.spec())
    assert [(row["try_number"], row["state"]) for row in rows] == [(1, "failed"), (2, "success")]
    assert all(row["end_date"] for row in rows)
