"""Runs of thousands of tasks, and runs that outgrow a history, on real servers."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support import Stack, bash, dag, empty, eventually, stack, temporal_server
from tidemill.model.pool.state import PoolSettings
from tidemill.model.run.attempts import TaskAttempt
from tidemill.model.run.identity import RunIdentity, RunType, TriggeredBy
from tidemill.model.run.views import RunDetails
from tidemill.workflows.run.tasks import size_of_start


def ended_well(details: RunDetails, n: int) -> None:
    assert details.state == "success"
    assert details.progress.succeeded == n


def test_what_is_new_in_an_attempt_does_not_count_in_its_size() -> None:
    """How many attempts begin in a step is in the histories of the release before."""
    spec = dag("sized", [bash("a", "x")])
    run = RunIdentity(
        dag_id="sized", run_id="r", run_type=RunType.MANUAL, run_after=datetime(2026, 1, 1, tzinfo=UTC),
        triggered_by=TriggeredBy.CLI,
    )  # fmt: skip
    attempt = TaskAttempt(run=run, task=spec.tasks[0], try_number=3)
    cleared = attempt.model_copy(update={"tries_cleared": 2})
    assert size_of_start(cleared) == size_of_start(attempt) < len(cleared.model_dump_json())


@pytest.mark.thorough
async def test_five_thousand_tasks_in_waves(here: Stack) -> None:
    """Fifty waves of a hundred tasks, each behind a task that joins the wave before."""
    tasks = [empty("wave_0")]
    for wave in range(1, 51):
        tasks += [empty(f"t{wave}_{i}", f"wave_{wave - 1}") for i in range(99)]
        tasks.append(empty(f"wave_{wave}", *(f"t{wave}_{i}" for i in range(99))))
    details = await here.run_once(dag("waves", tasks, max_active_tasks=100))
    ended_well(details, 5001)


async def test_a_wide_run_with_work_goes_on_as_new(impatient_server: str, tmp_path: Path) -> None:
    """Two hundred commands, in histories of some forty events: tasks, results and tries are carried over."""
    async with stack(impatient_server, tmp_path / "home") as here:
        tasks = [bash(f"t{i}", f"echo {i}") for i in range(60)]
        tasks.append(bash("sum", "echo $((" + "+".join(f"{{{{ ti.xcom_pull('t{i}') }}}}" for i in range(60)) + "))"))
        tasks[-1]["upstream"] = [f"t{i}" for i in range(60)]
        details = await here.run_once(dag("wide", tasks, max_active_tasks=8))
        ended_well(details, 61)
        assert here.log_of("wide", details.run.run_id, "sum").strip() == str(sum(range(60)))
        executions = here.tidemill.client.list_workflows(f'WorkflowId = "{details.run.workflow_id}"')
        assert len([execution async for execution in executions]) > 3


async def test_a_run_does_not_stand_still_behind_its_slowest_task(impatient_server: str, tmp_path: Path) -> None:
    """Its history is full long before that ends: the others go on beside it."""
    go_on = tmp_path / "go_on"
    async with stack(impatient_server, tmp_path / "home") as here:
        tasks = [bash("slow", f"while [ ! -e {go_on} ]; do sleep 0.1; done")]
        tasks += [bash("t0", "sleep 12")] + [bash(f"t{i}", "true", f"t{i - 1}") for i in range(1, 40)]
        await here.tidemill.dags.register(dag("beside", tasks))
        run = await here.tidemill.runs.trigger("beside")
        await eventually(
            lambda: here.tidemill.runs.describe("beside", run.run_id), lambda found: found.progress.succeeded == 40
        )
        go_on.touch()
        ended_well(await here.finished("beside", run.run_id), 41)


@pytest.mark.thorough
async def test_hundreds_of_tasks_wait_for_a_pool_through_several_histories(tmp_path: Path) -> None:
    """Each execution goes on asking for what the one before has asked for, in one message."""
    suggest = {"limit.historyCount.suggestContinueAsNew": 500}
    with temporal_server(tmp_path / "server", **suggest) as address:
        await in_a_narrow_pool(address, tmp_path)


async def in_a_narrow_pool(address: str, tmp_path: Path) -> None:
    async with stack(address, tmp_path / "home") as here:
        await here.tidemill.pools.configure("narrow", PoolSettings(slots=16))
        mapped = {"by": {"env": [{"N": str(n)} for n in range(400)]}, "into": "fields"}
        task = bash("each", "true", pool="narrow", expand=mapped)
        details = await here.run_once(dag("through_a_pool", [task], max_active_tasks=500))
        ended_well(details, 400)
        view = await eventually(lambda: here.tidemill.pools.describe("narrow"), lambda pool: not pool.holders)
        assert view.queued == ()


async def test_a_thousand_mapped_instances(here: Stack) -> None:
    mapped = {"by": {"pool_slots": list(range(1, 1001))}, "into": "fields"}
    tasks = [empty("each", expand=mapped), empty("after", "each")]
    details = await here.run_once(dag("thousand", tasks, max_active_tasks=200))
    ended_well(details, 1001)


@pytest.mark.thorough
async def test_many_due_runs_of_a_large_dag_are_all_made(here: Stack) -> None:
    """Started in one step they would be more than the server takes, and it would terminate the DAG without a word."""
    runs = 60
    first = datetime(2024, 1, 1, tzinfo=UTC)
    tasks = [empty(f"task_{i}", doc_md=f"{i} " + "a long text that makes the DAG large " * 4) for i in range(600)]
    schedule = {
        "schedule": {"kind": "delta_interval", "delta": 3600},
        "start_date": first.isoformat(),
        "end_date": (first + timedelta(hours=runs - 1)).isoformat(),
        "catchup": True,
        "max_active_runs": runs,
    }
    spec = dag("large_and_late", tasks, **schedule)
    assert len(spec.model_dump_json()) * runs > 4_000_000
    await here.tidemill.dags.register(spec)
    made = await here.all_finished("large_and_late", runs)
    assert [run.state for run in made] == ["success"] * runs


@pytest.mark.thorough
async def test_many_large_attempts_at_once_all_run(here: Stack) -> None:
    """Two hundred commands with 30 KB of arguments each, all ready in the same step."""
    tasks = [bash(f"t{i}", f"true {'x' * 30_000}") for i in range(200)]
    details = await here.run_once(dag("large_attempts", tasks, max_active_tasks=200))
    ended_well(details, 200)
