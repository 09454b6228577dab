"""Tidemill inside a worker of the user's own."""

import os
import subprocess
import sys
from pathlib import Path

from support import at, bash, dag, stack
from temporalio.client import Client
from temporalio.worker import Worker
from tidemill.examples.plugin import Greeting, greet
from tidemill.model.dag.views import DagView
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin.py"


def test_the_example_runs(server: str, tmp_path: Path) -> None:
    env = {**os.environ, "TEMPORAL_ADDRESS": server}
    done = subprocess.run(
        [sys.executable, "-P", str(EXAMPLE)], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    # On a busy machine, the SDK's core writes warnings of its own there, too.
    lines = [line for line in done.stdout.splitlines() if not line.startswith("\x1b[2m")]
    assert lines[0] == "Hello, Temporal"
    assert lines[1].startswith("manual__")
    assert lines[1].endswith(" success")


def test_a_scheduler_of_ones_own_asks_for_runs_from_a_plain_workflow(server: str, tmp_path: Path) -> None:
    example = EXAMPLE.with_name("own_scheduler.py")
    env = {**os.environ, "TEMPORAL_ADDRESS": server}
    done = subprocess.run(
        [sys.executable, "-P", str(example)], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("working_day__")]
    assert lines == ["working_day__2025-12-23 success", "working_day__2025-12-26 success"]


async def test_what_the_owner_set_stays(server: str, tmp_path: Path) -> None:
    client = await Client.connect(server, plugins=[TidemillPlugin(tmp_path)])
    async with Worker(
        client, task_queue="owners", workflows=[Greeting], activities=[greet], max_concurrent_activities=3
    ) as worker:
        assert worker.config(active_config=True)["max_concurrent_activities"] == 3
        assert await client.execute_workflow(Greeting.run, "you", id="waiting", task_queue="owners") == "Hello, you"


async def test_a_client_with_the_plugin_reads_models(server: str, tmp_path: Path) -> None:
    async with stack(server, tmp_path) as made:
        await made.tidemill.dags.register(dag("models", [bash("a", "true")], start_date=at("2024-01-01")))
        assert isinstance(await Tidemill(made.tidemill.client, made.task_queue).dags.describe("models"), DagView)
