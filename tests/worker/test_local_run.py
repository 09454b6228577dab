"""`tidemill dags test`, by the function behind it: tries, branches and short circuits as in the engine."""

from __future__ import annotations

from datetime import UTC, datetime

from tidemill.worker.local_run import run_locally

from tidemill import DAG, EmptyOperator, task

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_task_is_tried_as_often_as_it_may_be() -> None:
    tries: list[int] = []
    with DAG("again", schedule=None, start_date=START) as dag:

        @task(retries=2)
        def third_time_lucky() -> int:
            tries.append(1)
            if len(tries) < 3:
                raise ValueError("not yet")
            return len(tries)

        third_time_lucky()
    details = run_locally(dag)
    assert (str(details.state), details.tasks[0].try_number) == ("success", 3)
    assert [str(attempt.state) for attempt in details.tasks[0].attempts] == ["up_for_retry", "up_for_retry", "success"]


def test_a_branch_and_a_short_circuit_skip() -> None:
    with DAG("ways", schedule=None, start_date=START) as dag:

        @task.branch
        def choose() -> str:
            return "left"

        @task.short_circuit
        def stop() -> bool:
            return False

        choose() >> [EmptyOperator(task_id="left"), EmptyOperator(task_id="right")]
        stop() >> EmptyOperator(task_id="never")
    states = {found.task_id: str(found.state) for found in run_locally(dag).tasks}
    assert states == {"choose": "success", "stop": "success", "left": "success", "right": "skipped", "never": "skipped"}
