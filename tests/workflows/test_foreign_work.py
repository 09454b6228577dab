"""Activities and workflows of somebody else's worker as tasks, beside ours."""

import uuid
from datetime import timedelta
from pathlib import Path

import pytest
from support import Stack, bash, dag, empty, end_workflows, stack
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin


@activity.defn(name="theirs.double")
async def double(n: int) -> int:
    """Doubles; refuses odd numbers."""
    if n % 2:
        raise ApplicationError("it is odd", type="OddNumber")
    return 2 * n


@workflow.defn(name="TheirWorkflow", sandboxed=False)
class TheirWorkflow:
    """Doubles twice."""

    @workflow.run
    async def run(self, n: int) -> int:
        once = await workflow.execute_activity(double, n, start_to_close_timeout=timedelta(seconds=10))
        return await workflow.execute_activity(double, once, start_to_close_timeout=timedelta(seconds=10))


async def test_their_activities_and_workflows_are_tasks(here: Stack) -> None:
    """Their worker knows nothing of tidemill: a plain client, plain JSON."""
    theirs = await Client.connect(here.address)
    queue = f"theirs-{here.task_queue}"
    async with Worker(theirs, task_queue=queue, activities=[double], workflows=[TheirWorkflow]):
        tasks = [
            {"kind": "activity", "task_id": "once", "activity_type": "theirs.double", "args": [2], "queue": queue},
            {
                "kind": "workflow",
                "task_id": "twice",
                "workflow_type": "TheirWorkflow",
                "args": [{"$xcom": "once", "key": "return_value"}],
                "queue": queue,
                "upstream": ["once"],
            },
            bash("show", "echo {{ ti.xcom_pull('twice') }}", "twice"),
        ]
        details = await here.run_once(dag("foreign", tasks))
        assert details.state == "success"
        assert here.log_of("foreign", details.run.run_id, "show").strip() == "16"


async def test_what_they_raise_is_the_tasks_failure_and_costs_a_try(here: Stack) -> None:
    theirs = await Client.connect(here.address)
    queue = f"theirs-{here.task_queue}"
    async with Worker(theirs, task_queue=queue, activities=[double]):
        odd = {
            "kind": "activity",
            "task_id": "odd",
            "activity_type": "theirs.double",
            "args": [3],
            "queue": queue,
            "retries": 1,
            "retry_delay": 0,
        }
        details = await here.run_once(dag("foreign_failure", [odd]))
    assert details.tasks[0].error == "OddNumber: it is odd"
    assert details.tasks[0].try_number == 2


@pytest.mark.thorough
async def test_sixty_four_triggers_at_once_hold_up_nobody(server: str, tmp_path: Path) -> None:
    """Each waits for another workflow, which needs this worker for its answer: they must not take that from it."""
    async with stack(server, tmp_path / "home") as here:
        await here.tidemill.dags.register(dag("triggered", [empty("a")], max_active_runs=64))
        tasks = [
            {"kind": "trigger_dag", "task_id": f"t{i}", "trigger_dag_id": "triggered", "wait_for_completion": True,
             "poke_interval": 1}
            for i in range(64)
        ]  # fmt: skip
        await here.tidemill.dags.register(dag("triggers", tasks, max_active_tasks=64))
        await here.tidemill.dags.register(dag("unconcerned", [empty("a")]))
        run = await here.tidemill.runs.trigger("triggers")
        beside = await here.tidemill.runs.trigger("unconcerned")
        assert (await here.finished("unconcerned", beside.run_id)).state == "success"
        details = await here.finished("triggers", run.run_id)
        assert details.state == "success", {task.error for task in details.tasks}
        assert len(await here.tidemill.runs.list("triggered")) == 64


async def test_a_task_queue_may_be_called_anything(server: str, tmp_path: Path) -> None:
    """Also as the queues are that tidemill makes beside each."""
    for suffix in ("-control", "-spark", "-files"):
        queue = f"odd-{uuid.uuid4().hex[:8]}{suffix}"
        client = await Client.connect(server, plugins=[TidemillPlugin(tmp_path / suffix)])
        async with Worker(client, task_queue=queue):
            here = Stack(Tidemill(client, queue), server, tmp_path / suffix, queue)
            dag_id = f"odd{suffix.replace('-', '_')}"
            details = await here.run_once(dag(dag_id, [bash("a", "echo {{ run_id }}")]))
            assert details.state == "success"
            await end_workflows(client, queue)
