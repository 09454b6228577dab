"""A worker is killed at each boundary of a task: its effect comes about once, or as often as tries are counted."""

import asyncio
from pathlib import Path

import pytest
from support import bash, dag, eventually, killing_worker, stack
from tidemill.activities.dag_files import parse_dag_file
from tidemill.model.states import TaskState


@pytest.mark.parametrize(
    ("kind", "when"),
    [
        ("python", "after the work"),
        ("bash", "before the work"),
        pytest.param("python", "before the work", marks=pytest.mark.thorough),
        pytest.param("bash", "after the work", marks=pytest.mark.thorough),
    ],
)
async def test_killed_around_the_work_it_is_done_once(server: str, tmp_path: Path, when: str, kind: str) -> None:
    """What was done is found and returned, not done again; what was not begun is begun elsewhere, as the same try."""
    effects, mark = tmp_path / "effects", tmp_path / "mark"
    async with stack(server, tmp_path / "home", no_remote_activities=True) as here:
        dag_id = f"killed_{kind}_{when.split()[0]}"
        if kind == "bash":
            spec = dag(dag_id, [bash("a", f"echo effect >> {effects}; echo result")])
        else:
            file = tmp_path / "dag_file.py"
            file.write_text(PYTHON.format(dag_id=dag_id, effects=effects))
            [spec] = parse_dag_file(file).dags
        with killing_worker(here, when, mark) as first:
            await here.tidemill.dags.register(spec)
            run = await here.tidemill.runs.trigger(dag_id)
            await asyncio.to_thread(first.wait, 60)
            assert mark.exists()
        with killing_worker(here, when, mark):
            details = await here.finished(dag_id, run.run_id)
    assert details.state == "success"
    assert details.tasks[0].try_number == 1
    assert effects.read_text().split() == ["effect"]


PYTHON = """
from pathlib import Path
from tidemill import DAG, task

with DAG("{dag_id}", heartbeat_timeout=4):

    @task
    def a():
        with Path("{effects}").open("a") as effects:
            effects.write("effect\\n")
        return "result"

    a()
"""


@pytest.mark.thorough
async def test_killed_during_a_retry_delay_the_next_try_comes_when_it_is_due(server: str, tmp_path: Path) -> None:
    effects, mark = tmp_path / "effects", tmp_path / "mark"
    async with stack(server, tmp_path / "home", no_remote_activities=True) as here:
        command = f"echo try >> {effects}; test $(wc -l < {effects}) -ge 2"
        await here.tidemill.dags.register(dag("killed_in_delay", [bash("a", command, retries=1, retry_delay=3)]))
        with killing_worker(here, "never", mark) as first:
            run = await here.tidemill.runs.trigger("killed_in_delay")
            await eventually(
                lambda: here.tidemill.runs.describe("killed_in_delay", run.run_id),
                lambda found: found.tasks[0].state is TaskState.UP_FOR_RETRY,
            )
            first.kill()
        with killing_worker(here, "never", mark):
            details = await here.finished("killed_in_delay", run.run_id)
    assert [str(attempt.state) for attempt in details.tasks[0].attempts] == ["up_for_retry", "success"]
    assert effects.read_text().split() == ["try", "try"]
