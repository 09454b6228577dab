"""Tidemill through Temporal's own command line, with the commands of docs/temporal.md."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support import Stack, eventually
from tidemill.worker.app.dev import temporal_binary

EXAMPLE = Path(__file__).parents[2] / "examples" / "hello.json"


async def temporal(here: Stack, *arguments: str, code: int = 0) -> str:
    command = [temporal_binary(), *arguments, "--address", here.address]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, f"exit code {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return str(done.stdout + done.stderr)


def start(here: Stack, dag_id: str, *rest: str) -> list[str]:
    return [
        "workflow",
        "start",
        "--type",
        "Dag",
        "--task-queue",
        here.task_queue,
        "--workflow-id",
        f"dag:{dag_id}",
        *rest,
    ]


async def test_registering_signalling_and_asking(here: Stack) -> None:
    await temporal(here, *start(here, "hello", "--input-file", str(EXAMPLE)))
    await eventually(lambda: here.tidemill.dags.describe("hello"), lambda view: view.next_dagrun is not None)
    await temporal(here, "workflow", "signal", "--workflow-id", "dag:hello", "--name", "pause")
    await eventually(lambda: here.tidemill.dags.describe("hello"), lambda v: v.is_paused)
    await temporal(here, "workflow", "signal", "--workflow-id", "dag:hello", "--name", "unpause")
    trigger = ["workflow", "signal", "--workflow-id", "dag:hello", "--name", "trigger"]
    await temporal(here, *trigger, "--input", '{"run_id": "from_signal", "conf": {"name": "you"}}')
    await temporal(here, *trigger)
    await here.finished("hello", "from_signal")
    assert here.log_of("hello", "from_signal", "shout").strip() == "HELLO YOU, IT IS NO PARTICULAR TIME"
    update = ["workflow", "update", "execute", "--workflow-id", "dag:hello", "--name", "trigger_run"]
    made = await temporal(here, *update, "--input", '{"run_id": "from_update"}')
    assert "from_update" in made
    refused = await temporal(here, *update, "--input", '{"run_id": "from_update"}', code=1)
    assert "run_id is taken by run 'from_update'" in refused
    asked = await temporal(here, "workflow", "query", "--workflow-id", "dag:hello", "--type", "describe", "-o", "json")
    assert json.loads(asked)["queryResult"][0]["dag_id"] == "hello"


async def test_registering_a_new_version(here: Stack) -> None:
    await temporal(here, *start(here, "hello", "--input-file", str(EXAMPLE)))
    await here.tidemill.dags.describe("hello")  # begun: what comes with the start is part of the start
    register = ["workflow", "update", "execute", "--workflow-id", "dag:hello", "--name", "register"]
    changed = json.dumps({**json.loads(EXAMPLE.read_text()), "schedule": "@hourly"})
    assert "change:changed" in await temporal(here, *register, "--input", changed)
    assert (await here.tidemill.dags.describe("hello")).schedule["expression"] == "@hourly"
    bad = json.dumps({**json.loads(EXAMPLE.read_text()), "max_active_runs": 0})
    assert "max_active_runs = 0" in await temporal(here, *register, "--input", bad, code=1)
    assert (await here.tidemill.dags.describe("hello")).schedule["expression"] == "@hourly"


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        (['{"dag_id": "bad", "max_active_runs": 0}'], "max_active_runs = 0"),
        (['{"dag_id": "bad", "schedule": "61 * * * *"}'], "cannot read cron expression '61 * * * *'"),
        (['{"dag_id": "bad", "nonsense": 1}'], "nonsense = 1: no such field"),
        (['"text"'], "a DAG is a JSON object, not str"),
        ([], "0 inputs were given. Give exactly one"),
        (['{"dag_id": "bad"}', '{"dag_id": "bad"}'], "2 inputs were given. Give exactly one"),
    ],
)
async def test_bad_input_fails_the_start_at_once_and_leaves_nothing_trying(
    here: Stack, inputs: list[str], told: str
) -> None:
    given = [part for text in inputs for part in ("--input", text)]
    await temporal(here, *start(here, "bad", *given))
    handle = here.tidemill.client.get_workflow_handle("dag:bad")
    failed = await eventually(handle.describe, lambda found: found.status is not None and found.status.name == "FAILED")
    assert failed.history_length <= 10
    result: Any = await temporal(here, "workflow", "result", "--workflow-id", "dag:bad", code=1)
    assert told in result
