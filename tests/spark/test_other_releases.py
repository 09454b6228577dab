"""Which Spark runs is for SPARK_HOME to say: releases before and beside the one that is installed with tidemill."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from forked_commands import REAL
from tidemill.activities.spark.command import defaults, loads_defaults, spark_version
from tidemill.model.run.spark_figures import SparkFigures

SPARKS = Path(__file__).parents[2] / "build" / "sparks"
DAG_FILE = """
from tidemill import DAG, spark_sql, spark_submit, task
PLACE = {"master": "local[1]", "driver_memory": "600m"}
with DAG("on_another_release") as dag:
    @task.pyspark(spark=PLACE)
    def function(spark):
        return [spark.version, spark.range(5).count()]
    spark_sql("sql", "SELECT 40 + 2 AS answer", spark=PLACE)
    spark_submit("script", "script.py", spark=PLACE)
    spark_sql("fails", "SELECT * FROM nowhere", spark=PLACE)
    function()
"""
SCRIPT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("by default:", spark.conf.get("spark.of.the.defaults", "nothing"))
"""


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("release", ["3.5.6", "4.1.4"])
def test_sql_scripts_and_functions_run(tmp_path: Path, release: str) -> None:
    home = SPARKS / release / "pyspark"
    if not (SPARKS / ".ready").exists():
        pytest.skip("other releases of Spark are not here: make sparks")
    assert spark_version(home) == tuple(map(int, release.split(".")))
    (tmp_path / "dag.py").write_text(DAG_FILE)
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.of.the.defaults  something\n")
    where = {"SPARK_HOME": str(home), "SPARK_CONF_DIR": str(tmp_path / "conf"), "TIDEMILL_HOME": str(tmp_path / "home")}
    argv = [REAL, "dags", "test", str(tmp_path / "dag.py")]
    done = subprocess.run(argv, env={**os.environ, **where}, capture_output=True, text=True, timeout=500, check=False)
    printed = done.stdout + done.stderr
    for line in ("sql: success", "script: success", "function: success", "fails: failed", "by default: something"):
        assert line in printed, printed[-3000:]
    assert "TABLE_OR_VIEW_NOT_FOUND" in printed
    figures = SparkFigures.model_validate_json(figures_on(home, tmp_path))
    assert (figures.tasks, figures.output_rows, figures.executors_lost) == (4, 40, 0)
    assert figures.skew is not None


ASKS = """
import json, sys
from pyspark.sql import SparkSession
from tidemill.activities.spark.driver_figures import before_each_stop, figures_of
before_each_stop(lambda sc: print("figures", json.dumps(figures_of(sc))))
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.range(0, 40, 1, 4).write.mode("overwrite").parquet(sys.argv[1])
spark.stop()
"""


def figures_on(home: Path, folder: Path) -> str:
    """What an application on the Spark at *home* came to, as JSON."""
    env = {**os.environ, "SPARK_HOME": str(home), "PYTHONPATH": str(home.parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    argv = [sys.executable, "-c", ASKS, str(folder / "out")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=500, check=True)
    [told] = [line for line in done.stdout.splitlines() if line.startswith("figures ")]
    return told.removeprefix("figures ")


@pytest.mark.parametrize(
    ("jar", "version", "can_be_told"),
    [
        ("spark-core_2.12-3.5.6.jar", (3, 5, 6), False),
        ("spark-core_2.13-4.3.0.jar", (4, 3, 0), True),
        ("spark-core_2.12-3.5.1-amzn-1.jar", (3, 5, 1), False),
        ("other.jar", None, True),
    ],
)
def test_what_the_jars_say(tmp_path: Path, jar: str, version: tuple[int, ...] | None, can_be_told: bool) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / jar).touch()
    assert spark_version(tmp_path) == version
    assert loads_defaults(tmp_path) is can_be_told


def test_defaults_are_those_of_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert defaults(tmp_path) == ""
    for place in (tmp_path / "conf", tmp_path / "elsewhere"):
        place.mkdir()
        (place / "spark-defaults.conf").write_text(f"spark.from {place.name}")
    assert defaults(tmp_path) == "spark.from conf"
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "elsewhere"))
    assert defaults(tmp_path) == "spark.from elsewhere"
