"""What is too large for its place is refused at the call, with its size and the limit; nothing that runs is hurt."""

import random
import string
from datetime import timedelta

import pytest
from support import Stack, at, bash, dag, empty, eventually
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.dag.explaining import explain_dag
from tidemill.model.dag.records import TrackedRun
from tidemill.model.dag.state import MAX_RUNNING, DagState
from tidemill.model.errors import InvalidInputError
from tidemill.model.pool.state import PoolSettings
from tidemill.model.run.identity import TriggerRequest, manual_run
from tidemill.model.states import RunState

NOW = at("2024-06-01")


def noise(n: int, seed: int = 1) -> str:
    """*n* characters that cannot be compressed well."""
    return "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=n))


async def test_the_conf_of_a_run(here: Stack) -> None:
    await here.tidemill.dags.register(dag("conf", [empty("a")]))
    with pytest.raises(InvalidInputError, match=r"has 40,01\d bytes as JSON, and a run's conf may have 32,768"):
        await here.tidemill.runs.trigger("conf", TriggerRequest(conf={"text": "x" * 40_000}))


async def test_the_confs_of_a_backfill(here: Stack) -> None:
    await here.tidemill.dags.register(dag("filled_confs", [empty("a")], schedule="@daily", start_date=NOW.isoformat()))
    days = {"from_date": at("2024-01-01"), "to_date": at("2024-01-02"), "conf": {"text": "x" * 30_000}}
    with pytest.raises(InvalidInputError, match=r"100 runs at once have 3,00\d,\d+ bytes of it"):
        await here.tidemill.backfills.create("filled_confs", BackfillRequest(**days, max_active_runs=100))
    assert await here.tidemill.backfills.create("filled_confs", BackfillRequest(**days, max_active_runs=10))


def test_what_was_taken_on_before_there_was_a_limit_stays_readable() -> None:
    """Else the DAG that has it could not go on after an upgrade."""
    days = {"from_date": "2024-01-01T00:00:00Z", "to_date": "2024-02-01T00:00:00Z"}
    large = {**days, "conf": {"text": "x" * 50_000}, "max_active_runs": 500}
    assert len(BackfillRequest.model_validate(large, extra="forbid").conf["text"]) == 50_000


async def test_the_confs_of_all_queued_runs(here: Stack) -> None:
    await here.tidemill.dags.register(dag("confs", [bash("a", "sleep 600")], max_active_runs=1))
    request = TriggerRequest(conf={"text": noise(31_000)})
    for _ in range(32):
        await here.tidemill.runs.trigger("confs", request)
    with pytest.raises(InvalidInputError, match=r"33 queued and running runs of DAG 'confs' have 1,02\d,\d+ bytes"):
        await here.tidemill.runs.trigger("confs", request)
    assert await here.tidemill.runs.trigger("confs", TriggerRequest(conf={"day": 1}))  # a conf of the usual size
    await here.tidemill.runs.cancel_all("confs")


async def test_a_dag(here: Stack) -> None:
    await here.tidemill.dags.register(dag("grown", [empty("a")]))
    large = dag("grown", [empty(f"t{i}", doc_md=noise(30_000, seed=i)) for i in range(100)])
    with pytest.raises(InvalidInputError, match=r"DAG 'grown' has 2,\d+,\d+ bytes, compressed, and may have 1,800,000"):
        await here.tidemill.dags.register(large)
    assert (await here.run_once(dag("grown", [empty("a")]))).state == "success"


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "x" * 257])
async def test_the_name_of_a_pool(here: Stack, name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"pool name .* at most 256"):
        await here.tidemill.pools.configure(name, PoolSettings(slots=1))


def test_more_runs_at_once_than_temporal_takes() -> None:
    """They wait, and say why."""
    spec = dag("many", [empty("a")], max_active_runs=5000)
    state = DagState(spec=spec, registered_at=NOW)
    for n in range(MAX_RUNNING + 1):
        run = manual_run("many", spec.schedule, TriggerRequest(run_id=f"r{n}"), NOW + timedelta(seconds=n))
        state.runs[run.key] = TrackedRun(run=run, queued_at=NOW)
        if n < MAX_RUNNING:
            state.runs[run.key].state = RunState.RUNNING
    assert state.running == MAX_RUNNING
    assert explain_dag(state, NOW + timedelta(hours=1)).queued == (
        "r1000 is queued: 1,000 runs of the DAG are under way, as many as Temporal lets it have",
    )


async def test_a_request_that_does_not_fit_beside_its_dag(here: Stack) -> None:
    """One piece of Temporal's would have to carry both: the DAG would try that for ever."""
    await here.tidemill.dags.register(dag("beside", [empty("a")], doc_md=noise(1_700_000)))
    large = TriggerRequest(run_id="large", conf={"text": noise(1_700_000)})
    with pytest.raises(InvalidInputError, match=r"and may have 200,000\. Shorten its conf"):
        await here.tidemill.runs.trigger("beside", large)
    await here.tidemill.client.get_workflow_handle("dag:beside").signal("trigger", large)
    view = await eventually(lambda: here.tidemill.dags.describe("beside"), lambda found: found.decisions[-1:])
    assert await here.tidemill.runs.trigger("beside", TriggerRequest(run_id="small"))
    refused = [
        made.reason for made in (await here.tidemill.dags.describe("beside")).decisions if made.kind == "refused"
    ]
    assert any("may have 200,000" in reason for reason in refused), view
