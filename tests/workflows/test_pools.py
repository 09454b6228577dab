"""Pools and limits across runs: never more than there are slots, heaviest first, nothing leaked."""

import asyncio
import os
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from support import Stack, bash, dag, eventually, most_at_once, stack, worker_environment, worker_process
from tidemill.model.pool.state import PLENTY, PoolSettings
from tidemill.model.run.identity import TriggerRequest


async def test_a_pool_holds_over_all_runs_and_dags(here: Stack) -> None:
    await here.tidemill.pools.configure("db", PoolSettings(slots=2))
    runs = []
    for dag_id in ("one", "other"):
        await here.tidemill.dags.register(dag(dag_id, [bash(f"t{i}", "sleep 0.3", pool="db") for i in range(3)]))
        runs += [(dag_id, (await here.tidemill.runs.trigger(dag_id)).run_id) for _ in range(2)]
    details = [await here.finished(*run) for run in runs]
    assert {str(run.state) for run in details} == {"success"}
    assert most_at_once(details) == 2
    view = await eventually(lambda: here.tidemill.pools.describe("db"), lambda found: found.occupied_slots == 0)
    assert view.open_slots == 2
    assert "db" in [pool.name for pool in await here.tidemill.pools.list()]


@pytest.mark.thorough
async def test_the_heaviest_goes_first_and_a_task_that_is_too_big_is_passed_over(here: Stack) -> None:
    await here.tidemill.pools.configure("narrow", PoolSettings(slots=1))
    tasks = [
        bash("first", "sleep 2", pool="narrow", priority_weight=50),
        bash("light", "true", pool="narrow", priority_weight=1),
        bash("heavy", "true", pool="narrow", priority_weight=9),
        bash("huge", "true", pool="narrow", priority_weight=99, pool_slots=2),
    ]
    await here.tidemill.dags.register(dag("weights", tasks))
    run = await here.tidemill.runs.trigger("weights")
    waiting = await eventually(
        lambda: here.tidemill.pools.describe("narrow"), lambda found: len(found.queued) == 3 and found.occupied_slots
    )
    assert [line.split()[1] for line in waiting.queued] == ["huge", "heavy", "light"]
    details = await here.tidemill.runs.describe("weights", run.run_id)
    assert {task.key: task.why for task in details.tasks}["light"] == "waits for 1 of the slots of pool 'narrow'"
    ended = await eventually(
        lambda: here.tidemill.runs.describe("weights", run.run_id),
        lambda found: sum(task.state == "success" for task in found.tasks) == 3,
    )
    times = {task.key: task.started_at for task in ended.tasks}
    assert times["first"] < times["heavy"] < times["light"]
    await here.tidemill.pools.configure("narrow", PoolSettings(slots=2))
    assert (await here.finished("weights", run.run_id)).state == "success"


async def test_a_pool_that_does_not_exist_is_named_and_waited_for(here: Stack) -> None:
    await here.tidemill.dags.register(dag("poolless", [bash("a", "true", pool="nowhere")]))
    run = await here.tidemill.runs.trigger("poolless")
    details = await eventually(
        lambda: here.tidemill.runs.describe("poolless", run.run_id), lambda found: "nowhere" in found.tasks[0].why
    )
    await eventually(
        lambda: here.tidemill.runs.describe("poolless", run.run_id),
        lambda found: "does not exist" in found.tasks[0].why,
    )
    assert details.tasks[0].state == "scheduled"
    await here.tidemill.pools.configure("nowhere", PoolSettings(slots=1))
    assert (await here.finished("poolless", run.run_id)).state == "success"


async def test_a_terminated_run_leaks_no_slot(here: Stack) -> None:
    await here.tidemill.pools.configure("leaky", PoolSettings(slots=1))
    await here.tidemill.dags.register(dag("holder", [bash("a", "sleep 4730", pool="leaky")]))
    holding = await here.tidemill.runs.trigger("holder")
    await eventually(lambda: here.tidemill.pools.describe("leaky"), lambda found: found.occupied_slots == 1)
    await here.tidemill.client.get_workflow_handle(holding.workflow_id).terminate("for the test")
    await here.tidemill.dags.register(dag("waiter", [bash("a", "true", pool="leaky")]))
    run = await here.tidemill.runs.trigger("waiter")
    assert (await here.finished("waiter", run.run_id)).state == "success"


async def test_a_slot_is_held_by_one_while_its_worker_is_killed(server: str, tmp_path: Path) -> None:
    """The try goes on elsewhere under the lease that it has; nobody else gets the slot meanwhile."""
    home, started = tmp_path / "home", tmp_path / "started"
    async with stack(server, home, no_remote_activities=True) as made:
        env = worker_environment(server, home, made.task_queue)
        command = f"echo x >> {started}; test $(wc -l < {started}) -ge 2 || sleep 60"
        await made.tidemill.pools.configure("single", PoolSettings(slots=1))
        with worker_process(env) as first:
            tasks = [bash("a", command, pool="single", priority_weight=2), bash("b", "true", pool="single")]
            await made.tidemill.dags.register(dag("killed_in_pool", tasks))
            run = await made.tidemill.runs.trigger("killed_in_pool")
            await eventually(lambda: asyncio.to_thread(started.exists), bool)
            first.kill()
            first.wait()
            assert (await made.tidemill.pools.describe("single")).occupied_slots == 1
        with worker_process(env):
            details = await made.finished("killed_in_pool", run.run_id)
    times = {task.key: task for task in details.tasks}
    assert times["a"].try_number == 1
    assert times["a"].ended_at is not None
    assert times["b"].queued_at is not None
    assert times["b"].queued_at >= times["a"].ended_at


@pytest.mark.thorough
async def test_a_pool_holds_while_runs_and_the_pool_go_on_as_new(impatient_server: str, tmp_path: Path) -> None:
    async with stack(impatient_server, tmp_path / "home") as made:
        await made.tidemill.pools.configure("one_slot", PoolSettings(slots=1))
        for number in range(3):
            tasks = [bash(f"t{i}", "sleep 0.1", pool="one_slot") for i in range(8)]
            details = await made.run_once(dag(f"as_new_{number}", tasks))
            assert details.state == "success"
            assert most_at_once([details]) == 1


@pytest.mark.parametrize(("slots", "sent"), [(2 * PLENTY, {"ask": 1, "give_back": 1}), (3, {"ask": 3, "give_back": 3})])
async def test_a_run_passes_slots_on_where_plenty_are_free(
    here: Stack, tmp_path: Path, slots: int, sent: dict[str, int]
) -> None:
    name = f"of_{slots}_slots"
    await here.tidemill.pools.configure(name, PoolSettings(slots=slots))
    waits = f"until [ -e {tmp_path}/go ]; do sleep 0.1; done"
    tasks = [bash("a", "true", pool=name), bash("b", waits, "a", pool=name), bash("c", "true", "b", pool=name)]
    await here.tidemill.dags.register(dag(name, tasks))
    run = await here.tidemill.runs.trigger(name)
    view = await eventually(
        lambda: here.tidemill.pools.describe(name),
        lambda found: [holder.split()[1] for holder in found.holders] == ["b"],
    )
    assert view.occupied_slots == 1
    (tmp_path / "go").touch()
    assert (await here.finished(name, run.run_id)).state == "success"
    view = await eventually(lambda: here.tidemill.pools.describe(name), lambda found: found.occupied_slots == 0)
    assert not view.queued
    history = await here.tidemill.client.get_workflow_handle(run.workflow_id).fetch_history()
    signals = Counter(
        event.signal_external_workflow_execution_initiated_event_attributes.signal_name for event in history.events
    )
    assert {signal: signals[signal] for signal in sent} == sent


async def test_a_cancelled_run_gives_slots_back_while_its_slowest_task_still_stops(here: Stack, tmp_path: Path) -> None:
    await here.tidemill.pools.configure("of_cancelled", PoolSettings(slots=2 * PLENTY))
    slow = f"trap '' TERM; touch {tmp_path}/slow; until [ -e {tmp_path}/go ]; do sleep 0.1; done"
    tasks = [
        bash("quick", f"touch {tmp_path}/quick; sleep 600", pool="of_cancelled"),
        bash("slow", slow, pool="of_cancelled"),
    ]
    await here.tidemill.dags.register(dag("cancelled_slots", tasks))
    run = await here.tidemill.runs.trigger("cancelled_slots")
    await eventually(lambda: asyncio.to_thread(os.listdir, tmp_path), lambda found: {"quick", "slow"} <= {*found})
    cancelled = asyncio.create_task(here.tidemill.runs.cancel("cancelled_slots", run.run_id))
    await eventually(
        lambda: here.tidemill.pools.describe("of_cancelled"),
        lambda found: [holder.split()[1] for holder in found.holders] == ["slow"],
    )
    (tmp_path / "go").touch()
    await cancelled
    await eventually(lambda: here.tidemill.pools.describe("of_cancelled"), lambda found: not found.holders)


async def test_a_task_is_limited_over_all_runs_of_its_dag(here: Stack) -> None:
    tasks = [bash("limited", "sleep 0.4", max_active_tis_per_dag=1), bash("free", "true")]
    await here.tidemill.dags.register(dag("limits", tasks))
    runs = [(await here.tidemill.runs.trigger("limits", TriggerRequest(run_id=f"r{i}"))).run_id for i in range(3)]
    details = [await here.finished("limits", run_id) for run_id in runs]
    only = [run.model_copy(update={"tasks": run.tasks[:1]}) for run in details]
    assert most_at_once(only) == 1


async def test_instances_of_a_task_are_limited_within_a_run(here: Stack) -> None:
    mapped = {"by": {"command": ["sleep 0.3"] * 4}, "into": "fields"}
    task = bash("limited", "x", expand=mapped, max_active_tis_per_dagrun=2)
    details = await here.run_once(dag("limited_mapped", [task, bash("other", "true")]))
    assert most_at_once([details.model_copy(update={"tasks": details.tasks[:4]})]) == 2


@pytest.mark.parametrize("include_deferred", [False, True])
async def test_a_task_that_waits_holds_its_slot_only_if_the_pool_says_so(here: Stack, include_deferred: bool) -> None:
    name = f"waiting_{include_deferred}"
    await here.tidemill.pools.configure(name, PoolSettings(slots=1, include_deferred=include_deferred))
    waits = {"kind": "wait_until", "task_id": "waits", "delta": 3, "pool": name, "priority_weight": 5}
    details = await here.run_once(dag(f"dag_{name}", [waits, bash("works", "true", pool=name)]))
    waited, worked = details.tasks
    assert waited.ended_at is not None
    assert worked.queued_at is not None
    assert (worked.queued_at >= waited.ended_at - timedelta(milliseconds=50)) is include_deferred
