"""Runs of thousands of tasks, and runs that outgrow a history, on real servers."""

from pathlib import Path

from support import Stack, bash, dag, empty, stack
from tidemill.model.views import RunDetails


def ended_well(details: RunDetails, n: int) -> None:
    assert details.state == "success"
    assert details.progress.succeeded == n


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


async def test_a_thousand_mapped_instances(here: Stack) -> None:
    mapped = {"by": {"pool_slots": list(range(1, 1001))}, "into": "fields"}
    tasks = [empty("each", expand=mapped), empty("after", "each")]
    details = await here.run_once(dag("thousand", tasks, max_active_tasks=200))
    ended_well(details, 1001)
