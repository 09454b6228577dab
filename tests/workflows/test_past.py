"""Tasks that depend on the run before, on a real server."""

from itertools import pairwise
from pathlib import Path

import pytest
from support import Stack, at, bash, dag, empty, eventually
from tidemill.model.dag.backfill_request import BackfillRequest, ReprocessBehavior
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.revisions import ClearRequest, MarkRequest
from tidemill.model.spec.dag import DagSpec
from tidemill.model.states import TaskState


def daily(dag_id: str, tasks: list[dict], days: int = 3, **fields: object) -> DagSpec:  # type: ignore[type-arg]
    end = at(f"2024-01-{days:02}").isoformat()
    bounds = {"schedule": "@daily", "start_date": at("2024-01-01").isoformat(), "end_date": end, "catchup": True}
    return dag(dag_id, tasks, **{**bounds, **fields})


async def test_a_task_waits_for_itself_in_the_run_before(here: Stack, tmp_path: Path) -> None:
    """The runs are all under way at once; the task goes through them one after the other, oldest first."""
    order = tmp_path / "order"
    task = bash("a", f"sleep 0.3; echo {{{{ ds }}}} >> {order}", depends_on_past=True)
    await here.tidemill.dags.register(daily("in_order", [task, bash("b", "true")], days=4))
    runs = await here.all_finished("in_order", 4)
    assert {str(run.state) for run in runs} == {"success"}
    assert order.read_text().split() == [f"2024-01-{day:02}" for day in range(1, 5)]
    details = [await here.tidemill.runs.describe("in_order", run.run_id) for run in runs]
    for earlier, later in pairwise(details):
        assert later.tasks[0].queued_at >= earlier.tasks[0].ended_at  # type: ignore[operator]


async def test_a_failure_holds_up_the_runs_behind_it_until_it_is_mended(here: Stack, tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    command = f"test {{{{ ds }}}} != 2024-01-02 || test -e {mended}"
    await here.tidemill.dags.register(daily("held_up", [bash("a", command, depends_on_past=True)]))
    held = await eventually(
        lambda: here.tidemill.runs.list("held_up"),
        lambda runs: [str(run.state) for run in runs] == ["running", "failed", "success"],
    )
    details = await eventually(
        lambda: here.tidemill.runs.describe("held_up", held[0].run_id),
        lambda found: "depends_on_past" in found.tasks[0].why,
    )
    assert details.tasks[0].why == f"depends_on_past: a is failed in run {held[1].run_id}"
    mended.touch()
    await here.tidemill.runs.clear("held_up", held[1].run_id, ClearRequest())
    runs = await here.all_finished("held_up", 3)
    assert [str(run.state) for run in runs] == ["success"] * 3
    assert [run.run_id for run in runs] == [view.run_id for view in reversed(held)]


async def test_marking_the_failure_lets_the_next_run_go_on(here: Stack) -> None:
    task = bash("a", "test {{ ds }} != 2024-01-01", depends_on_past=True)
    await here.tidemill.dags.register(daily("marked", [task], days=2))
    runs = await eventually(
        lambda: here.tidemill.runs.list("marked"),
        lambda found: [str(run.state) for run in found] == ["running", "failed"],
    )
    await here.tidemill.tasks.mark("marked", runs[1].run_id, MarkRequest(tasks=("a",), state=TaskState.SUCCESS))
    ended = await here.all_finished("marked", 2)
    assert [str(run.state) for run in ended] == ["success", "success"]


async def test_a_mark_mends_what_one_slot_waits_for_also_while_the_dag_is_paused(here: Stack) -> None:
    """The second run has the only slot and waits for the first: what is changed in that one needs no slot."""
    task = bash("a", "test {{ ds }} != 2024-01-01", depends_on_past=True)
    await here.tidemill.dags.register(daily("one_slot", [task], days=2, max_active_runs=1))
    runs = await eventually(
        lambda: here.tidemill.runs.list("one_slot"),
        lambda found: [str(run.state) for run in found] == ["running", "failed"],
    )
    await here.tidemill.dags.pause("one_slot")
    await here.tidemill.tasks.mark("one_slot", runs[1].run_id, MarkRequest(tasks=("a",), state=TaskState.SUCCESS))
    marked = await eventually(
        lambda: here.tidemill.runs.list("one_slot"),
        lambda found: [str(run.state) for run in found] == ["running", "success"],
    )
    assert marked[1].run_id == runs[1].run_id
    await here.tidemill.dags.pause("one_slot", paused=False)
    assert [str(run.state) for run in await here.all_finished("one_slot", 2)] == ["success", "success"]


async def test_a_clear_that_a_running_run_waits_for_goes_over_the_limit(here: Stack, tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    task = bash("a", f"test {{{{ ds }}}} != 2024-01-01 || test -e {mended}", depends_on_past=True)
    await here.tidemill.dags.register(daily("one_slot_cleared", [task], days=2, max_active_runs=1))
    runs = await eventually(
        lambda: here.tidemill.runs.list("one_slot_cleared"),
        lambda found: [str(run.state) for run in found] == ["running", "failed"],
    )
    mended.touch()
    await here.tidemill.runs.clear("one_slot_cleared", runs[1].run_id, ClearRequest())
    assert [str(run.state) for run in await here.all_finished("one_slot_cleared", 2)] == ["success", "success"]


@pytest.mark.thorough
async def test_thousands_of_tasks_that_depend_on_the_past(here: Stack) -> None:
    """Two runs under way at once: what the first tells of its tasks stays in proportion to what has changed."""
    tasks = [empty(f"t{i}", depends_on_past=True) for i in range(1500)]
    await here.tidemill.dags.register(daily("long_past", tasks, days=3, max_active_runs=3))
    runs = await here.all_finished("long_past", 3)
    assert [str(run.state) for run in runs] == ["success"] * 3


@pytest.mark.thorough
async def test_thousands_of_tasks_wait_for_a_failure_of_the_run_before(here: Stack) -> None:
    tasks = [bash("root", "test {{ ds }} != 2024-01-01", depends_on_past=True)]
    tasks += [empty(f"t{i}", "root", depends_on_past=True) for i in range(1500)]
    await here.tidemill.dags.register(daily("long_failed", tasks, days=2))
    runs = await eventually(
        lambda: here.tidemill.runs.list("long_failed"),
        lambda found: [str(run.state) for run in found] == ["running", "failed"],
    )
    details = await eventually(
        lambda: here.tidemill.runs.describe("long_failed", runs[0].run_id),
        lambda found: "depends_on_past" in found.tasks[0].why,
    )
    assert details.tasks[0].why == f"depends_on_past: root is failed in run {runs[1].run_id}"


async def test_wait_for_downstream_looks_at_the_tasks_behind_it_too(here: Stack, tmp_path: Path) -> None:
    order = tmp_path / "order"
    tasks = [
        bash("a", f"echo a{{{{ ds }}}} >> {order}", wait_for_downstream=True),
        bash("b", f"sleep 0.5; echo b{{{{ ds }}}} >> {order}", "a"),
        empty("c", "b"),
    ]
    await here.tidemill.dags.register(daily("downstream", tasks, days=2))
    await here.all_finished("downstream", 2)
    assert order.read_text().split() == ["a2024-01-01", "b2024-01-01", "a2024-01-02", "b2024-01-02"]


async def test_a_terminated_run_does_not_count_as_success(here: Stack) -> None:
    task = bash("a", "test {{ ds }} != 2024-01-01 || sleep 4740", depends_on_past=True)
    await here.tidemill.dags.register(daily("terminated_past", [task], days=2))
    runs = await eventually(
        lambda: here.tidemill.runs.list("terminated_past"),
        lambda found: [str(run.state) for run in found] == ["running"] * 2,
    )
    await eventually(
        lambda: here.tidemill.runs.describe("terminated_past", runs[1].run_id), bool
    )  # its workflow is there
    await here.tidemill.client.get_workflow_handle(runs[1].workflow_id).terminate("for the test")
    await eventually(
        lambda: here.tidemill.runs.list("terminated_past"),
        lambda found: [str(run.state) for run in found] == ["running", "failed"],
    )
    details = await here.tidemill.runs.describe("terminated_past", runs[0].run_id)
    assert details.tasks[0].why == f"depends_on_past: a is none in run {runs[1].run_id}"


async def test_a_backfill_follows_the_past_and_its_first_run_does_not(here: Stack, tmp_path: Path) -> None:
    order = tmp_path / "order"
    task = bash("a", f"echo {{{{ ds }}}} >> {order}; test {{{{ ds }}}} != 2024-01-01", depends_on_past=True)
    spec = dag(
        "filled_past", [task], schedule="@daily", start_date=at("2024-01-01").isoformat(), is_paused_upon_creation=True
    )
    await here.tidemill.dags.register(spec)
    span = {"from_date": at("2024-01-02"), "to_date": at("2024-01-04")}
    with pytest.raises(InvalidInputError, match="run_backwards: task 'a' of DAG 'filled_past' depends on its past"):
        await here.tidemill.backfills.create("filled_past", BackfillRequest(**span, run_backwards=True))
    with pytest.raises(InvalidInputError, match="reprocess_behavior = none: task 'a'"):
        await here.tidemill.backfills.create("filled_past", BackfillRequest(**span))
    await here.tidemill.dags.pause("filled_past", False)
    await here.all_finished("filled_past", 1)
    order.unlink()
    request = BackfillRequest(**span, reprocess_behavior=ReprocessBehavior.FAILED)
    await here.tidemill.backfills.create("filled_past", request)
    await here.all_finished("filled_past", 4)
    assert order.read_text().split() == ["2024-01-02", "2024-01-03", "2024-01-04"]


async def test_a_dag_is_paused_after_so_many_failures_in_a_row(here: Stack) -> None:
    spec = daily("failing_runs", [bash("a", "false")], days=9, max_consecutive_failed_dag_runs=2, max_active_runs=1)
    await here.tidemill.dags.register(spec)
    view = await eventually(lambda: here.tidemill.dags.describe("failing_runs"), lambda found: found.is_paused)
    assert view.decisions[-1].reason == "the last 2 runs have failed (max_consecutive_failed_dag_runs)"
    assert len(await here.tidemill.runs.list("failing_runs")) in (2, 3)
