"""SQL and settings arrive whole: every statement is executed, every value kept, or its loss is an error."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import dag, stack
from tidemill.activities.attempts.supervision import TASK_FAILED
from tidemill.activities.spark.command import blank_edged, escaped
from tidemill.model.states import RunState

pytestmark = pytest.mark.spark
ASKS = """
import json, sys
from pyspark.sql import SparkSession
from tidemill.activities.spark.driver import run_statements

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
for statements in json.loads(sys.argv[1]):
    try:
        plan = {"statements": statements, "staged": None, "max_rows": 10}
        print("told", json.dumps(run_statements(session, plan)["outcome"].get("xcom")))
    except Exception as error:
        print("told", json.dumps(str(error)))
session.stop()
"""
ROWS = {
    "select map(date'2026-01-01', 1) as m": [{"m": {"2026-01-01": 1}}],
    "select unhex('00ff') as b": [{"b": "AP8="}],
    "select double('nan') as a, double('infinity') as b, float('-infinity') as c": [
        {"a": "NaN", "b": "Infinity", "c": "-Infinity"}
    ],
    "select 1.50bd as d, bigint(9007199254740993) as n, null as x, true as t": [
        {"d": "1.50", "n": 9007199254740993, "x": None, "t": True}
    ],
    "select array(named_struct('a', date'2026-01-01')) as s": [{"s": [{"a": "2026-01-01"}]}],
}
FAILS = {
    ("select raise_error('the check has failed')", "select 1 as ok"): "the check has failed",
    ("select assert_true(false, 'no rows')", "select 1 as ok"): "no rows",
    ("select 1 as a, 2 as a",): "several columns named a",
}


def test_every_statement_is_executed_and_every_value_of_a_row_kept() -> None:
    statements = [[statement] for statement in ROWS] + [[*many] for many in FAILS]
    done = subprocess.run([sys.executable, "-c", ASKS, json.dumps(statements)], capture_output=True, text=True)
    told = [json.loads(line.removeprefix("told ")) for line in done.stdout.splitlines() if line.startswith("told ")]
    assert len(told) == len(statements), done.stderr
    assert dict(zip(ROWS, told, strict=False)) == {key: {"return_value": rows} for key, rows in ROWS.items()}
    for (_, wanted), found in zip(FAILS.items(), told[len(ROWS) :], strict=True):
        assert wanted in found


CONF = {
    "spark.my.tab": "\t",
    "spark.my.edges": " a ",
    "spark.my.feed": "\fa",
    "spark.my.key with blanks": "b",
    "spark.my.lines": "\r\na\\=:#!\n",
    "spark.my.unicode": "ü€🙂",
}


async def test_conf_arrives_byte_for_byte(server: str, spark_home: Path) -> None:
    task = {
        "kind": "spark_sql",
        "task_id": "asks",
        "sql": "set",
        "spark": {"master": "local[1]", "driver_memory": "600m", "conf": CONF},
    }
    async with stack(server, spark_home) as here:
        details = await here.run_once(dag("conf_of_spark", [task]))
        assert details.state is RunState.SUCCESS, details.tasks[0].error
        rows = await here.result_of(details, "asks")
    found = {row["key"]: row["value"] for row in rows}
    assert {key: found.get(key) for key in CONF} == CONF


def test_a_secret_with_blanks_at_its_edges_is_refused_and_not_shown() -> None:
    assert blank_edged({"spark.a": " b", "spark.c": "d"}) == ["--conf", "spark.a= b"]
    with pytest.raises(Exception, match=r"spark\.my\.password") as refused:
        blank_edged({"spark.my.password": " open sesame"})
    assert getattr(refused.value, "type", None) == TASK_FAILED
    assert "sesame" not in str(refused.value)


def test_a_key_keeps_its_blanks() -> None:
    assert escaped("a b") == "a\\ b"
