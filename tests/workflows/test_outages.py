"""The Temporal service away for a while, under tasks that run."""

import asyncio
from pathlib import Path

import psutil
from support import eventually, processes_with, stack, temporal_server
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import read_dag
from tidemill.model.states import RunState

AWAY_SECONDS = 25


def servers(folder: Path) -> list[psutil.Process]:
    return [process for process in processes_with(str(folder / "temporal.db")) if "temporal" in process.name()]


async def test_a_task_that_runs_while_the_service_is_away_is_not_run_twice(tmp_path: Path) -> None:
    """With default settings. A worker that cannot send heartbeats is no dead one."""
    mark = tmp_path / "mark"
    command = f"echo began >> {mark}; sleep {AWAY_SECONDS + 5}; echo ended >> {mark}"
    spec = read_dag({"dag_id": "outlives", "tasks": [{"kind": "bash", "task_id": "a", "command": command}]})
    with temporal_server(tmp_path / "server") as address:
        async with stack(address, tmp_path / "home") as here:
            await here.tidemill.register(spec)
            run = await here.tidemill.trigger("outlives", TriggerRequest())
            await eventually(lambda: asyncio.to_thread(mark.exists), bool)
            stopped = servers(tmp_path / "server")
            assert stopped
            for process in stopped:
                process.suspend()
            try:
                await asyncio.sleep(AWAY_SECONDS)
            finally:
                for process in stopped:
                    process.resume()
            details = await here.finished("outlives", run.run_id)
    assert (details.state, details.tasks[0].try_number) == (RunState.SUCCESS, 1)
    assert mark.read_text().split() == ["began", "ended"]
