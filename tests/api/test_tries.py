"""Tries as Airflow's API shows them."""

from __future__ import annotations

from tidemill.api.responses.dags import version_of
from tidemill.api.responses.tasks import ShownRun, instance_answer
from tidemill.api.routes.grid import gantt_rows
from tidemill.worker.local.run import run_locally

from tidemill import DAG, EmptyOperator, task


def test_a_try_that_was_tried_again_has_failed() -> None:
    """As Airflow records it: a page draws a bar that has no end for one that is up_for_retry."""
    with DAG("again", schedule=None) as dag:

        @task(retries=1, retry_delay=0)
        def second_time_lucky(ti=None) -> None:  # type: ignore[no-untyped-def]
            if ti.try_number == 1:
                raise ValueError("not yet")

        second_time_lucky()
    details = run_locally(dag)
    rows = gantt_rows(details, dag.spec())
    assert [(row["try_number"], row["state"]) for row in rows] == [(1, "failed"), (2, "success")]
    assert all(row["end_date"] for row in rows)


def test_an_instance_tells_its_version_so_that_the_web_offers_another_one() -> None:
    with DAG("versioned", schedule=None) as dag:
        EmptyOperator(task_id="a")
    details, spec = run_locally(dag), dag.spec()
    version = version_of(spec, (), details.run.run_after)
    shown = instance_answer(ShownRun(details.run, spec, version), details.tasks[0]).dag_version
    assert shown is not None
    assert (shown.version_number, shown.dag_id) == (1, "versioned")
