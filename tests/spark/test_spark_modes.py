"""Every place where a Spark application can run, end to end: contract, result, output, failure, end."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet
import pytest
from kubernetes_cluster import KubernetesCluster
from spark_clusters import APPS, ON_DAY, Standalone, options_for, rows, told, writing
from support import Stack, eventually, processes_with, stack
from tidemill.activities.attempts.beside_log import SPARK
from tidemill.activities.dag_files import parse_dag_file
from tidemill.model.run.attempts import attempt_path
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.run.spark_figures import SparkFigures
from tidemill.model.states import RunState
from yarn_cluster import YarnCluster

DAG_FILE = Path(__file__).parents[1] / "dags" / "spark_modes.py"
MODES = [
    "local",
    pytest.param("standalone-client", marks=pytest.mark.long),
    pytest.param("standalone-cluster", marks=pytest.mark.thorough),
    "connect",
    "kubernetes",
    "operator",
    "yarn",
]
IN_CLIENT_MODE = [pytest.param(mode, marks=pytest.mark.long) for mode in ("local", "standalone-client")]
ELSEWHERE = ["standalone-cluster", "connect", "kubernetes", "operator", "yarn"]
ON_KUBERNETES = ("kubernetes", "operator")
pytestmark = pytest.mark.spark


@pytest.fixture
async def spark(server: str, spark_home: Path) -> Any:
    async with stack(server, spark_home) as made:
        yield made


@pytest.fixture
def where(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The options of one mode, its cluster started."""
    return options_for(request, request.param)


@pytest.mark.parametrize("where", MODES, indirect=True)
async def test_what_an_application_writes_is_published_once(
    spark: Stack, where: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    dag_id = f"written_{request.node.callspec.id}"
    details = await spark.run_once(writing(dag_id, where, tmp_path), **ON_DAY)
    assert details.state is RunState.SUCCESS, told(details)
    assert rows(tmp_path) == 40
    assert not (tmp_path / "lake" / "numbers" / "_tidemill").exists()
    [kept] = spark.home.glob(f"logs/dag_id={dag_id}/**/*{SPARK}")
    figures = SparkFigures.model_validate_json(kept.read_text())
    assert figures.is_final
    assert figures.application_id
    # A Connect server does not say which of its work was for whom.
    assert figures.output_rows == (None if request.node.callspec.id == "connect" else 40)
    # Spark tasks take slots of a pool of their own, which nobody has to set up.
    pool = await spark.tidemill.pools.describe("spark")
    assert (pool.settings.slots, pool.occupied_slots) == (128, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["standalone-cluster", "connect"])
async def test_functions_and_sql_run_anywhere(
    server: str,
    spark_home: Path,
    mode: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A function with a UDF that uses the DAG file's own code, SQL of a file, SQL that a function returns."""
    monkeypatch.setenv("MODES_DAG_ID", f"modes_{mode}")
    monkeypatch.setenv("MODES_SPARK", json.dumps(options_for(request, mode)))
    monkeypatch.setenv("MODES_LAKE", str(tmp_path / "lake"))
    parsed = parse_dag_file(DAG_FILE)
    assert parsed.error is None
    async with stack(server, spark_home) as spark:  # its processes have the environment that is set by now
        details = await spark.run_once(parsed.dags[0], **ON_DAY)
    assert details.state is RunState.SUCCESS, told(details)
    results = json.loads((tmp_path / "lake" / "results.json").read_text())
    rows_of_file = [{"n": 3, "day": "2024-03-04"}] if mode == "connect" else None
    assert results == {"doubled": 90, "day": "2024-03-04", "rows": rows_of_file, "named": "numbers"}
    if mode == "connect":
        assert pyarrow.parquet.read_table(tmp_path / "lake" / "of_sql").num_rows == 7


@pytest.mark.thorough
@pytest.mark.parametrize("where", [*IN_CLIENT_MODE, *ELSEWHERE], indirect=True)
async def test_a_failure_is_told_in_the_users_terms_and_leaves_no_output(
    spark: Stack, where: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    dag_id = f"failing_{request.node.callspec.id}"
    fields = {"application": str(APPS / "fail.py"), "application_args": []}
    details = await spark.run_once(writing(dag_id, where, tmp_path, **fields), **ON_DAY)
    assert details.state is RunState.FAILED
    failure = details.tasks[0].attempts[0].failure
    assert failure is not None
    assert "TABLE_OR_VIEW_NOT_FOUND" in failure.error_type + failure.message
    assert any("fail.py" in line for line in failure.traceback)
    assert [*(tmp_path / "lake" / "numbers").iterdir()] == []


@pytest.mark.thorough
@pytest.mark.parametrize("where", ["standalone-client", *ELSEWHERE], indirect=True)
async def test_cancelling_ends_the_application_before_the_run_says_so(
    spark: Stack, where: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    mode = request.node.callspec.id
    dag_id = f"cancelled_{mode}"
    await spark.tidemill.dags.register(writing(dag_id, where, tmp_path, seconds=600))
    run = await spark.tidemill.runs.trigger(dag_id, TriggerRequest.model_validate(ON_DAY))
    seen = await eventually(
        lambda: spark.tidemill.runs.describe(dag_id, run.run_id),
        lambda found: (tmp_path / "notes").exists() and (found.tasks[0].progress or {}).get("application_id"),
    )
    driver = request.getfixturevalue("kubernetes").running(dag_id) if mode in ON_KUBERNETES else []
    await spark.tidemill.client.get_workflow_handle(seen.run.workflow_id).cancel()
    await spark.finished(dag_id, run.run_id)
    if mode == "connect":
        ui = request.getfixturevalue("connect")[1]
        assert running_on_connect(ui) == []
        jobs = jobs_of_connect(ui)
        await asyncio.sleep(2)
        assert jobs_of_connect(ui) == jobs, "the client that is gone asks for no more"
    elif mode in ON_KUBERNETES:
        pods: KubernetesCluster = request.getfixturevalue("kubernetes")
        [pod] = driver
        await eventually(lambda: asyncio.to_thread(pods.pods, dag_id), lambda names: not names)
        given_up = pods.kubectl("get", "configmap", "--selector", "tidemill-given-up", "--output", "name")
        assert pod in given_up, "nothing of it can begin any more"
    elif mode == "yarn":
        yarn: YarnCluster = request.getfixturevalue("yarn")
        assert yarn.running(dag_id) == []
    else:
        cluster: Standalone = request.getfixturevalue("standalone")
        assert cluster.drivers(active=True) == []
        await eventually(lambda: listed(cluster, dag_id), lambda apps: all(app["state"] != "RUNNING" for app in apps))
    if mode == "standalone-cluster":  # the driver's process is the cluster's, which ends it in its own time
        await eventually(lambda: left_over(spark), lambda found: not found)
    assert not processes_with(str(spark.home / "attempts"))
    assert not (tmp_path / "lake" / "numbers").exists()


async def left_over(spark: Stack) -> list[str]:
    return [str(found) for found in processes_with(str(spark.home / "attempts"))]


@pytest.mark.thorough
async def test_terminating_a_run_leaves_no_driver_on_the_cluster(
    spark: Stack, standalone: Standalone, tmp_path: Path
) -> None:
    """The run's workflow is gone, and ends nothing any more: whoever follows the application does."""
    options = standalone.options(deploy_mode="cluster")
    await spark.tidemill.dags.register(writing("terminated_on_cluster", options, tmp_path, seconds=600))
    run = await spark.tidemill.runs.trigger("terminated_on_cluster", TriggerRequest.model_validate(ON_DAY))
    await eventually(lambda: asyncio.to_thread((tmp_path / "notes").exists), bool)
    await spark.tidemill.client.get_workflow_handle(run.workflow_id).terminate("by hand")
    await eventually(lambda: asyncio.to_thread(standalone.drivers, active=True), lambda drivers: not drivers)


async def listed(cluster: Standalone, name: str) -> list[dict[str, Any]]:
    return cluster.applications(name)


def running_on_connect(ui: str) -> list[dict[str, Any]]:
    """The jobs that the Connect server is running."""
    return [job for job in jobs_of_connect(ui) if job["status"] == "RUNNING"]


def jobs_of_connect(ui: str) -> list[dict[str, Any]]:
    """The jobs that the Connect server remembers, by Spark's own REST API."""
    [application] = httpx.get(f"{ui}/api/v1/applications", timeout=60).json()
    jobs: list[dict[str, Any]] = httpx.get(f"{ui}/api/v1/applications/{application['id']}/jobs", timeout=60).json()
    return jobs


@pytest.mark.thorough
@pytest.mark.parametrize("seconds", [0, 0.5])
async def test_cancelling_while_it_is_submitted_leaves_no_driver(
    spark: Stack, standalone: Standalone, tmp_path: Path, seconds: float
) -> None:
    """Whether the cluster has heard of the application already or not, none is there in the end."""
    dag_id = f"crossing_{seconds}"
    await spark.tidemill.dags.register(
        writing(dag_id, standalone.options(deploy_mode="cluster"), tmp_path, seconds=600)
    )
    run = await spark.tidemill.runs.trigger(dag_id, TriggerRequest.model_validate(ON_DAY))
    await eventually(lambda: plans(spark.home, dag_id), bool)
    await asyncio.sleep(seconds)
    await spark.tidemill.client.get_workflow_handle(run.workflow_id).cancel()
    details = await spark.finished(dag_id, run.run_id)
    assert details.state is RunState.FAILED
    assert await asyncio.to_thread(standalone.drivers, active=True) == []
    assert not (tmp_path / "lake" / "numbers").exists()


async def plans(home: Path, dag_id: str) -> list[Path]:
    return [path for path in (home / "attempts").rglob("plan.json") if dag_id in str(path)]


@pytest.mark.thorough
async def test_sql_that_a_function_returns_may_be_long_and_may_be_skipped(spark: Stack, tmp_path: Path) -> None:
    values = "', '".join(str(n) * 8 for n in range(6000))
    file = tmp_path / "long.py"
    file.write_text(
        "from tidemill import DAG, task\n"
        "from tidemill import AirflowSkipException\n"
        "with DAG('long_sql') as dag:\n"
        "    @task.spark_sql(master='local[1]', driver_memory='600m')\n"
        "    def long():\n"
        f"        return \"select count(*) n from range(10) where string(id) not in ('{values}')\"\n"
        "    @task.spark_sql(master='local[1]')\n"
        "    def skipped():\n"
        "        raise AirflowSkipException('not today')\n"
        "    long()\n"
        "    skipped()\n"
    )
    parsed = parse_dag_file(file)
    assert parsed.error is None
    details = await spark.run_once(parsed.dags[0], **ON_DAY)
    assert {task.task_id: str(task.state) for task in details.tasks} == {"long": "success", "skipped": "skipped"}


async def test_options_that_cannot_work_are_refused_before_a_jvm_starts(spark: Stack, tmp_path: Path) -> None:
    at_home = {"master": "local[1]", "driver_memory": "900g"}
    unknown = await spark.run_once(writing("no_connection", {"conn_id": "nowhere"}, tmp_path), **ON_DAY)
    assert "no Spark connection 'nowhere'" in (told(unknown)[0] or "")
    log = (spark.home / "logs" / f"{attempt_path('no_connection', unknown.run.run_id, 'write', 1)}.log").read_text()
    assert "SparkSubmitOperator write, try 1" in log, "who looks for the reason looks there"
    assert "the try has failed: InvalidInput: no Spark connection 'nowhere'" in log
    huge = await spark.run_once(writing("huge_driver", at_home, tmp_path), **ON_DAY)
    assert "TIDEMILL_SPARK_MEMORY_MB" in (told(huge)[0] or "")


@pytest.mark.thorough
async def test_who_waits_for_an_executor_is_told_what_the_workers_have(
    spark: Stack, standalone: Standalone, tmp_path: Path
) -> None:
    await spark.tidemill.dags.register(writing("too_large", standalone.options(executor_memory="50g"), tmp_path))
    run = await spark.tidemill.runs.trigger("too_large", TriggerRequest.model_validate(ON_DAY))
    seen = await eventually(
        lambda: spark.tidemill.runs.describe("too_large", run.run_id),
        lambda found: "waits_for" in (found.tasks[0].progress or {}),
    )
    assert seen.tasks[0].progress is not None
    assert seen.tasks[0].progress["waits_for"] == (
        "executors: asks for 51200m and all cores of a worker; the largest of 1 workers has 8,192 MB and 8 cores, "
        "and the freest 8,192 MB and 8 cores"
    )
    await spark.tidemill.runs.cancel("too_large", run.run_id)
    await spark.finished("too_large", run.run_id)
