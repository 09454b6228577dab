"""Results, logs and kept code in an object store: a server that speaks S3, and the client that users have."""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked_commands import forked
from object_store import s3
from support import end_workflows, eventually, without_times, worker_environment, worker_process
from temporalio.client import Client
from tidemill.model.bundle.data import BundleSettings
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.states import RunState
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin

FILE = """
from tidemill import DAG, task

with DAG({dag_id!r}, heartbeat_timeout=10):

    @task
    def make() -> list[str]:
        print("made here")
        return ["x" * 1000] * 1000

    @task
    def take(texts: list[str]) -> int:
        return len(texts)

    take(make())
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    with s3(tmp_path / "store") as found:
        yield found


@pytest.mark.thorough
async def test_what_workers_share_may_be_in_an_object_store(
    server: str, tmp_path: Path, store: tuple[str, dict[str, str]]
) -> None:
    """A bundle's code, a large result and a log go there from one worker, and are read by another on another disk."""
    url, variables = store
    queue = f"test-{uuid.uuid4().hex[:8]}"
    dag_id = f"stored_{queue.removeprefix('test-')}"
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "file.py").write_text(FILE.format(dag_id=dag_id))
    client = await Client.connect(server, plugins=[TidemillPlugin(tmp_path / "own")])
    tidemill = Tidemill(client, queue)
    env = {
        **worker_environment(server, tmp_path / "one", queue),
        **variables,
        "TIDEMILL_XCOM_URL": f"{url}/results",
        "TIDEMILL_LOG_URL": f"{url}/logs",
        "TIDEMILL_TASK_ENVIRONMENT": '["AWS_*"]',
    }
    elsewhere = {**env, "TIDEMILL_HOME": str(tmp_path / "two")}
    try:
        with worker_process(env) as first:
            await tidemill.bundles.configure(BundleSettings(name=queue, path=str(folder)))
            await eventually(lambda: tidemill.bundles.look(queue), bool)
            run = await tidemill.runs.trigger(dag_id, TriggerRequest(run_id="first"))
            assert await asyncio.wait_for(tidemill.runs.wait(run), 60) is RunState.SUCCESS
            first.terminate()
            first.wait(60)
        (folder / "file.py").unlink()  # the second worker has to find the code in the store
        with worker_process(elsewhere):
            run = await tidemill.runs.trigger(dag_id, TriggerRequest(run_id="second"))
            assert await asyncio.wait_for(tidemill.runs.wait(run), 60) is RunState.SUCCESS
            read = [forked(), "tasks", "logs", dag_id, "first", "make"]
            process = await asyncio.create_subprocess_exec(*read, env=elsewhere, stdout=asyncio.subprocess.PIPE)
            printed, _ = await process.communicate()
    finally:
        await end_workflows(client, queue)
    assert without_times(printed.decode()) == "made here\n"
    assert not [*(tmp_path / "one").rglob("xcom")], "results were kept on the worker's own disk"
