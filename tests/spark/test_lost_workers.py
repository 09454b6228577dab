"""A worker of a standalone cluster is lost with a driver on it, or without: the try is not the task's fault."""

import asyncio
from pathlib import Path

import pytest
from spark_clusters import ON_DAY, rows, standalone_master, standalone_worker, told, writing
from support import Stack, eventually
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.views import RunDetails
from tidemill.model.states import RunState

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
DAY = TriggerRequest.model_validate(ON_DAY)


async def noted(folder: Path) -> list[str]:
    notes = folder / "notes"
    return [line.split()[0] for line in notes.read_text().splitlines()] if notes.exists() else []


async def begun(here: Stack, tmp_path: Path, dag_id: str, spark: dict[str, object]) -> str:
    """The run_id of a run whose driver is at work."""
    await here.tidemill.dags.register(writing(dag_id, {**spark, "deploy_mode": "cluster"}, tmp_path, seconds=60))
    run = await here.tidemill.runs.trigger(dag_id, DAY)
    await eventually(lambda: noted(tmp_path), lambda notes: notes == ["begun"])
    return run.run_id


async def test_a_driver_that_is_lost_with_its_worker_costs_no_retry(
    here: Stack, spark_cache: Path, tmp_path: Path
) -> None:
    with standalone_master(tmp_path / "cluster", spark_cache) as cluster:
        with standalone_worker(tmp_path / "lost", cluster) as jvm:
            run_id = await begun(here, tmp_path, "lost_driver", cluster.options())
            jvm.kill()  # and all below it with the end of the block
        with standalone_worker(tmp_path / "other", cluster):
            details: RunDetails = await here.finished("lost_driver", run_id)
    assert details.state is RunState.SUCCESS, told(details)
    assert await noted(tmp_path) == ["begun", "begun", "written"]
    assert rows(tmp_path) == 40
    assert details.tasks[0].try_number == 2


async def test_a_driver_that_lives_on_a_worker_that_is_silent_is_followed(
    here: Stack, spark_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its master has given it up: its executors are elsewhere, and what it tells counts."""
    monkeypatch.setenv("SPARK_DAEMON_JAVA_OPTS", "-Dspark.worker.timeout=20")
    with (
        standalone_master(tmp_path / "cluster", spark_cache) as cluster,
        standalone_worker(tmp_path / "silent", cluster) as jvm,
    ):
        run_id = await begun(here, tmp_path, "silent_worker", cluster.options())
        with standalone_worker(tmp_path / "other", cluster):
            jvm.suspend()
            await eventually(lambda: asyncio.to_thread(cluster.drivers, active=False), len)
            details = await here.finished("silent_worker", run_id)
            jvm.resume()
    assert details.state is RunState.SUCCESS, told(details)
    assert await noted(tmp_path) == ["begun", "written"]
    assert rows(tmp_path) == 40
    assert details.tasks[0].try_number == 1
