"""DAGs whose names are long, or differ from others' by case alone."""

import pytest
from support import Stack, bash, dag, empty, eventually
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.states import RunState
from tidemill.model.workflow_ids import LONGEST
from tidemill.worker.service.older_runs import older_run

pytestmark = pytest.mark.thorough

LONG = "n" * 250


async def test_the_longest_names_fit_into_every_store(here: Stack) -> None:
    task = bash("t" * 250, "true", max_active_tis_per_dag=1)
    await here.tidemill.dags.register(dag(LONG, [task]))
    run = await here.tidemill.runs.trigger(LONG, TriggerRequest(run_id="m" * 200))
    assert (await here.finished(LONG, run.run_id)).state is RunState.SUCCESS
    client = here.tidemill.client
    of_here = f'TaskQueue = "{here.task_queue}"'
    found = await eventually(lambda: listed(here, of_here), lambda ids: len(ids) >= 3)
    assert all(len(workflow_id) <= LONGEST for workflow_id in found)
    older = await older_run(client, LONG, run.run_id)
    assert older is not None
    assert (older.triggered_by, older.run_id) == ("client", run.run_id)
    await here.tidemill.dags.delete(LONG)
    await eventually(lambda: older_run(client, LONG, run.run_id), lambda kept: kept is None)


async def test_a_dag_is_deleted_and_not_one_whose_name_differs_by_case(here: Stack) -> None:
    for dag_id in ("Sales", "sales"):
        await here.run_once(dag(dag_id, [empty("a")]))
    await eventually(lambda: here.tidemill.runs.list("Sales"), lambda runs: len(runs) == 1)
    await here.tidemill.dags.delete("Sales")
    [kept] = await here.tidemill.runs.list("sales")
    client = here.tidemill.client
    assert await older_run(client, "sales", kept.run_id) is not None
    history = await client.get_workflow_handle(kept.workflow_id).fetch_history()
    assert history.events


async def listed(here: Stack, query: str) -> set[str]:
    return {found.id async for found in here.tidemill.client.list_workflows(query)}
