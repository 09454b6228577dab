"""What users count on of a whole installation: who runs what, after a downtime, beside others, in the same pools."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support import Stack, bash, dag, empty, eventually, stack, told, worker_environment, worker_process
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from tidemill.model.dag.backfill_request import BackfillRequest
from tidemill.model.dag.state import DagState
from tidemill.model.dag.ticks import spread
from tidemill.model.pool.state import PoolSettings
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.revisions import MarkRequest
from tidemill.model.run.views import RunView
from tidemill.model.spec.dag import DagSpec
from tidemill.model.states import RunState
from tidemill.worker.client import Tidemill
from tidemill.worker.plugin import TidemillPlugin
from tidemill.worker.supervision.attempt_starts import attempt_starts
from tidemill.worker.supervision.pollers import pollers_of


def ago(**time: float) -> str:
    return (datetime.now(UTC) - timedelta(**time)).isoformat()


# In the same pools


async def test_dags_that_trigger_dags_do_not_lock_each_other_out_of_a_full_pool(here: Stack) -> None:
    """Who waits for another DAG gives its slot back, or the one it waits for would never get it."""
    await here.tidemill.pools.configure("only_one", PoolSettings(slots=1))
    start = {
        "kind": "trigger_dag",
        "task_id": "start",
        "trigger_dag_id": "inner",
        "wait_for_completion": True,
        "poke_interval": 1,
        "pool": "only_one",
    }
    await here.tidemill.dags.register(dag("inner", [bash("work", "true", pool="only_one")]))
    details = await here.run_once(dag("outer", [start, bash("after", "true", "start", pool="only_one")]))
    assert details.state is RunState.SUCCESS


async def test_a_backfill_and_the_schedule_share_a_pool(here: Stack) -> None:
    await here.tidemill.pools.configure("shared", PoolSettings(slots=2))
    spec = dag(
        "sharing",
        [bash("a", "sleep 0.3", pool="shared")],
        schedule="@daily",
        start_date="2026-01-10T00:00:00Z",
        end_date="2026-01-14T00:00:00Z",
        catchup=True,
    )
    await here.tidemill.dags.register(spec)
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 5)]
    await here.tidemill.backfills.create("sharing", BackfillRequest(from_date=days[0], to_date=days[1]))
    runs = await here.all_finished("sharing", 10)
    details = [await here.tidemill.runs.describe("sharing", run.run_id) for run in runs]
    assert {run.run_type for run in runs} == {"scheduled", "backfill"}
    spans = [(task.started_at, task.ended_at) for run in details for task in run.tasks]
    changes = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans], key=lambda c: (c[0], c[1]))
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    assert most == 2


async def test_several_workers_share_the_work(server: str, tmp_path: Path) -> None:
    queue = f"shared-{tmp_path.name}"
    env = {**worker_environment(server, tmp_path / "home", queue), "TIDEMILL_MAX_CONCURRENT_ACTIVITIES": "2"}
    client = await Client.connect(server, plugins=[TidemillPlugin(tmp_path)])
    tidemill = Tidemill(client, queue)
    with worker_process(env), worker_process(env), worker_process(env):
        tasks = [bash(f"t{i}", "sleep 1") for i in range(30)]
        await tidemill.dags.register(dag("by_three", tasks, max_active_tasks=30))
        await eventually(lambda: pollers_of(client, queue), lambda found: len(found) == 3)
        run = await tidemill.runs.trigger("by_three")
        await eventually(lambda: tidemill.runs.find("by_three", run.run_id), lambda view: view.state.finished)
        starts = await attempt_starts(client, run.workflow_id)
        await client.get_workflow_handle("dag:by_three").terminate("the test is over")
    assert {start.starts for start in starts} == {1}
    assert len({start.worker for start in starts}) == 3


# After a downtime


@pytest.mark.thorough
async def test_a_deadline_that_is_missed_while_no_worker_runs_is_told_once(server: str, tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = {"kind": "command", "command": f"echo missed >> {told}"}
    spec = dag(
        "missed",
        [bash("a", "sleep 4"), bash("b", "sleep 4", "a")],
        deadline=3,
        callbacks={"deadline_miss_callback": [command]},
    )
    env = worker_environment(server, tmp_path / "home", f"missed-{tmp_path.name}")
    client = await Client.connect(server, plugins=[TidemillPlugin(tmp_path)])
    tidemill = Tidemill(client, f"missed-{tmp_path.name}")
    with worker_process(env) as worker:
        await tidemill.dags.register(spec)
        run = await tidemill.runs.trigger("missed")
        await eventually(
            lambda: tidemill.runs.describe("missed", run.run_id), lambda found: found.tasks[0].state == "running"
        )
        worker.kill()
        worker.wait()
    await asyncio.sleep(4)
    assert not told.exists()
    with worker_process(env):
        await eventually(lambda: asyncio.to_thread(told.exists), bool)
        await eventually(lambda: tidemill.runs.find("missed", run.run_id), lambda view: view.state.finished)
        await client.get_workflow_handle("dag:missed").terminate("the test is over")
    assert told.read_text().split() == ["missed"]


@pytest.mark.thorough
@pytest.mark.parametrize("catchup", [True, False])
async def test_dates_that_fall_due_while_no_worker_runs(server: str, tmp_path: Path, catchup: bool) -> None:
    """With catchup each is made up for, once and in order; without, only the last."""
    queue = f"downtime-{catchup}-{tmp_path.name}"
    env = worker_environment(server, tmp_path / "home", queue)
    client = await Client.connect(server, plugins=[TidemillPlugin(tmp_path)])
    tidemill = Tidemill(client, queue)
    dag_id = f"downtime_{catchup}"
    schedule: dict[str, Any] = {"kind": "delta_interval", "delta": 2}
    spec = dag(dag_id, [empty("a")], schedule=schedule, start_date=ago(seconds=1), catchup=catchup, max_active_runs=2)
    with worker_process(env) as worker:
        await tidemill.dags.register(spec)
        await eventually(lambda: tidemill.runs.list(dag_id), lambda found: any(run.state.finished for run in found))
        worker.kill()
    await asyncio.sleep(12)
    began_again = datetime.now(UTC)
    with worker_process(env):
        runs = await eventually(
            lambda: tidemill.runs.list(dag_id), lambda found: sum(latest_of(run) > began_again for run in found) > 2
        )
        await tidemill.dags.pause(dag_id)
        await client.get_workflow_handle(f"dag:{dag_id}").terminate("the test is over")
    dates = sorted(run.logical_date for run in runs if run.logical_date is not None)
    gaps = [(later - date).total_seconds() for date, later in pairwise(dates)]
    assert min(gaps) == 2, "no date twice"
    if catchup:
        assert max(gaps) == 2, "no date is left out"
        begun = [(run.started_at, run.logical_date) for run in runs if run.started_at and run.logical_date]
        assert [date for _, date in sorted(begun)] == sorted(date for _, date in begun), "in order"
    else:
        assert max(gaps) >= 6, "what fell due meanwhile is not made up for"


def latest_of(run: RunView) -> datetime:
    return run.logical_date or run.run_after


async def test_a_run_for_the_future_outlives_its_worker(server: str, tmp_path: Path) -> None:
    env = worker_environment(server, tmp_path / "home", f"future-{tmp_path.name}")
    client = await Client.connect(server, plugins=[TidemillPlugin(tmp_path)])
    tidemill = Tidemill(client, f"future-{tmp_path.name}")
    with worker_process(env) as worker:
        await tidemill.dags.register(dag("future", [empty("a")]))
        due = datetime.now(UTC) + timedelta(seconds=6)
        run = await tidemill.runs.trigger("future", TriggerRequest(run_after=due))
        assert (await tidemill.runs.find("future", run.run_id)).state is RunState.QUEUED
        worker.kill()
        worker.wait()
    with worker_process(env):
        ended = await eventually(lambda: tidemill.runs.find("future", run.run_id), lambda view: view.state.finished)
        await client.get_workflow_handle("dag:future").terminate("the test is over")
    assert ended.started_at is not None
    assert ended.started_at >= due


# Runs that a DAG does not know


async def test_a_dag_that_was_ended_and_begins_anew_adopts_its_runs(here: Stack, tmp_path: Path) -> None:
    """Those that have ended are not run again, those under way go on: each date does its work once."""
    mark, gate = tmp_path / "mark", tmp_path / "gate"
    wait = f"while [ ! -e {gate} ]; do sleep 0.1; done"
    command = f"echo {{{{ ds }}}} >> {mark}; [ {{{{ ds }}}} != 2026-01-03 ] || {wait}"
    spec = dag(
        "adopting",
        [bash("a", command)],
        schedule="@daily",
        start_date="2026-01-01T00:00:00Z",
        end_date="2026-01-03T00:00:00Z",
        catchup=True,
    )
    await here.tidemill.dags.register(spec)
    await eventually(
        lambda: here.tidemill.runs.list("adopting"), lambda found: sum(run.state.finished for run in found) == 2
    )
    await eventually(lambda: asyncio.to_thread(mark.read_text), lambda text: "2026-01-03" in text)
    await here.tidemill.client.get_workflow_handle("dag:adopting").terminate("lost")
    await here.tidemill.dags.register(spec)
    runs = await eventually(
        lambda: here.tidemill.runs.list("adopting"), lambda found: sum(run.state.finished for run in found) == 2
    )
    assert [run.state for run in runs if not run.state.finished] == [RunState.RUNNING]
    gate.touch()
    assert [run.state for run in await here.all_finished("adopting", 3)] == [RunState.SUCCESS] * 3
    assert sorted(mark.read_text().split()) == ["2026-01-01", "2026-01-02", "2026-01-03"]


@pytest.mark.thorough
async def test_dates_do_not_run_again_once_temporal_has_forgotten_their_runs(
    impatient_server: str, tmp_path: Path
) -> None:
    """Beyond retention nothing holds a workflow id: the DAG itself knows, also as another execution and version."""
    mark = tmp_path / "mark"
    dates = {"start_date": "2026-01-01T00:00:00Z", "end_date": "2026-01-20T00:00:00Z"}
    async with stack(impatient_server, tmp_path / "home") as here:

        def spec(command: str) -> DagSpec:
            tasks = [bash("a", f"echo {{{{ ds }}}} >> {mark}; {command}")]
            return dag("forgotten", tasks, schedule="@daily", catchup=True, **dates)

        await here.tidemill.dags.register(spec("true"))
        runs = await here.all_finished("forgotten", 20)
        assert len(await listed(here, "dag:forgotten")) > 1, "it has gone on as new"
        for run in runs:
            await forget(here, run.workflow_id)
        await here.tidemill.dags.register(spec("false"))
        run = await here.tidemill.runs.trigger("forgotten", TriggerRequest(run_id="after"))
        await here.finished("forgotten", run.run_id)
        done = [line for line in mark.read_text().split() if line.startswith("2026-01")]
    assert sorted(done) == [f"2026-01-{day:02}" for day in range(1, 21)]


# Beside others


async def test_a_dag_that_meets_a_mistake_of_ours_is_broken_and_hurts_no_other(
    here: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_due = DagState.create_due

    def mistaken(state: DagState, now: datetime) -> Any:
        if state.spec.dag_id == "unlucky":
            raise AttributeError("a mistake of ours")
        return create_due(state, now)

    monkeypatch.setattr(DagState, "create_due", mistaken)
    fields = {"schedule": "@daily", "start_date": ago(days=3)}
    await here.tidemill.dags.register(dag("lucky", [empty("a")], **fields))
    await here.tidemill.dags.register(dag("unlucky", [empty("a")], **fields))
    view = await eventually(lambda: here.tidemill.dags.describe("unlucky"), lambda found: found.broken)
    assert "a mistake of ours" in str(view.broken)
    await here.all_finished("lucky", 1)
    run = await here.tidemill.runs.trigger("lucky")
    assert (await here.finished("lucky", run.run_id)).state is RunState.SUCCESS
    monkeypatch.undo()
    await here.tidemill.dags.register(dag("unlucky", [empty("b")], **fields))
    await here.all_finished("unlucky", 1)
    # Its history is of a code that there is not: it could not be replayed.
    await here.tidemill.client.get_workflow_handle("dag:unlucky").terminate("the test is over")
    await forget(here, "dag:unlucky")


async def forget(here: Stack, workflow_id: str) -> None:
    """Has Temporal delete the workflow's last execution, as it does at the end of retention."""
    gone = WorkflowExecution(workflow_id=workflow_id)
    request = DeleteWorkflowExecutionRequest(namespace="default", workflow_execution=gone)
    await here.tidemill.client.workflow_service.delete_workflow_execution(request)
    await eventually(lambda: listed(here, workflow_id), lambda found: not found)


async def listed(here: Stack, workflow_id: str) -> list[str]:
    return [one.id async for one in here.tidemill.client.list_workflows(f'WorkflowId = "{workflow_id}"')]


@pytest.mark.thorough
async def test_dags_that_wait_for_data_run_beside_many_that_are_always_due(here: Stack) -> None:
    for n in range(15):
        every_second = {"schedule": "* * * * * *", "start_date": ago(seconds=1)}
        await here.tidemill.dags.register(dag(f"always_{n}", [empty("a")], **every_second))
    asset = {"name": "busy_asset", "uri": "busy_asset"}
    await here.tidemill.dags.register(
        dag("patient", [empty("a")], schedule={"kind": "asset", "condition": {"kind": "asset", **asset}})
    )
    await eventually(here.tidemill.assets.list, lambda names: "busy_asset" in names)
    for n in range(3):
        await here.tidemill.assets.emit("busy_asset", cause=f"event {n}")
        await eventually(
            lambda: here.tidemill.runs.list("patient"),
            lambda found, n=n: sum(run.state.finished for run in found) == n + 1,  # type: ignore[misc]
        )
    for n in range(15):
        await eventually(lambda n=n: here.tidemill.runs.list(f"always_{n}"), lambda found: len(found) > 1)  # type: ignore[misc]
        await here.tidemill.dags.pause(f"always_{n}")


@pytest.mark.thorough
async def test_dags_that_are_due_at_one_instant_all_run_and_jitter_spreads_them(here: Stack) -> None:
    due, jitter = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=20), timedelta(seconds=15)
    schedule = {"kind": "events", "event_dates": [due.isoformat()]}
    dag_ids = [f"at_once_{n}" for n in range(30)] + [f"spread_{n}" for n in range(10)]
    for dag_id in dag_ids:
        more = {"jitter": jitter.total_seconds()} if dag_id.startswith("spread") else {}
        await here.tidemill.dags.register(
            dag(dag_id, [empty("a")], schedule=schedule, catchup=True, start_date=ago(days=1), **more)
        )
    for dag_id in dag_ids:
        [run] = await here.all_finished(dag_id, 1)
        assert run.run_after == due
        assert run.queued_at >= due + spread(dag_id, due, jitter if dag_id.startswith("spread") else None)


@pytest.mark.thorough
async def test_small_dags_run_while_a_huge_one_is_under_way(here: Stack) -> None:
    """Several small runs, one after the other, are over before the huge one has done a half of its tasks."""
    huge = dag("huge", [bash(f"t{i}", "sleep 0.5") for i in range(5000)], max_active_tasks=50)
    await here.tidemill.dags.register(huge)
    run = await here.tidemill.runs.trigger("huge")
    await eventually(lambda: here.tidemill.runs.describe("huge", run.run_id), lambda found: found.progress.finished > 0)
    for n in range(3):
        details = await here.run_once(dag(f"small_{n}", [bash("a", "true"), bash("b", "true", "a")]))
        assert details.state is RunState.SUCCESS
    assert (await here.tidemill.runs.describe("huge", run.run_id)).progress.finished < 2500
    await here.tidemill.runs.cancel("huge", run.run_id)


async def test_a_worker_leaves_the_dags_of_another_queue_alone(server: str, tmp_path: Path) -> None:
    """How an installation is divided: by task queues."""
    async with stack(server, tmp_path / "one") as one:
        other = Tidemill(one.tidemill.client, f"{one.task_queue}-other")
        async with asyncio.timeout(60):
            starting = asyncio.create_task(other.dags.register(dag("of_the_other", [empty("a")])))
            await one.run_once(dag("of_the_one", [empty("a")]))
            assert not starting.done(), "nobody polls its queue"
            starting.cancel()
        theirs = replace(one, task_queue=other.task_queue)
        assert "no worker polls task queue" in await told(theirs, "health", code=1)
        assert len(await told(one, "health", "--json")) == 1
        await one.tidemill.client.get_workflow_handle("dag:of_the_other").terminate("the test is over")


# Stopping


async def test_a_task_that_takes_its_time_to_stop_is_seen_as_shut_down(here: Stack) -> None:
    stubborn = "trap 'sleep 3; exit 1' TERM; echo began; while true; do sleep 0.1; done"
    await here.tidemill.dags.register(dag("stopping", [bash("a", stubborn)]))
    run = await here.tidemill.runs.trigger("stopping")
    await eventually(
        lambda: here.tidemill.runs.describe("stopping", run.run_id), lambda found: found.tasks[0].state == "running"
    )
    mark = MarkRequest.model_validate({"tasks": ["a"], "state": "failed"})
    marking = asyncio.create_task(here.tidemill.tasks.mark("stopping", run.run_id, mark))
    await eventually(
        lambda: here.tidemill.runs.describe("stopping", run.run_id), lambda found: found.tasks[0].state == "shutdown"
    )
    await marking
    details = await here.finished("stopping", run.run_id)
    assert (details.state, details.tasks[0].state) == ("failed", "failed")
