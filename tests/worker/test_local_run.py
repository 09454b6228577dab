"""`tidemill dags test`, by the function behind it: tries, branches and short circuits as in the engine."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tidemill.model.run.task_instances import Outcome
from tidemill.worker.local.run import run_locally, try_locally

from tidemill import DAG, CommandNotifier, EmptyOperator, PythonSensor, task

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_dag_is_tested_for_now_and_with_airflow_s_run_conf() -> None:
    with DAG("now", schedule=None, start_date=START) as dag:

        @task
        def day(ds: str, dag_run: Any) -> list[Any]:
            return [ds, dag_run.conf]

        day()
    details = dag.test(run_conf={"a": 1})
    assert str(details.state) == "success"
    assert details.run.logical_date is not None
    assert dag.test(START).run.logical_date == START


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


def test_one_task_is_tried_whatever_its_rule_and_its_dates_say() -> None:
    with DAG("alone", schedule="@daily", start_date=START, catchup=True) as dag:

        @task(start_date=datetime(2030, 1, 1, tzinfo=UTC), trigger_rule="one_failed", retries=1, retry_delay=0)
        def later(ti=None) -> int:  # type: ignore[no-untyped-def]
            if ti.try_number > 1:
                raise ValueError("it was tried again")
            return 7

        EmptyOperator(task_id="before") >> later()
    outcome = try_locally(dag, "later", logical_date=START)
    assert isinstance(outcome, Outcome)
    assert outcome.xcom == {"return_value": 7}


def test_callbacks_are_called(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Those of tasks and of the DAG, in this process; a command as on a worker. One that fails changes nothing."""
    told: list[tuple[str, str]] = []

    def tells(name: str) -> Callable[[dict[str, Any]], None]:
        def callback(context: dict[str, Any]) -> None:
            told.append((name, context["ti"].task_id if name != "run" else context["dag_run"].run_id))

        return callback

    def breaks(context: dict[str, Any]) -> None:
        raise ValueError("the callback is broken")

    mark = tmp_path / "mark"
    with DAG(
        "tells",
        schedule=None,
        start_date=START,
        on_failure_callback=[tells("run"), CommandNotifier(command=f"echo $TIDEMILL_STATE > {mark}")],
    ) as dag:

        @task(
            retries=1,
            retry_delay=0,
            on_execute_callback=tells("execute"),
            on_retry_callback=tells("retry"),
            on_failure_callback=[breaks, tells("failure")],
        )
        def fails() -> None:
            raise RuntimeError("it fails")

        fails()
    details = run_locally(dag)
    tries = [("execute", "fails"), ("retry", "fails"), ("execute", "fails"), ("failure", "fails")]
    assert told == [*tries, ("run", details.run.run_id)]
    assert (str(details.state), mark.read_text()) == ("failed", "failed\n")
    assert "the callback is broken" in capsys.readouterr().out


def test_a_sensor_pokes_on_while_other_tasks_run() -> None:
    with DAG("pokes", schedule=None) as dag:
        pokes: list[int] = []
        PythonSensor(task_id="third", python_callable=lambda: pokes.append(1) or len(pokes) == 3, poke_interval=60)
    details = run_locally(dag)
    assert (str(details.state), len(pokes), details.tasks[0].try_number) == ("success", 3, 1)
