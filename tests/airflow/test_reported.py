"""What people have reported of Airflow and its kin: files unchanged, by the engine and by `dags test`, alike."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow_stack import DAGS, PYTHON, airflow_place, emptied_out, needs_airflow, read_file, register
from forked_commands import forked
from support import Stack, eventually, stack
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.views import RunDetails
from tidemill.model.states import RunState

pytestmark = needs_airflow
FILE = DAGS / "reported.py"


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tasks write what they were given."""
    folder = emptied_out()
    monkeypatch.setenv("TEST_OUT", str(folder))
    return folder


@pytest.fixture
async def airflow(server: str, tmp_path: Path, out: Path) -> AsyncIterator[Stack]:
    home = tmp_path / "home"
    place = airflow_place(home)
    async with stack(server, home, place=place) as made:
        await register(made, (await asyncio.to_thread(read_file, place, FILE)).values())
        yield made


async def run_once(made: Stack, dag_id: str, **trigger: Any) -> RunDetails:
    run = await made.tidemill.runs.trigger(dag_id, TriggerRequest(**trigger))
    return await made.finished(dag_id, run.run_id)


def tried_alone(dag_id: str, folder: Path) -> tuple[str, int]:
    """`tidemill dags test` of a DAG: what it prints, and its exit code."""
    env = {**os.environ, "TIDEMILL_AIRFLOW_PYTHON": str(PYTHON), "COLUMNS": "200"}
    argv = [forked(), "dags", "test", str(FILE), dag_id]
    done = subprocess.run(argv, env=env, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr, done.returncode


def noted(out: Path, name: str) -> list[Any]:
    """What tasks have written, in an order of its own, and forgets it."""
    path = out / name
    if not path.exists():
        return []
    lines = path.read_text().splitlines()
    path.unlink()
    return [json.loads(line) for line in sorted(lines)]


@pytest.mark.thorough
async def test_kwargs_of_results(airflow: Stack, out: Path, tmp_path: Path) -> None:
    wanted = sorted([[1, 2], [3, 4]] * 3 + [[2, 1], [4, 3]])
    details = await run_once(airflow, "kwargs_of_results")
    assert details.state is RunState.SUCCESS
    assert noted(out, "pair") == wanted
    fields = [json.loads(path.read_text()) for path in airflow.home.glob("logs/**/*.log.rendered.json")]
    assert [1, 2] in [list(one.get("op_kwargs", {}).values()) for one in fields], "as Rendered Templates shows them"
    said, code = await asyncio.to_thread(tried_alone, "kwargs_of_results", tmp_path)
    assert code == 0, said
    assert noted(out, "pair") == wanted


async def test_each_instance_of_a_group_has_its_own_values(airflow: Stack, out: Path, tmp_path: Path) -> None:
    each, whole = [["a", "b"], ["z"], [4]], [[["a", "b"], [4], ["z"]]]
    await run_once(airflow, "values_in_groups")
    assert [noted(out, name) for name in ("first", "second", "after")] == [each, each, whole]
    said, code = await asyncio.to_thread(tried_alone, "values_in_groups", tmp_path)
    assert code == 0, said
    assert [noted(out, name) for name in ("first", "second", "after")] == [each, each, whole]


async def test_what_was_pushed_before_a_failure_arrives(airflow: Stack, out: Path, tmp_path: Path) -> None:
    wanted = [[200, "row 000199", [*range(12)]]]
    await run_once(airflow, "pushed_before_a_failure")
    assert noted(out, "report") == wanted
    await asyncio.to_thread(tried_alone, "pushed_before_a_failure", tmp_path)
    assert noted(out, "report") == wanted


async def test_callbacks_of_a_run_are_told_of_the_task_by_which_it_ended(airflow: Stack, out: Path) -> None:
    for dag_id, wanted in {
        "failed_in_its_middle": ["broken", -1, 2, "failed", "task_failure", "failed", True],
        "failed_in_one_index": ["third", 1, 1, "failed", "task_failure", "failed", True],
        "succeeded": ["only", -1, 1, "success", "success", "success", True],
    }.items():
        await run_once(airflow, dag_id)
        assert noted(out, f"{dag_id}.told") == [wanted]


async def test_what_is_no_number_is_refused_and_not_lost(airflow: Stack) -> None:
    details = await run_once(airflow, "no_number")
    assert {task.task_id: str(task.state) for task in details.tasks} == {"returns": "failed", "pushes": "failed"}
    assert all("JSON" in str(task.error) for task in details.tasks)


async def test_the_run_before_has_its_conf_and_each_says_who_asked_for_it(airflow: Stack, out: Path) -> None:
    first, second = (datetime(2026, 2, day, tzinfo=UTC) for day in (1, 2))
    dag_id = "conf_of_the_run_before"
    await run_once(airflow, dag_id, conf={"cursor": 5}, logical_date=first, triggering_user_name="ada")
    await run_once(airflow, dag_id, logical_date=second, triggering_user_name="bob")
    assert [[{"cursor": 5}, "ada"], [{}, "bob"]] in noted(out, "cursor")


@pytest.mark.parametrize(
    "conf", [{"day": "not a day"}, {"at": "2026-01-01"}, {"at": "2026-01-01T00:00:00"}, {"for": "an hour"}]
)
async def test_formats_of_params_are_checked_at_the_trigger(airflow: Stack, conf: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError, match=f"conf.{next(iter(conf))} = "):
        await airflow.tidemill.runs.trigger("formats", TriggerRequest(conf=conf))
    good = {"day": "2026-02-28", "at": "2026-01-01T00:00:00Z", "for": "P1DT2H"}
    assert (await run_once(airflow, "formats", conf=good)).state is RunState.SUCCESS


async def test_a_sensor_waits_for_a_task_of_a_run_that_is_queued(airflow: Stack, out: Path) -> None:
    first, second = (datetime(2026, 2, day, tzinfo=UTC) for day in (2, 3))
    await airflow.tidemill.runs.trigger("slow", TriggerRequest(logical_date=first))
    await airflow.tidemill.runs.trigger("slow", TriggerRequest(logical_date=second))
    run = await airflow.tidemill.runs.trigger("waits_for_a_queued_run", TriggerRequest(logical_date=second))

    def wait(details: RunDetails) -> bool:
        return {str(task.state) for task in details.tasks} == {"up_for_reschedule", "deferred"}

    await eventually(lambda: airflow.tidemill.runs.describe("waits_for_a_queued_run", run.run_id), wait)
    (out / "go_on").touch()
    details = await airflow.finished("waits_for_a_queued_run", run.run_id)
    assert {str(task.state) for task in details.tasks} == {"success"}, details.tasks


async def test_an_outlet_may_be_a_reference(airflow: Stack) -> None:
    await run_once(airflow, "writes_by_reference")
    [woken] = await airflow.all_finished("woken_by_reference", 1)
    assert woken.state is RunState.SUCCESS


async def test_why_a_run_cannot_be_started_is_said(airflow: Stack) -> None:
    await run_once(airflow, "succeeded", run_id="taken")
    details = await run_once(airflow, "starts_a_run_that_is_there")
    assert "run 'taken' of DAG 'succeeded' is there already" in str(details.tasks[0].error)


async def test_the_latest_result_of_another_dag_is_found_and_nobody_answers_input(airflow: Stack, out: Path) -> None:
    """Of runs up to the own logical date; Airflow 3.3.2 finds none, where the other DAG has no run of the same id."""
    for day in (1, 2, 4):
        date = datetime(2026, 2, day, tzinfo=UTC)
        await run_once(airflow, "pushes_daily", run_id=f"of_{day}", logical_date=date)
    details = await run_once(airflow, "pulls_the_latest_of_another", logical_date=datetime(2026, 2, 3, tzinfo=UTC))
    assert details.state is RunState.SUCCESS, details.tasks
    assert noted(out, "pulled") == ["nobody answers", "of_2"]
