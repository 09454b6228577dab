"""What is refused fails the task that asked for it, with the words: never a success, a default or a wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from airflow_stack import DAGS, airflow_place, emptied_out, needs_airflow, read_file, register
from support import Stack, stack
from tidemill.activities.attempts.key_values import VARIABLES, KeyValues
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.views import RunDetails

pytestmark = needs_airflow


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tasks write how often they have run."""
    folder = emptied_out()
    monkeypatch.setenv("TEST_OUT", str(folder))
    return folder


@pytest.fixture
async def airflow(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: Path) -> AsyncIterator[Stack]:
    assert out
    monkeypatch.setenv("TIDEMILL_CONN_UNREADABLE", "{no json")
    home = tmp_path / "home"
    place = airflow_place(home)
    async with stack(server, home, place=place) as made:
        await register(made, (await asyncio.to_thread(read_file, place, DAGS / "refused.py")).values())
        yield made


async def run_once(made: Stack, dag_id: str, **conf: Any) -> RunDetails:
    run = await made.tidemill.runs.trigger(dag_id, TriggerRequest(conf=conf))
    return await made.finished(dag_id, run.run_id)


async def test_a_trigger_that_is_refused_fails_its_task(airflow: Stack) -> None:
    details = await run_once(airflow, "refused_triggers")
    found = {task.key: (str(task.state), task.error or "") for task in details.tasks}
    assert {state for state, _ in found.values()} == {"failed"}, found
    for key in ("gone", "wait", "defer"):
        assert "DAG 'no_such_dag'" in found[key][1]
    assert "conf.n = 'not a number'" in found["conf"][1]
    assert "n = inf" in found["infinite"][1]
    assert "conf.n = 'x'" in found["mapped[0]"][1]
    assert not await airflow.tidemill.runs.list("takes_a_number")


async def test_what_cannot_be_kept_or_read_fails_its_task(airflow: Stack) -> None:
    kept = KeyValues.beside((airflow.home / "xcom").as_uri())
    kept.put(VARIABLES, "broken", "a value")
    [file] = (airflow.home / "xcom" / "_values" / VARIABLES).iterdir()
    file.write_text(file.read_text()[:12])
    details = await run_once(airflow, "refused_values")
    found = {task.task_id: (str(task.state), task.error or "") for task in details.tasks}
    assert found.pop("named")[0] == "success"
    assert {state for state, _ in found.values()} == {"failed"}, found
    assert kept.keys(VARIABLES)[-1] == "ü" * 100
    for key in ("large", "state"):
        assert "may have 1,048,576" in found[key][1]
    for key in ("broken", "broken_in_template"):
        assert "JSONDecodeError" in found[key][1]
    assert "connection 'unreadable' cannot be read" in found["unreadable"][1]


async def test_what_cannot_be_encoded_is_the_try_s_own_end(airflow: Stack, out: Path) -> None:
    details = await run_once(airflow, "undecodable")
    assert {path.name: path.read_text() for path in out.iterdir()} == dict.fromkeys(
        ("raises", "skips", "returns", "pushes"), "x"
    )
    found = {task.task_id: (str(task.state), task.try_number, task.error or task.why) for task in details.tasks}
    assert found["raises"] == ("failed", 1, "ValueError: cannot read caf\\udce9.csv")
    assert found["skips"][:2] == ("skipped", 1)
    for key in ("returns", "pushes"):
        assert found[key][:2] == ("failed", 1)
        assert "surrogates not allowed" in found[key][2], "as Airflow's SDK says it"


async def test_variables_of_tasks_are_those_of_people(airflow: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(**conf: Any) -> Any:
        details = await run_once(airflow, "sets_a_cursor", **conf)
        assert str(details.state) == "success", details.tasks
        return await airflow.result_of(details, "move")

    kept = KeyValues.beside((airflow.home / "xcom").as_uri())
    assert await read(to="monday") == "monday"
    found = kept.find(VARIABLES, "cursor")
    assert found is not None
    assert (found.value, found.description) == ("monday", "the last day")
    kept.put(VARIABLES, "cursor", "sunday")  # as a person does
    assert await read() == "sunday"
    assert await read(delete=True) is None
    monkeypatch.setenv("AIRFLOW_VAR_CURSOR", "fixed")
    assert await read(to="tuesday") == "fixed", "the environment goes before what is kept, as in Airflow"
