"""Spark applications as tasks, on a real Spark: found, followed, ended, and told of in the user's terms."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from support import Stack, dag, eventually, processes_with, stack, worker_environment, worker_process
from tidemill.activities.dag_files import parse_dag_file
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import DagSpec
from tidemill.model.states import RunState

APPS = Path(__file__).parents[1] / "dags" / "spark_apps"
pytestmark = pytest.mark.spark


def counting(dag_id: str, how: str, n: int, **fields: Any) -> DagSpec:
    application = {
        "kind": "spark_submit",
        "task_id": "count",
        "application": str(APPS / "count.py"),
        "application_args": [how, str(n), "{{ ds | default('none') }}"],
        "spark": {"master": "local[2]", "driver_memory": "1g", "conf": {"spark.sql.shuffle.partitions": 2}},
        **fields,
    }
    return dag(dag_id, [application])


ENVIRONMENT = """
import json, os
from pathlib import Path
import more_2024
from pyspark.sql import SparkSession
session = SparkSession.builder.getOrCreate()
told = [session.sparkContext.appName, os.environ["ONE"], os.environ["TWO"], more_2024.VALUE]
Path(session.conf.get("spark.tidemill.result")).write_text(json.dumps(told))
"""
TEMPLATED = """
from tidemill import DAG, SparkSubmitOperator
with DAG("templated"):
    SparkSubmitOperator(
        task_id="told", application="app.py", master="local[1]", name="arrow-{{ ds }}", env={"ONE": "1"},
        env_vars={"TWO": "2"}, py_files="more_{{ logical_date.year }}.py",
    )
"""


@pytest.fixture
async def spark(server: str, spark_home: Path) -> Any:
    async with stack(server, spark_home) as made:
        yield made


async def test_an_application_gets_its_contract_and_gives_its_result(spark: Stack) -> None:
    details = await spark.run_once(counting("counted", "plain", 10), logical_date="2024-03-04T00:00:00Z")
    assert details.state is RunState.SUCCESS, details.tasks[0].error
    handle = spark.tidemill.client.get_workflow_handle(details.run.workflow_id)
    outcome = await outcome_of(handle)
    answer = outcome["xcom"]["return_value"]
    assert (answer["sum"], answer["args"]) == (45, ["plain", "10", "2024-03-04"])
    assert answer["told"]["spark.tidemill.logical_date"] == "2024-03-04T00:00:00+00:00"
    assert answer["told"]["spark.tidemill.try_number"] == "1"
    assert answer["told"]["spark.tidemill.run_id"] == details.run.run_id


async def outcome_of(handle: Any) -> dict[str, Any]:
    """The outcome of the driver, from the run's history: who took it first has left it to a worker with room."""
    history = await handle.fetch_history()
    [given_back, done] = [e for e in history.events if e.HasField("activity_task_completed_event_attributes")]
    of = given_back.activity_task_completed_event_attributes
    assert json.loads(of.result.payloads[0].data) == {"needs_driver": True}
    return dict(json.loads(done.activity_task_completed_event_attributes.result.payloads[0].data))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("how", "told"),
    [
        pytest.param("python_error", "IndexError: list index out of range", marks=pytest.mark.long),
        pytest.param(
            "sql_error",
            "AnalysisException [TABLE_OR_VIEW_NOT_FOUND, SQLSTATE 42P01]: [TABLE_OR_VIEW_NOT_FOUND]",
            marks=pytest.mark.long,
        ),
        ("udf_error", "ZeroDivisionError"),
    ],
)
async def test_a_failure_shows_its_innermost_cause(spark: Stack, how: str, told: str) -> None:
    details = await spark.run_once(counting("failing", how, 3))
    assert details.state is RunState.FAILED
    assert told in (details.tasks[0].error or "")
    failure = details.tasks[0].attempts[0].failure
    assert failure is not None
    assert any("count.py" in line for line in failure.traceback)


@pytest.mark.thorough
async def test_options_are_templates_and_the_environment_arrives_by_both_names(spark: Stack, tmp_path: Path) -> None:
    (tmp_path / "more_2024.py").write_text("VALUE = 41")
    (tmp_path / "app.py").write_text(ENVIRONMENT)
    dags = tmp_path / "dags.py"
    dags.write_text(TEMPLATED)
    [spec] = parse_dag_file(dags).dags
    details = await spark.run_once(spec, logical_date="2024-03-04T00:00:00Z")
    assert details.state is RunState.SUCCESS, details.tasks[0].error
    outcome = await outcome_of_task(spark, details.run.workflow_id, "told")
    assert outcome["xcom"]["return_value"] == ["arrow-2024-03-04", "1", "2", 41]


async def test_a_file_that_is_not_there_fails_before_spark_begins(spark: Stack) -> None:
    """Spark itself would only warn."""
    details = await spark.run_once(counting("lacks", "plain", 1, spark={"master": "local[1]", "jars": ["apps/no.jar"]}))
    assert "jars: 'apps/no.jar' is not at" in (details.tasks[0].error or "")


@pytest.mark.thorough
async def test_an_application_that_is_not_there_fails_with_sparks_own_words(spark: Stack) -> None:
    details = await spark.run_once(counting("absent", "plain", 1, application="no/such/thing.py"))
    assert "thing.py" in (details.tasks[0].error or "")


async def test_a_function_is_given_a_session(spark: Stack) -> None:
    [spec] = parse_dag_file(Path(__file__).parents[1] / "dags" / "spark_dag.py").dags
    details = await spark.run_once(spec)
    assert details.state is RunState.SUCCESS, [task.error for task in details.tasks]
    double = await outcome_of_task(spark, details.run.workflow_id, "double")
    assert double["xcom"]["return_value"] == 42


async def outcome_of_task(here: Stack, workflow_id: str, task_id: str) -> dict[str, Any]:
    history = await here.tidemill.client.get_workflow_handle(workflow_id).fetch_history()
    scheduled = {
        e.event_id: e.activity_task_scheduled_event_attributes.activity_id
        for e in history.events
        if e.HasField("activity_task_scheduled_event_attributes")
    }
    for event in history.events:
        done = event.activity_task_completed_event_attributes
        completed = event.HasField("activity_task_completed_event_attributes")
        if completed and scheduled[done.scheduled_event_id].startswith(f"{task_id}/"):
            outcome = dict(json.loads(done.result.payloads[0].data))
            if "needs_driver" not in outcome:
                return outcome
    raise AssertionError(f"{task_id} has not completed")


@pytest.mark.thorough
async def test_progress_is_seen_while_it_runs_and_cancelling_ends_the_driver(spark: Stack) -> None:
    await spark.tidemill.dags.register(counting("watched", "slow", 60))
    run = await spark.tidemill.runs.trigger("watched")
    details = await eventually(
        lambda: spark.tidemill.runs.describe("watched", run.run_id),
        lambda found: (found.tasks[0].progress or {}).get("tasks_done", 0) >= 2,
    )
    progress = details.tasks[0].progress
    assert progress is not None
    assert progress["tasks"] == 60
    assert progress["application_id"].startswith("local-")
    assert progress["ui"].startswith("http://")
    await spark.tidemill.client.get_workflow_handle(run.workflow_id).cancel()
    await spark.finished("watched", run.run_id)
    assert not processes_with(str(spark.home / "attempts"))


@pytest.mark.parametrize("how", [pytest.param("slow", marks=pytest.mark.thorough), "stubborn"])
async def test_no_driver_outlives_its_worker(server: str, spark_home: Path, how: str) -> None:
    """SIGKILL of the worker: driver, JVM and Python workers are gone; a new worker runs the same try again."""
    async with stack(server, spark_home, no_remote_activities=True) as made:
        env = worker_environment(server, spark_home, made.task_queue)
        mark = str(spark_home / "attempts")
        with worker_process(env) as first:
            await made.tidemill.dags.register(counting("orphaned", how, 8))
            run = await made.tidemill.runs.trigger("orphaned", TriggerRequest(run_id=how))
            told = "attempts/dag_id=orphaned/*/task_id=count/attempt=1/*/progress.json"
            await eventually(lambda: asyncio.to_thread(lambda: [*spark_home.glob(told)]), bool)
            # What stands over them is a fork of the fork server, which no command line tells.
            names = [process.name() for process in processes_with(mark)]
            assert "java" in names
            assert any(name.startswith("python") for name in names)
            first.send_signal(signal.SIGKILL)
            first.wait()
            await eventually(lambda: asyncio.to_thread(processes_with, mark), lambda found: not found)
        if how == "stubborn":
            return
        with worker_process(env):
            details = await made.finished("orphaned", run.run_id)
    assert details.state is RunState.SUCCESS
    assert details.tasks[0].try_number == 1
