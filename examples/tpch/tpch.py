"""TPC-H: data is generated, loaded to Parquet, asked six of the benchmark's questions at once, and checked.

At scale factor 1 the answers are compared with those that the benchmark publishes. It runs wherever
the worker's settings send Spark tasks: on this machine, or on the cluster of the connection `default`.
"""

import json
import math
import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

from tidemill import DAG, spark_sql, spark_submit, task

LAKE = os.environ.get("TPCH_LAKE", "tpch")
QUERIES = ("q1", "q3", "q5", "q6", "q12", "q14")
# pip puts the program beside Python itself.
GENERATOR = shutil.which("tpchgen-cli", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
DRIVER = {"driver_memory": "1g", "conf": {"spark.sql.shuffle.partitions": 4}}

with DAG(
    dag_id="tpch",
    description="Six questions of TPC-H, checked",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    params={"lake": LAKE, "scale_factor": 0.01, "generator": GENERATOR or "tpchgen-cli"},
    default_args={"retries": 1, "retry_delay": 5},
    tags=["example", "spark"],
) as dag:

    @task.bash
    def generate(params: dict[str, str] | None = None) -> str:
        """The benchmark's own data, as CSV. Made anew each time, so that nothing is mixed with another scale."""
        values = params or {}
        raw = f"{values['lake']}/raw"
        return (
            f"rm -rf '{raw}' && mkdir -p '{raw}' && "
            f"'{values['generator']}' csv -s {values['scale_factor']} --output-dir '{raw}'"
        )

    load = spark_submit(
        "load",
        "load.py",
        application_args=["{{ params.lake }}/raw"],
        output="{{ params.lake }}/tables",
        **DRIVER,
    )

    @task
    def check(params: dict[str, str] | None = None, **answers: list[dict[str, str]]) -> dict[str, int]:
        """Fails on an answer that is not the published one; at other scales, on one that is empty."""
        given = {name: answers[name] for name in QUERIES}
        if empty := [name for name, rows in given.items() if not rows]:
            raise ValueError(f"no rows from {', '.join(empty)}")
        if float((params or {})["scale_factor"]) == 1:
            published = json.loads(Path(__file__).with_name("answers.json").read_text())
            for name, rows in given.items():
                compare(name, rows, published[name])
        return {name: len(rows) for name, rows in given.items()}

    asked = {name: spark_sql(name, f"queries/{name}.sql", **DRIVER) for name in QUERIES}
    generate() >> load >> [*asked.values()]
    check(**{name: query.output for name, query in asked.items()})


def compare(name: str, rows: list[dict[str, str]], published: list[dict[str, str]]) -> None:
    """Numbers agree to a cent and to a ten-thousandth, whichever is coarser; texts and dates exactly."""
    for number, (row, expected) in enumerate(zip(rows, published, strict=False)):
        for column, value in expected.items():
            if not same(row[column], value):
                raise ValueError(f"{name}, row {number}: {column} is {row[column]!r}, published is {value!r}")
    if len(rows) < len(published):
        raise ValueError(f"{name}: {len(rows)} rows, published are {len(published)}")


def same(found: str, expected: str) -> bool:
    try:
        return math.isclose(float(found), float(expected), rel_tol=1e-4, abs_tol=0.01)
    except ValueError:
        return str(found) == str(expected)
