"""Activities and workflows of somebody else's worker as tasks, beside ours."""

from datetime import timedelta

from support import Stack, bash, dag
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker


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
