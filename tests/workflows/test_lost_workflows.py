"""What an operator, or an accident, has ended: pools, limits and assets begin anew, and nobody waits for ever."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from support import Stack, bash, dag, eventually, most_at_once
from tidemill.model.pool.state import PoolSettings
from tidemill.workflows import pool
from tidemill.workflows.dag import workflow as dag_workflow
from tidemill.workflows.run import leases

pytestmark = pytest.mark.faults


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits asks again after a second, and not after a minute."""
    monkeypatch.setattr(pool, "VISIBILITY_LAG", timedelta(seconds=1))
    monkeypatch.setattr(leases, "REMIND_FIRST", timedelta(seconds=1))
    monkeypatch.setattr(dag_workflow, "TIE_AGAIN", timedelta(seconds=2))


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["terminate", "cancel"])
async def test_a_pool_that_was_ended_and_made_again_knows_its_holders(here: Stack, how: str) -> None:
    await here.tidemill.pools.configure("db", PoolSettings(slots=1))
    await here.tidemill.dags.register(dag("pooled", [bash("p", "sleep 6", pool="db")], max_active_runs=8))
    first = await here.tidemill.runs.trigger("pooled")
    await eventually(lambda: here.tidemill.pools.describe("db"), lambda pool: pool.occupied_slots == 1)
    second = await here.tidemill.runs.trigger("pooled")
    await eventually(lambda: here.tidemill.pools.describe("db"), lambda pool: len(pool.queued) == 1)
    handle = here.tidemill.client.get_workflow_handle("pool:db")
    await getattr(handle, how)()
    await eventually(handle.describe, lambda found: found.close_time is not None)
    await here.tidemill.pools.configure("db", PoolSettings(slots=1))
    third = await here.tidemill.runs.trigger("pooled")
    view = await eventually(lambda: here.tidemill.pools.describe("db"), lambda pool: pool.occupied_slots == 1)
    assert first.run_id.removeprefix("manual__")[:19] in view.holders[0]
    details = [await here.finished("pooled", run.run_id) for run in (first, second, third)]
    assert {str(run.state) for run in details} == {"success"}
    assert most_at_once(details) == 1
    await eventually(lambda: here.tidemill.pools.describe("db"), lambda pool: pool.occupied_slots == 0)


async def test_a_limit_that_was_ended_is_made_again_and_holds(here: Stack) -> None:
    await here.tidemill.dags.register(
        dag("limited", [bash("one", "sleep 3", max_active_tis_per_dag=1)], max_active_runs=8)
    )
    runs = [await here.tidemill.runs.trigger("limited") for _ in range(2)]
    handle = here.tidemill.client.get_workflow_handle("limit:limited:one")
    await eventually(
        lambda: here.tidemill.runs.describe("limited", runs[0].run_id),
        lambda run: run.tasks[0].state in ("queued", "running"),
    )
    await handle.terminate()
    runs.append(await here.tidemill.runs.trigger("limited"))
    details = [await here.finished("limited", run.run_id) for run in runs]
    assert {str(run.state) for run in details} == {"success"}
    assert most_at_once(details) == 1


async def test_an_asset_that_was_ended_hears_again_of_who_waits_for_it(here: Stack, tmp_path: Path) -> None:
    outlet = {"kind": "asset", "name": "lake"}
    await here.tidemill.dags.register(dag("producer", [bash("write", "true", outlets=[outlet])]))
    await here.tidemill.dags.register(
        dag("consumer", [bash("read", "true")], schedule={"kind": "asset", "assets": ["lake"]})
    )
    await here.run_once(dag("producer", [bash("write", "true", outlets=[outlet])]))
    await here.all_finished("consumer", 1)
    await here.tidemill.client.get_workflow_handle("asset:lake").terminate()
    await here.finished("producer", (await here.tidemill.runs.trigger("producer")).run_id)
    assert len(await here.all_finished("consumer", 2)) == 2
