"""Worker Versioning: a run stays with the build that it began with, the next one begins with the current build."""

import asyncio
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from support import bash, dag, eventually, temporal_server, worker_environment, worker_process
from temporalio.client import Client
from tidemill.model.run.identity import RunIdentity, TriggerRequest
from tidemill.model.states import RunState
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin
from tidemill.worker.service.connection import clear_errors

TEMPORAL = str(Path(sys.executable).with_name("temporal"))


async def make_current(address: str, build_id: str) -> bool:
    arguments = [
        "worker",
        "deployment",
        "set-current-version",
        "--deployment-name",
        "tm",
        "--build-id",
        build_id,
        "--yes",
    ]
    done = await asyncio.to_thread(
        subprocess.run, [TEMPORAL, *arguments, "--address", address], capture_output=True, check=False
    )
    return done.returncode == 0


async def build_of(tidemill: Tidemill, run: RunIdentity) -> str:
    async with clear_errors("the run", tidemill.task_queue):  # it may not have begun yet
        found = await tidemill.client.get_workflow_handle(run.workflow_id).describe()
    return found.raw_description.workflow_execution_info.versioning_info.deployment_version.build_id


@pytest.mark.thorough
async def test_a_run_stays_with_the_build_that_it_began_with(tmp_path: Path) -> None:
    queue, go_on = f"test-{uuid.uuid4().hex[:8]}", tmp_path / "go_on"
    with temporal_server(tmp_path / "server") as address:
        client = await Client.connect(address, plugins=[TidemillPlugin(tmp_path / "own")])
        tidemill = Tidemill(client, queue)
        env = {**worker_environment(address, tmp_path / "home", queue), "TIDEMILL_DEPLOYMENT_NAME": "tm"}
        task = bash("a", f"while [ ! -e {go_on} ]; do sleep 0.1; done")
        with worker_process({**env, "TIDEMILL_BUILD_ID": "one"}):
            await eventually(lambda: make_current(address, "one"), bool)
            await eventually(lambda: tidemill.dags.register(dag("versioned", [task, bash("b", "true", "a")])), bool)
            first = await tidemill.runs.trigger("versioned", TriggerRequest(run_id="first"))
            await eventually(lambda: build_of(tidemill, first), lambda build: build == "one")
            with worker_process({**env, "TIDEMILL_BUILD_ID": "two"}):
                await eventually(lambda: make_current(address, "two"), bool)
                second = await tidemill.runs.trigger("versioned", TriggerRequest(run_id="second"))
                await eventually(lambda: build_of(tidemill, second), lambda build: build == "two")
                go_on.touch()
                ends = [await asyncio.wait_for(tidemill.runs.wait(run), 60) for run in (first, second)]
                assert ends == [RunState.SUCCESS, RunState.SUCCESS]
                assert [await build_of(tidemill, run) for run in (first, second)] == ["one", "two"]
