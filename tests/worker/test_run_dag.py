"""Tests of DAGs with the fixture `run_dag`: as the page has them, and what may stand in for the work of a task."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tidemill.model.errors import InvalidInputError
from tidemill.model.exceptions import AirflowSkipException
from tidemill.worker.local.pytest_plugin import RunDag

from tidemill import DAG, BashOperator, EmptyOperator, Variable, task

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def call(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False)


def made() -> DAG:
    with DAG("stood_in", schedule=None) as dag:

        @task(retries=2, retry_delay=0)
        def extract() -> list[int]:
            raise AssertionError("this is a test: nothing is extracted")

        @task
        def double(n: int) -> int:
            return 2 * n * int(Variable.get("factor", "1"))

        @task
        def total(numbers: list[int]) -> int:
            return sum(numbers)

        total(double.expand(n=extract())) >> EmptyOperator(task_id="end", trigger_rule="none_failed")
    return dag


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    assert call(tmp_path, "-m", "tidemill.worker", "init", "mine").returncode == 0
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for number, block in enumerate(blocks):
        (tmp_path / "mine" / "tests" / f"test_page_{number}.py").write_text(block)
    tested = call(tmp_path / "mine", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert f"{2 + len(blocks)} passed" in tested.stdout, tested.stdout + tested.stderr
    assert len(blocks) == 3


def test_results_stand_in_for_work_and_what_follows_works(run_dag: RunDag) -> None:
    run = run_dag(made(), outcomes={"extract": [1, 2]}, variables={"factor": 10})
    assert (run.state, run.run.logical_date is not None) == ("success", True)
    assert {one.key for one in run.tasks} == {"extract", "double[0]", "double[1]", "total", "end"}
    assert {str(one.state) for one in run.tasks} == {"success"}


def test_a_function_stands_in_for_each_try(run_dag: RunDag) -> None:
    def extract(try_number: int) -> list[int]:
        if try_number < 3:
            raise TimeoutError("no answer")
        return []

    run = run_dag(made(), outcomes={"extract": extract, "total": 0}, logical_date=datetime(2026, 1, 1, tzinfo=UTC))
    tries = {one.key: one.try_number for one in run.tasks}
    assert (run.state, tries["extract"]) == ("success", 3)
    assert run.run.logical_date == datetime(2026, 1, 1, tzinfo=UTC)


def test_an_exception_fails_or_skips(run_dag: RunDag) -> None:
    run = run_dag(made(), outcomes={"extract": [1, 2, 3], "double[1]": ValueError, "total": 0})
    states = {one.key: str(one.state) for one in run.tasks}
    assert (states["double[0]"], states["double[1]"], states["total"]) == ("success", "failed", "upstream_failed")
    assert run.state == "failed"
    run = run_dag(made(), outcomes={"extract": AirflowSkipException("a holiday")})
    states = {one.key: str(one.state) for one in run.tasks}
    assert (states["extract"], states["total"], states["end"], run.state) == (
        "skipped",
        "skipped",
        "success",
        "success",
    )


def test_what_names_no_task_is_refused(run_dag: RunDag) -> None:
    with pytest.raises(InvalidInputError, match=r"has no task 'extrakt'. It has extract, double, total, end"):
        run_dag(made(), outcomes={"extrakt": 1})


def test_spark_and_commands_need_not_be_there(run_dag: RunDag) -> None:
    with DAG("commands", schedule=None) as dag:
        BashOperator(task_id="says", bash_command="exit 3")
    assert run_dag(dag, outcomes={"says": "fine"}).state == "success"
    assert run_dag(dag).state == "failed"
