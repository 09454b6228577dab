"""However a run ends, its teardowns run first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import Stack, bash, dag, eventually
from tidemill.model.run.revisions import MarkRequest, RunMark
from tidemill.model.run.views import RunDetails
from tidemill.model.states import RunState, TaskState


def state_of(details: RunDetails, key: str) -> str:
    return next(str(task.state) for task in details.tasks if task.key == key)


async def at_work(here: Stack, dag_id: str, mark: Path, **fields: Any) -> str:
    """A run whose setup has succeeded, and whose work goes on for ever."""
    spec = dag(
        dag_id,
        [
            bash("s", "true", is_setup=True),
            bash("w", "sleep 600", "s"),
            bash("t", f"sleep 1; touch {mark}", "w", "s", is_teardown=True),
            bash("after", "true", "w"),
        ],
        **fields,
    )
    await here.tidemill.dags.register(spec)
    run = await here.tidemill.runs.trigger(dag_id)
    await eventually(
        lambda: here.tidemill.runs.describe(dag_id, run.run_id), lambda found: state_of(found, "w") == "running"
    )
    return run.run_id


@pytest.mark.parametrize("how", ["success", "failed", "cancelled", "timeout", "paused"])
async def test_what_is_set_up_is_torn_down(here: Stack, tmp_path: Path, how: str) -> None:
    mark, dag_id = tmp_path / "torn_down", f"ends_{how}"
    run_id = await at_work(here, dag_id, mark, **({"dagrun_timeout": 5} if how == "timeout" else {}))
    match how:
        case "cancelled":
            await here.tidemill.runs.cancel(dag_id, run_id)
        case "paused":
            await here.tidemill.dags.pause(dag_id)
            await here.tidemill.runs.mark(dag_id, run_id, RunMark(state=TaskState.FAILED))
        case "success" | "failed":
            await here.tidemill.runs.mark(dag_id, run_id, RunMark.model_validate({"state": how}))
    details = await here.finished(dag_id, run_id)
    assert details.state is (RunState.SUCCESS if how == "success" else RunState.FAILED)
    assert {task.task_id: str(task.state) for task in details.tasks if task.task_id != "w"} == {
        "s": "success", "t": "success", "after": "skipped",
    }  # fmt: skip
    assert mark.exists()


async def test_a_teardown_that_hangs_is_marked_and_the_run_ends(here: Stack) -> None:
    tasks = [bash("w", "sleep 600"), bash("t", "sleep 600", "w", is_teardown=True)]
    await here.tidemill.dags.register(dag("hangs", tasks))
    run = await here.tidemill.runs.trigger("hangs")
    look = lambda: here.tidemill.runs.describe("hangs", run.run_id)  # noqa: E731
    await eventually(look, lambda found: state_of(found, "w") == "running")
    await here.tidemill.runs.mark("hangs", run.run_id, RunMark(state=TaskState.FAILED))
    found = await eventually(look, lambda found: state_of(found, "t") == "running")
    assert found.state is RunState.RUNNING, "as in Airflow, until the teardown has ended"
    await here.tidemill.runs.revise("hangs", run.run_id, mark=MarkRequest(tasks=("t",), state=TaskState.FAILED))
    details = await here.finished("hangs", run.run_id)
    assert details.state is RunState.FAILED
