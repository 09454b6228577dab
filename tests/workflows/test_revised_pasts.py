"""A task that waits for its past looks at the state that its past has now, whatever people have made of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support import Stack, bash, dag, eventually
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.revisions import ClearRequest, MarkRequest
from tidemill.model.states import RunState, TaskState


async def ended(here: Stack, dag_id: str, mark: Path) -> str:
    """The first run of a DAG, which has ended well: `a`, which waits for its past and what is below it, and `b`."""
    wait = f"test ! -e {mark} || until test -e {mark}.over; do sleep 0.1; done"
    tasks = [bash("a", wait, depends_on_past=True, wait_for_downstream=True), bash("b", wait, "a")]
    await here.tidemill.dags.register(dag(dag_id, tasks, max_active_runs=4))
    await here.tidemill.runs.trigger(
        dag_id, TriggerRequest(run_id="one", logical_date=datetime(2026, 1, 1, tzinfo=UTC))
    )
    details = await here.finished(dag_id, "one")
    assert details.state is RunState.SUCCESS
    mark.touch()
    return "one"


async def second(here: Stack, dag_id: str) -> str:
    two = TriggerRequest(run_id="two", logical_date=datetime(2026, 1, 2, tzinfo=UTC))
    return (await here.tidemill.runs.trigger(dag_id, two)).run_id


async def held(here: Stack, dag_id: str) -> Any:
    """Why `a` of the second run has not begun."""
    found = await eventually(lambda: here.tidemill.runs.describe(dag_id, "two"), lambda found: found.tasks[0].why)
    assert (str(found.tasks[0].state), found.tasks[0].try_number) == ("none", 0)
    return found.tasks[0].why


@pytest.mark.parametrize(("task", "rule"), [("a", "depends_on_past: a"), ("b", "wait_for_downstream: b")])
async def test_it_waits_for_what_is_cleared(here: Stack, tmp_path: Path, task: str, rule: str) -> None:
    dag_id = f"cleared_{task}"
    run_id = await ended(here, dag_id, tmp_path / "mark")
    await here.tidemill.runs.clear(dag_id, run_id, ClearRequest(tasks=(task,)))
    await second(here, dag_id)
    assert rule in await held(here, dag_id)
    (tmp_path / "mark.over").touch()
    assert (await here.finished(dag_id, "two")).state is RunState.SUCCESS


@pytest.mark.parametrize(("task", "rule"), [("a", "depends_on_past: a"), ("b", "wait_for_downstream: b")])
async def test_it_waits_for_what_is_marked_failed(here: Stack, tmp_path: Path, task: str, rule: str) -> None:
    """At once, and until it is marked again."""
    dag_id = f"marked_{task}"
    run_id = await ended(here, dag_id, tmp_path / "mark")
    (tmp_path / "mark.over").touch()
    failed = MarkRequest(tasks=(task,), state=TaskState.FAILED)
    await here.tidemill.runs.revise(dag_id, run_id, mark=failed)
    await second(here, dag_id)
    assert rule in await held(here, dag_id)
    await here.finished(dag_id, run_id)
    assert f"{rule} is failed" in await held(here, dag_id)
    await here.tidemill.runs.revise(dag_id, run_id, mark=MarkRequest(tasks=(task,), state=TaskState.SUCCESS))
    assert (await here.finished(dag_id, "two")).state is RunState.SUCCESS


@pytest.mark.parametrize("tasks", [[], ["b"]])
async def test_a_sensor_waits_for_a_run_that_runs_again(here: Stack, tmp_path: Path, tasks: list[str]) -> None:
    dag_id = f"awaited_{len(tasks)}"
    run_id = await ended(here, dag_id, tmp_path / "mark")
    await here.tidemill.runs.clear(dag_id, run_id, ClearRequest(tasks=("b",)))
    view = await here.tidemill.runs.find(dag_id, run_id)
    assert view.state is RunState.RUNNING, "as lists show it"
    fields = {"external_dag_id": dag_id, "external_task_ids": tasks, "poke_interval": 1}
    sensor = {"kind": "external_task", "task_id": "waits", **fields}
    await here.tidemill.dags.register(dag(f"waits_{dag_id}", [sensor]))
    date = datetime(2026, 1, 1, tzinfo=UTC)
    await here.tidemill.runs.trigger(f"waits_{dag_id}", TriggerRequest(run_id="r", logical_date=date))
    look = lambda: here.tidemill.runs.describe(f"waits_{dag_id}", "r")  # noqa: E731
    await eventually(look, lambda found: str(found.tasks[0].state) == "up_for_reschedule")
    (tmp_path / "mark.over").touch()
    assert (await here.finished(f"waits_{dag_id}", "r")).state is RunState.SUCCESS
    assert (await here.finished(dag_id, run_id)).state is RunState.SUCCESS
