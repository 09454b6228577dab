"""Sessions on a Connect server that a run's tasks share: a task begins with a copy of what another has left."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.connect.client import SparkConnectClient
from spark_clusters import told
from spark_starts import start
from support import Stack, stack
from temporalio.exceptions import ApplicationError
from tidemill.activities.dag_files import parse_dag_file
from tidemill.activities.spark.connect import run_connect
from tidemill.activities.work.connect import end_session, session_url
from tidemill.model.run.revisions import ClearRequest
from tidemill.model.spec.tasks import SparkPipelinesTask, SparkSqlTask
from tidemill.model.states import RunState

SHARED = """
from tidemill import DAG, spark_sql, task

with DAG("shared_session", default_args={{"master": {master!r}, "retries": 0}}):
    prepare = spark_sql(
        "prepare",
        "SET spark.sql.shuffle.partitions=3; CREATE TEMP VIEW numbers AS SELECT id FROM range(5)",
        keep_session=True,
    )
    @task.pyspark(session=prepare.output["spark_session"])
    def use(spark):
        spark.sql("CREATE OR REPLACE TEMP VIEW numbers AS SELECT id FROM range(2)")
        own = spark.conf.get("spark.tidemill.task_id")
        return [spark.table("numbers").count(), spark.conf.get("spark.sql.shuffle.partitions"), own]

    after = spark_sql("after", "SELECT count(*) AS n FROM numbers", session=prepare.output["spark_session"])
    use() >> after
"""


@pytest.mark.parametrize("field", [{"keep_session": True}, {"session": "id"}])
@pytest.mark.parametrize("options", [{"master": "local[2]"}, {"master": "spark://h:7077", "deploy_mode": "cluster"}])
def test_only_a_connect_server_has_sessions(field: dict[str, Any], options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="only a Spark Connect server has sessions"):
        SparkSqlTask(task_id="a", sql="SELECT 1", spark=options, **field)
    SparkSqlTask(task_id="a", sql="SELECT 1", spark={"conn_id": "connect"}, **field)


def test_a_connection_that_is_no_connect_server_fails_the_task(tmp_path: Path) -> None:
    with pytest.raises(ApplicationError, match=r"keep_session: only a Spark Connect server .* 'local\[\*\]'"):
        start(tmp_path, {}, keep_session=True)


@pytest.mark.parametrize("session", ["None", "", "['a', 'b']", "null"])
def test_what_is_no_session_is_refused(tmp_path: Path, session: str) -> None:
    """As the results of a mapped task are, or of one that keeps none."""
    work = start(tmp_path, {"master": "sc://h:15002"}, session=session)
    if session == "null":
        work.filled["session"] = None
    with pytest.raises(ApplicationError, match=r"is not the id of one session\. Name the result of one task"):
        run_connect(work)


def test_a_pipeline_keeps_no_session() -> None:
    with pytest.raises(ValueError, match="keep_session: Spark closes a pipeline's session itself"):
        SparkPipelinesTask(task_id="a", keep_session=True)
    with pytest.raises(ValueError, match="only a Spark Connect server has sessions"):
        SparkPipelinesTask(task_id="a", session="x", spark={"master": "local[2]"})


@pytest.fixture
async def spark(server: str, spark_home: Path) -> Any:
    async with stack(server, spark_home) as made:
        yield made


@pytest.mark.spark
async def test_a_task_begins_with_what_another_has_left_and_changes_nothing_of_it(
    spark: Stack, connect: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "shared.py"
    path.write_text(SHARED.format(master=connect[0]))
    parsed = parse_dag_file(path)
    assert parsed.error is None, parsed.error
    [spec] = parsed.dags
    details = await spark.run_once(spec)
    assert details.state is RunState.SUCCESS, told(details)
    assert await spark.result_of(details, "use") == [2, "3", "use"]
    assert await spark.result_of(details, "after") == [{"n": 5}]

    kept = await spark.result_of(details, "prepare", "spark_session")
    end_session(connect[0], kept)
    await spark.tidemill.runs.clear("shared_session", details.run.run_id, ClearRequest(tasks=("after",)))
    again = await spark.finished("shared_session", details.run.run_id)
    [error] = [task.error for task in again.tasks if task.task_id == "after"]
    assert error is not None
    assert "SessionGone" in error
    assert "Clear the task that has left it" in error


ENDS = """
from pathlib import Path
from pyspark.sql import SparkSession
from tidemill import DAG, spark_sql, spark_submit, task

CONNECT = {{"master": {master!r}, "retries": 0, "keep_session": True}}

with DAG("sessions_end", default_args=CONNECT):
    script = spark_submit("script", "apps/stops.py")
    spark_sql("after", "SELECT n FROM left_by_script", session=script.output["spark_session"])

    @task.pyspark
    def fails(spark):
        Path({seen!r}).write_text(spark.session_id)
        raise ValueError("after all")

    fails()
"""
STOPS = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.sql("SELECT 42 AS n").createOrReplaceTempView("left_by_script")
spark.stop()
"""


@pytest.mark.spark
async def test_a_session_stays_open_after_success_alone(spark: Stack, connect: tuple[str, str], tmp_path: Path) -> None:
    """Also where a script stops it, as scripts do; that of a task which fails is closed."""
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "stops.py").write_text(STOPS)
    (tmp_path / "ends.py").write_text(ENDS.format(master=connect[0], seen=str(tmp_path / "seen")))
    parsed = parse_dag_file(tmp_path / "ends.py")
    assert parsed.error is None, parsed.error
    details = await spark.run_once(parsed.dags[0])
    assert [(task.task_id, task.state.value) for task in details.tasks] == [
        ("script", "success"), ("after", "success"), ("fails", "failed"),
    ], told(details)  # fmt: skip
    assert await spark.result_of(details, "after") == [{"n": 42}]
    client = SparkConnectClient(session_url(connect[0], (tmp_path / "seen").read_text()))
    with pytest.raises(Exception, match="SESSION_CLOSED"):
        client._analyze(method="spark_version")
    client.close()
