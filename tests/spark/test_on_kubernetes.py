"""On a real API of Kubernetes, with pods that see nothing of the worker's disk: results, logs, refusals, waiting, ends.

What holds of every mode is in test_spark_modes.py and test_spark_kills.py.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from kubernetes_cluster import KubernetesCluster
from spark_clusters import ON_DAY, rows, told, writing
from support import Stack, dag, eventually, stack
from support import told as said
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.states import RunState

pytestmark = pytest.mark.spark
SQL = {"kind": "spark_sql", "task_id": "ask"}


@pytest.fixture
async def spark(server: str, spark_home: Path, kubernetes: KubernetesCluster) -> Any:
    assert kubernetes.server
    async with stack(server, spark_home) as made:
        yield made


def given_up(cluster: KubernetesCluster) -> list[str]:
    return cluster.kubectl("get", "configmap", "--selector", "tidemill-given-up", "--output", "name").split()


async def test_rows_come_back_and_the_log_is_the_tasks(spark: Stack, kubernetes: KubernetesCluster) -> None:
    sql = "SELECT id AS n, md5(CAST(id AS STRING)) AS noise FROM range(200)"  # several lines of the driver's
    options = kubernetes.options(spark.home.resolve())
    details = await spark.run_once(dag("kubernetes_rows", [{**SQL, "sql": sql, "spark": options}]), **ON_DAY)
    assert details.state is RunState.SUCCESS, told(details)
    rows = await spark.result_of(details, "ask")
    assert [row["n"] for row in rows] == [*range(200)]
    log = spark.log_of("kubernetes_rows", details.run.run_id, "ask")
    assert "SparkContext" in log
    assert "tidemill:" not in log
    [pod] = kubernetes.pods("kubernetes_rows", "Succeeded")
    kept = json.loads(kubernetes.kubectl("get", "configmap", pod, "--output", "json"))
    assert "data" not in kept, "what was sent does not stay"


FUNCTION = """
from tidemill import DAG, task
import beside

with DAG("kubernetes_function"):
    @task.pyspark(**{options})
    def count(spark):
        return spark.range(beside.ROWS).count()

    count()
"""


async def test_a_function_is_run_with_the_code_that_was_kept_with_its_dag(
    spark: Stack, kubernetes: KubernetesCluster, tmp_path: Path
) -> None:
    """Its module beside it, too; the bundle's folder is not to be seen in the pod, nor what the worker has kept."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    options = kubernetes.options(spark.home.resolve(), folder, image_has_tidemill=True)
    (folder / "beside.py").write_text("ROWS = 42\n")
    (folder / "function.py").write_text(FUNCTION.format(options=options))
    await said(spark, "bundles", "set", "on_kubernetes", str(folder), "--interval", "1", "--min-interval", "0")
    await eventually(lambda: spark.tidemill.dags.describe("kubernetes_function"), bool)
    run = await spark.tidemill.runs.trigger("kubernetes_function")
    details = await spark.finished("kubernetes_function", run.run_id)
    assert details.state is RunState.SUCCESS, told(details)
    assert await spark.result_of(details, "count") == 42


async def test_a_refusal_is_the_apis_sentence_and_comes_at_once(spark: Stack, kubernetes: KubernetesCluster) -> None:
    options = kubernetes.options(spark.home.resolve())
    options["conf"]["spark.kubernetes.authenticate.driver.serviceAccountName"] = "nosuch"
    details = await spark.run_once(dag("kubernetes_refused", [{**SQL, "sql": "SELECT 1", "spark": options}]), **ON_DAY)
    assert details.state is RunState.FAILED
    failure = details.tasks[0].attempts[0].failure
    assert failure is not None
    assert failure.error_type == "SparkSubmitRefused"
    assert "error looking up service account team-a/nosuch" in failure.message


async def test_a_driver_that_waits_says_why_and_its_end_leaves_nothing(
    spark: Stack, kubernetes: KubernetesCluster, tmp_path: Path
) -> None:
    options = kubernetes.options(spark.home.resolve())
    options["conf"]["spark.kubernetes.driver.node.selector.disk"] = "fast"
    await spark.tidemill.dags.register(writing("kubernetes_waits", options, tmp_path))
    run = await spark.tidemill.runs.trigger("kubernetes_waits", TriggerRequest.model_validate(ON_DAY))
    seen = await eventually(
        lambda: spark.tidemill.runs.describe("kubernetes_waits", run.run_id),
        lambda found: "Unschedulable" in str((found.tasks[0].progress or {}).get("cluster")),
    )
    assert "no node has these labels" in str(seen.tasks[0].progress)
    before = given_up(kubernetes)
    await spark.tidemill.client.get_workflow_handle(seen.run.workflow_id).cancel()
    await spark.finished("kubernetes_waits", run.run_id)
    assert await asyncio.to_thread(kubernetes.pods, "kubernetes_waits") == []
    assert len(given_up(kubernetes)) == len(before) + 1, "nothing of it can begin any more"


async def test_a_driver_that_ends_without_a_word_is_told_by_its_pod(
    spark: Stack, kubernetes: KubernetesCluster, tmp_path: Path
) -> None:
    script = tmp_path / "ends.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    options = kubernetes.options(spark.home.resolve())
    task = {"kind": "spark_submit", "task_id": "ends", "application": str(script), "spark": options}
    details = await spark.run_once(dag("kubernetes_ends", [task]), **ON_DAY)
    failure = details.tasks[0].attempts[0].failure
    assert failure is not None
    assert failure.error_type == "SparkDriverLost"
    assert "exit code" in failure.message


@pytest.mark.thorough
async def test_a_driver_that_is_preempted_costs_no_retry(
    spark: Stack, kubernetes: KubernetesCluster, tmp_path: Path
) -> None:
    """The scheduler says so in the pod's conditions, and deletes it."""
    dag_id, notes = "kubernetes_preempted", tmp_path / "notes"
    spec = writing(dag_id, kubernetes.options(spark.home.resolve()), tmp_path, seconds=8)
    await spark.tidemill.dags.register(spec)
    run = await spark.tidemill.runs.trigger(dag_id, TriggerRequest.model_validate(ON_DAY))
    await eventually(lambda: asyncio.to_thread(notes.exists), bool)
    [pod] = await asyncio.to_thread(kubernetes.pods, dag_id, "Running")
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "for others"}
    patch = json.dumps({"status": {"conditions": [target]}})
    kubernetes.kubectl("patch", "pod", pod, "--subresource=status", "--type=strategic", "--patch", patch)
    kubernetes.kubectl("delete", "pod", pod, "--wait=false")
    details = await spark.finished(dag_id, run.run_id, within=550)
    assert details.state is RunState.SUCCESS, told(details)
    [first, second] = details.tasks[0].attempts
    assert first.failure is not None
    assert first.failure.is_disruption, first.failure
    assert (second.try_number, details.tasks[0].max_tries) == (2, 1)
    assert rows(tmp_path) == 40


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["kubernetes", "operator"])
async def test_an_api_that_is_away_while_a_driver_runs_costs_nothing(
    spark: Stack, kubernetes: KubernetesCluster, tmp_path: Path, mode: str, request: pytest.FixtureRequest
) -> None:
    dag_id = f"api_away_{mode}"
    options = request.getfixturevalue(mode).options(spark.home.resolve())
    await spark.tidemill.dags.register(writing(dag_id, options, tmp_path, seconds=20))
    run = await spark.tidemill.runs.trigger(dag_id, TriggerRequest.model_validate(ON_DAY))
    await eventually(lambda: asyncio.to_thread((tmp_path / "notes").exists), bool)
    away = kubernetes.without_api()
    await asyncio.to_thread(away.__enter__)
    try:
        await eventually(
            lambda: spark.tidemill.runs.describe(dag_id, run.run_id),
            lambda found: "kubectl" in str((found.tasks[0].progress or {}).get("cluster")),
        )
    finally:
        await asyncio.to_thread(away.__exit__, None, None, None)
    details = await spark.finished(dag_id, run.run_id)
    assert details.state is RunState.SUCCESS, told(details)
    assert details.tasks[0].try_number == 1
    assert rows(tmp_path) == 40
    assert len(kubernetes.pods(dag_id)) == 1
