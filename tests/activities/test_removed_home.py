"""All that is in a worker's home is removed while tasks run: what they have done counts."""

import asyncio
import shutil
from pathlib import Path

import pytest
from support import Stack, bash, dag, eventually
from tidemill.activities.dag_files import parse_dag_file
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.states import RunState

pytestmark = pytest.mark.faults

FILE = """
import time
from pathlib import Path
from tidemill import DAG, task

PLACE = Path({place!r})

with DAG("removed_home"):
    @task(retries=0)
    def works():
        with open(PLACE / "starts", "a") as starts:
            starts.write("x")
        print("begun", flush=True)
        while not (PLACE / "gone").exists():
            time.sleep(0.1)
        print("ended", flush=True)
        return "y" * 200_000
    @task.bash(retries=0)
    def commands():
        return "echo x >> {place}/starts; while [ ! -e {place}/gone ]; do sleep 0.1; done; echo ended"
    works()
    commands()
"""


async def test_tasks_end_as_they_would_and_are_not_run_again(here: Stack, tmp_path: Path) -> None:
    path = tmp_path / "removed_home.py"
    path.write_text(FILE.format(place=str(tmp_path)))
    [spec] = parse_dag_file(path).dags
    command = f"echo x >> {tmp_path}/starts; while [ ! -e {tmp_path}/gone ]; do sleep 0.1; done"
    once = dag("once_removed", [bash("a", command, max_starts=1)])
    for each in (spec, once):
        await here.tidemill.dags.register(each)
    runs = [await here.tidemill.runs.trigger(each.dag_id, TriggerRequest()) for each in (spec, once)]
    await eventually(lambda: begun(tmp_path / "starts"), lambda n: n == 3)
    for folder in here.home.iterdir():
        shutil.rmtree(folder, ignore_errors=True)
    (tmp_path / "gone").touch()
    for run in runs:
        details = await here.finished(run.dag_id, run.run_id)
        assert details.state is RunState.SUCCESS, [task.error for task in details.tasks]
    assert await begun(tmp_path / "starts") == 3


async def begun(starts: Path) -> int:
    return (await asyncio.to_thread(starts.read_text)).count("x") if starts.exists() else 0
