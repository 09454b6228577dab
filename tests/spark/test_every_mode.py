"""A script, SQL and a function are given the same, and give the same, in every mode."""

import shutil
from pathlib import Path
from typing import Any

import pyspark
import pytest
from spark_capabilities import MODES
from spark_clusters import ON_DAY, options_for, told
from support import Stack, dag, stack
from tidemill.activities.dag_files import parse_dag_file
from tidemill.model.states import RunState

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.spark, pytest.mark.thorough]
SCRIPT = """
import json, os, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
got = {
    "arguments": sys.argv[1:],
    "region": os.environ.get("REGION"),
    "conf": spark.conf.get("spark.sql.session.timeZone"),
    "task_id": spark.conf.get("spark.tidemill.task_id"),
    "interval": spark.conf.get("spark.tidemill.data_interval_start"),
}
with open(spark.conf.get("spark.tidemill.result"), "w") as file:
    json.dump(got, file)
print("says", got["region"])
spark.stop()
"""
FILE = """
from tidemill import DAG, spark_sql, spark_submit, task
import beside

OPTIONS = {options!r}
OWN = {{**OPTIONS, "conf": {{**OPTIONS.get("conf", {{}}), "spark.sql.session.timeZone": "{{{{ params.zone }}}}"}}}}

with DAG({dag_id!r}, default_args={{"retries": 0}}, params={{"zone": "Asia/Tokyo"}}):
    script = spark_submit(
        "script", "apps/script.py", application_args=["{{{{ ds }}}}", "two words"],
        env_vars={{"REGION": "r{{{{ ds_nodash }}}}"}}, **OWN,
    )
    rows = spark_sql("rows", "SELECT id, '{{{{ ds }}}}' AS day FROM range(3)", **OPTIONS)

    @task.pyspark(**OPTIONS)
    def count(spark, rows):
        return [spark.range(len(rows) * beside.TIMES).count(), rows[-1]]

    script >> rows
    count(rows.output)
"""


@pytest.fixture
async def spark(server: str, spark_home: Path) -> Any:
    async with stack(server, spark_home) as made:
        yield made


@pytest.mark.parametrize("mode", MODES)
async def test_a_script_sql_and_a_function_are_given_the_same(
    spark: Stack, mode: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Arguments, environment, conf with templates, the contract; results, rows, code beside the DAG file, the log."""
    options = options_for(request, mode)
    if mode in ("kubernetes", "operator"):
        cluster = request.getfixturevalue(mode)
        options = cluster.options(spark.home.resolve(), image_has_tidemill=True)
    if mode == "yarn":  # Python of the hosts has it, and the checkout is hidden from containers
        shutil.copytree(ROOT / "build" / "types" / "tidemill", tmp_path / "site" / "tidemill")
        options["conf"]["spark.yarn.appMasterEnv.PYTHONPATH"] = str(tmp_path / "site")
    dag_id = f"everything_{mode}"
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "script.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("TIMES = 7\n")
    (tmp_path / "everything.py").write_text(FILE.format(options=options, dag_id=dag_id))
    parsed = parse_dag_file(tmp_path / "everything.py")
    assert parsed.error is None, parsed.error
    details = await spark.run_once(parsed.dags[0], **ON_DAY)
    assert details.state is RunState.SUCCESS, told(details)
    assert await spark.result_of(details, "script") == {
        "arguments": ["2024-03-04", "two words"],
        "region": "r20240304",
        "conf": "Asia/Tokyo",
        "task_id": "script",
        "interval": "2024-03-04T00:00:00+00:00",
    }
    rows = [{"id": number, "day": "2024-03-04"} for number in range(3)]
    assert await spark.result_of(details, "rows") == rows
    assert await spark.result_of(details, "count") == [21, rows[-1]]
    assert "says r20240304" in spark.log_of(dag_id, details.run.run_id, "script")


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in ("standalone-cluster", "connect")])
async def test_a_java_application_runs(spark: Stack, mode: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """One of Spark's own, which opens its context on the master that it is told."""
    options = options_for(request, mode)
    jar = next((Path(pyspark.__file__).parent / "jars").glob("spark-mllib_*.jar"))
    in_container = mode in ("yarn", "kubernetes", "operator")
    master = options["master"] if mode in ("yarn", "standalone-client") else "local[1]"
    task = {
        "kind": "spark_submit",
        "task_id": "generate",
        "application": f"local://{jar}" if in_container else str(jar),
        "java_class": "org.apache.spark.mllib.util.LinearDataGenerator",
        "application_args": [master, str(tmp_path / "made"), "20", "2"],
        "spark": options,
        "retries": 0,
    }
    details = await spark.run_once(dag(f"java_{mode}", [task]), **ON_DAY)
    assert details.state is RunState.SUCCESS, told(details)
    assert (tmp_path / "made" / "_SUCCESS").exists()
