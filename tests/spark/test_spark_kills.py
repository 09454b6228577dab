"""A worker is killed at each boundary of a Spark task: in every mode one application does the work, none is left."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pyspark
import pytest
from kubernetes_cluster import KubernetesCluster
from spark_clusters import ON_DAY, Standalone, options_for, rows, told, writing
from support import Stack, dag, eventually, killing_worker, processes_with, stack, worker_environment, worker_process
from tidemill.activities.spark.output import MARK
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.views import RunDetails
from tidemill.model.states import RunState
from yarn_cluster import YarnCluster

pytestmark = pytest.mark.spark
DAY = TriggerRequest.model_validate(ON_DAY)
BOUNDARIES = [
    pytest.param("local", "before the work", marks=pytest.mark.long),
    ("local", "while it runs"),
    pytest.param("local", "after the work", marks=pytest.mark.long),
    pytest.param("standalone-client", "before the work", marks=pytest.mark.long),
    pytest.param("standalone-client", "while it runs", marks=pytest.mark.long),
    pytest.param("standalone-client", "after the work", marks=pytest.mark.long),
    pytest.param("standalone-cluster", "before the work", marks=pytest.mark.long),
    pytest.param("standalone-cluster", "after the request", marks=pytest.mark.thorough),
    pytest.param("standalone-cluster", "after the work", marks=pytest.mark.long),
    pytest.param("standalone-cluster", "while it runs", marks=pytest.mark.thorough),
    pytest.param("standalone-cluster", "after tidemill.spark_watch", marks=pytest.mark.long),
    pytest.param("kubernetes", "before the work", marks=pytest.mark.long),
    ("kubernetes", "after the request"),
    pytest.param("kubernetes", "while it runs", marks=pytest.mark.long),
    pytest.param("kubernetes", "after the work", marks=pytest.mark.long),
    pytest.param("operator", "before the work", marks=pytest.mark.long),
    pytest.param("operator", "after the request", marks=pytest.mark.thorough),
    pytest.param("operator", "while it runs", marks=pytest.mark.long),
    pytest.param("operator", "after the work", marks=pytest.mark.long),
    pytest.param("yarn", "before the work", marks=pytest.mark.long),
    pytest.param("yarn", "after the request", marks=pytest.mark.thorough),
    pytest.param("yarn", "while it runs", marks=pytest.mark.long),
    pytest.param("yarn", "after the work", marks=pytest.mark.long),
    pytest.param("connect", "before the work", marks=pytest.mark.long),
    pytest.param("connect", "while it runs", marks=pytest.mark.long),
    pytest.param("connect", "after the work", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("mode", "when"), BOUNDARIES)
async def test_one_application_does_the_work(
    server: str, spark_home: Path, tmp_path: Path, request: pytest.FixtureRequest, mode: str, when: str
) -> None:
    dag_id = f"killed_{mode}_{when.replace(' ', '_')}"
    spark = options_for(request, mode)
    async with stack(server, spark_home, no_remote_activities=True) as here:
        spec = writing(dag_id, spark, tmp_path, seconds=5 if when == "while it runs" else 0)
        with killing_worker(here, when, tmp_path / "mark") as first:
            await here.tidemill.dags.register(spec)
            run = await here.tidemill.runs.trigger(dag_id, DAY)
            if when == "while it runs":
                await eventually(lambda: noted(tmp_path), lambda notes: notes == ["begun"])
                first.kill()
            await asyncio.to_thread(first.wait, 90)
        with killing_worker(here, "never", tmp_path / "mark"):
            details = await here.finished(dag_id, run.run_id)
        assert details.state is RunState.SUCCESS, told(details)
        assert details.tasks[0].try_number == 1
    assert rows(tmp_path) == 40
    begun_again = when == "while it runs" and mode not in ("standalone-cluster", "kubernetes", "operator", "yarn")
    assert await noted(tmp_path) == (["begun"] if begun_again else []) + ["begun", "written"]
    await eventually(lambda: asyncio.to_thread(processes_with, str(spark_home / "attempts")), lambda left: not left)
    if mode in ("kubernetes", "operator"):
        pods: KubernetesCluster = request.getfixturevalue("kubernetes")
        assert len(pods.pods(dag_id)) == len(pods.pods(dag_id, "Succeeded")) == 1
    if mode == "yarn":
        yarn: YarnCluster = request.getfixturevalue("yarn")
        assert [app["finalStatus"] for app in yarn.applications(dag_id)] == ["SUCCEEDED"]
    if mode.startswith("standalone"):
        cluster: Standalone = request.getfixturevalue("standalone")
        await eventually(lambda: asyncio.to_thread(cluster.drivers, active=True), lambda drivers: not drivers)
        assert len(cluster.applications(dag_id)) == 1 + begun_again


@pytest.mark.thorough
async def test_a_java_application_is_not_run_again_when_its_end_could_not_be_told(
    server: str, spark_home: Path, tmp_path: Path
) -> None:
    """It writes to a folder that must not be there: a second run would fail."""
    jar = next((Path(pyspark.__file__).parent / "jars").glob("spark-mllib_*.jar"))
    task = {
        "kind": "spark_submit",
        "task_id": "generate",
        "application": str(jar),
        "java_class": "org.apache.spark.mllib.util.LinearDataGenerator",
        "application_args": ["local[1]", str(tmp_path / "made"), "20", "2"],
        "spark": {"master": "local[1]", "driver_memory": "600m"},
    }
    async with stack(server, spark_home, no_remote_activities=True) as here:
        with killing_worker(here, "after the work", tmp_path / "mark") as first:
            await here.tidemill.dags.register(dag("java_killed", [task], heartbeat_timeout=4))
            run = await here.tidemill.runs.trigger("java_killed", DAY)
            await asyncio.to_thread(first.wait, 90)
        with killing_worker(here, "never", tmp_path / "mark"):
            details = await here.finished("java_killed", run.run_id)
    assert details.state is RunState.SUCCESS, told(details)
    assert (tmp_path / "made" / "_SUCCESS").exists()


async def noted(folder: Path) -> list[str]:
    """What the applications have noted: when they began, and when they had written."""
    notes = folder / "notes"
    return [line.split()[0] for line in notes.read_text().splitlines()] if notes.exists() else []


@pytest.mark.thorough
async def test_a_zombie_that_overlaps_its_retry_changes_nothing(server: str, spark_home: Path, tmp_path: Path) -> None:
    """A worker that hangs without dying: its driver writes on, on a host that the retry knows nothing of."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "cache").symlink_to(spark_home / "cache")
    spark = {"master": "local[2]", "driver_memory": "600m"}
    async with stack(server, spark_home, no_remote_activities=True) as here:
        with worker_process(worker_environment(server, elsewhere, here.task_queue)) as zombie:
            await here.tidemill.dags.register(writing("zombie", spark, tmp_path, seconds=25))
            run = await here.tidemill.runs.trigger("zombie", DAY)
            await eventually(lambda: noted(tmp_path), lambda notes: notes == ["begun"])
            zombie.send_signal(signal.SIGSTOP)
            try:
                with worker_process(worker_environment(server, spark_home, here.task_queue)):
                    details = await finished_with_both(here, run.run_id, tmp_path)
            finally:
                zombie.send_signal(signal.SIGCONT)
    assert details.state is RunState.SUCCESS, told(details)
    assert rows(tmp_path) == 40
    published = tmp_path / "lake" / "numbers" / "day=2024-03-04" / MARK
    assert not published.read_text().endswith("-1"), "the retry's output counts, not that of the first start"


async def finished_with_both(here: Stack, run_id: str, folder: Path) -> RunDetails:
    """The run, once the retry has ended and the zombie has written everything, too."""
    # Asked again and again: a question may go to the worker that hangs.
    details = await eventually(lambda: here.tidemill.runs.describe("zombie", run_id), lambda run: run.state.finished)
    notes: Any = await eventually(lambda: noted(folder), lambda notes: notes.count("written") == 2)
    assert notes.count("begun") == 2
    return details
