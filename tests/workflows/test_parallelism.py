"""The limit of the installation (Airflow: `[core] parallelism`): no more tasks at once, over all DAGs and workers."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from support import bash, dag, empty, eventually, most_at_once, stack, told, worker_environment, worker_process
from tidemill.model.run.identity import TriggerRequest


@pytest.mark.thorough
async def test_it_holds_over_dags_and_workers(server: str, tmp_path: Path) -> None:
    async with stack(server, tmp_path / "home", no_remote_activities=True, parallelism=3) as made:
        env = worker_environment(server, made.home, made.task_queue) | {"TIDEMILL_PARALLELISM": "3"}
        with ExitStack() as workers:
            for _ in range(2):
                workers.enter_context(worker_process(env))
            runs = []
            for number in range(3):
                tasks = [bash(f"t{i}", "sleep 0.7") for i in range(4)]
                await made.tidemill.dags.register(dag(f"share_{number}", tasks))
                runs.append((f"share_{number}", (await made.tidemill.runs.trigger(f"share_{number}")).run_id))
            waiting = await eventually(lambda: made.tidemill.pools.list(), lambda found: found and found[0].queued)
            assert [(pool.name, pool.settings.slots) for pool in waiting] == [("limit:parallelism", 3)]
            details = [await made.finished(*run) for run in runs]
        assert {str(run.state) for run in details} == {"success"}
        assert most_at_once(details) == 3
        await eventually(lambda: made.tidemill.pools.describe("limit:parallelism"), lambda found: not found.holders)


@pytest.mark.thorough
async def test_what_waits_for_it_says_so_and_a_task_without_work_waits_for_nothing(server: str, tmp_path: Path) -> None:
    go_on = tmp_path / "go_on"
    async with stack(server, tmp_path / "home", parallelism=1) as made:
        await made.tidemill.dags.register(dag("holds", [bash("a", f"until test -e {go_on}; do sleep 0.1; done")]))
        holding = await made.tidemill.runs.trigger("holds")
        await eventually(
            lambda: made.tidemill.runs.describe("holds", holding.run_id),
            lambda found: found.tasks[0].state == "running",
        )
        await made.tidemill.dags.register(dag("waits", [bash("a", "true"), empty("nothing")]))
        waiting = await made.tidemill.runs.trigger("waits")
        found = await eventually(
            lambda: made.tidemill.runs.describe("waits", waiting.run_id),
            lambda found: found.tasks[1].state == "success",
        )
        assert found.tasks[0].why == "parallelism = 1 is reached: as many tasks of all DAGs are queued or running"
        assert " a (1, since" in await told(made, "pools", "show", "limit:parallelism")
        assert "is in use by" in await told(made, "pools", "delete", "limit:parallelism", code=1)
        go_on.touch()
        assert (await made.finished("waits", waiting.run_id)).state == "success"
        await eventually(lambda: made.tidemill.pools.describe("limit:parallelism"), lambda found: not found.holders)
        assert "is deleted" in await told(made, "pools", "delete", "limit:parallelism")


async def test_the_heaviest_task_of_any_dag_goes_first(server: str, tmp_path: Path) -> None:
    go_on = tmp_path / "go_on"
    async with stack(server, tmp_path / "home", parallelism=1) as made:
        tasks = {
            "first": bash("a", f"until test -e {go_on}; do sleep 0.1; done"),
            "light": bash("a", "true"),
            "heavy": bash("a", "true", priority_weight=9),
        }
        runs = {}
        for number, (dag_id, task) in enumerate(tasks.items()):
            await made.tidemill.dags.register(dag(dag_id, [task]))
            runs[dag_id] = await made.tidemill.runs.trigger(dag_id)
            await eventually(
                lambda: made.tidemill.pools.describe("limit:parallelism"),
                lambda found, number=number: len(found.holders) + len(found.queued) == number + 1,  # type: ignore[misc]
            )
        go_on.touch()
        ended = {dag_id: await made.finished(dag_id, run.run_id) for dag_id, run in runs.items()}
    light, heavy = (ended[dag_id].tasks[0].started_at for dag_id in ("light", "heavy"))
    assert heavy is not None
    assert light is not None
    assert heavy < light


async def test_a_task_in_a_pool_takes_a_slot_of_both(server: str, tmp_path: Path) -> None:
    async with stack(server, tmp_path / "home", parallelism=2) as made:
        await told(made, "pools", "set", "wide", "5")
        tasks = [bash(f"t{i}", "sleep 0.3", pool="wide", max_active_tis_per_dag=5) for i in range(5)]
        details = await made.run_once(dag("in_both", tasks))
        assert most_at_once([details]) == 2
        await eventually(lambda: made.tidemill.pools.describe("wide"), lambda found: not found.holders)


async def test_who_waits_for_a_run_or_a_moment_takes_no_slot(server: str, tmp_path: Path) -> None:
    """With one slot, a task that waits for the run it has triggered would else wait for ever."""
    async with stack(server, tmp_path / "home", parallelism=1) as made:
        await made.tidemill.dags.register(dag("child", [bash("works", "true")]))
        waits = {"kind": "wait_until", "task_id": "waits", "delta": 3}
        triggers = {"kind": "trigger_dag", "task_id": "asks", "trigger_dag_id": "child", "wait_for_completion": True}
        details = await made.run_once(dag("parent", [waits, triggers]))
        assert details.state == "success"
        waited, asked = details.tasks
        assert waited.state == asked.state == "success"
        [child] = await made.all_finished("child", 1)
        assert child.state == "success"


@pytest.mark.thorough
async def test_it_holds_over_continue_as_new_and_for_runs_that_begin_where_it_is_set(
    impatient_server: str, tmp_path: Path
) -> None:
    async with stack(impatient_server, tmp_path / "first", parallelism=1) as made:
        spec = dag("changed", [bash(f"t{i}", "sleep 0.1") for i in range(8)], max_active_runs=2)
        await made.tidemill.dags.register(spec)
        first = await made.tidemill.runs.trigger("changed", TriggerRequest(run_id="first"))
        assert most_at_once([await made.finished("changed", first.run_id)]) == 1
    async with stack(impatient_server, tmp_path / "second") as made:
        unlimited = await made.run_once(dag("unlimited", [bash(f"t{i}", "sleep 2") for i in range(3)]))
        assert most_at_once([unlimited]) == 3
        assert await made.tidemill.pools.list() == []
