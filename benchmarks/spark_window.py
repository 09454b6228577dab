"""What is left where a worker is killed while its Spark application runs: here, and by Airflow's own operator.

Both run the same script in local mode, which appends its rows after a while. The one that is killed is the process that
follows the application, as when memory is short; then the try is begun again, as Airflow's scheduler and Temporal do.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet
from figures import Figure
from spark import LOCAL, registered, until
from temporalio.client import Client
from tidemill.activities.spark.command import environment, spark_home
from tidemill.activities.worker_context import find_java
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import read_dag
from tidemill.worker.client import Tidemill

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support import processes_with, worker_environment, worker_process

PYTHON = Path(__file__).parents[1] / ".venv-airflow" / "bin" / "python"
ROWS, SECONDS = 100, 20
JOB = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession
target, notes, seconds, rows = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
target = spark.conf.get("spark.tidemill.output", target)
with Path(notes).open("a") as file:
    file.write("begun\\n")
time.sleep(float(seconds))
spark.range(int(rows)).write.mode("append").parquet(target)
with Path(notes).open("a") as file:
    file.write("written\\n")
spark.stop()
"""
OPERATOR = """
import json, sys
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
job, *arguments = sys.argv[1:]
SparkSubmitOperator(
    task_id="job", application=job, application_args=arguments, conn_id="bench", driver_memory="1g",
    conf={"spark.driver.host": "127.0.0.1", "spark.ui.port": "0"},
).execute({})
"""


def arguments(folder: Path) -> list[str]:
    return [str(folder / "rows"), str(folder / "notes"), str(SECONDS), str(ROWS)]


def has_begun(folder: Path) -> bool:
    return (folder / "notes").exists()


def found(folder: Path) -> tuple[int, int]:
    """How many rows there are, and how many applications have written."""
    rows = pyarrow.parquet.read_table(folder / "rows").num_rows
    return rows, (folder / "notes").read_text().count("written")


async def by_tidemill(client: Client, address: str, job: Path, folder: Path) -> tuple[int, int]:
    queue = f"bench-{uuid.uuid4().hex[:8]}"
    tidemill = Tidemill(client, queue)
    environment_ = worker_environment(address, folder / "home", queue)
    task = {
        "kind": "spark_submit", "task_id": "job", "application": str(job), "application_args": arguments(folder),
        "output": str(folder / "rows"), "spark": LOCAL,
    }  # fmt: skip
    spec = read_dag({"dag_id": "bench_window", "tasks": [task], "heartbeat_timeout": 5})
    with ExitStack() as workers:
        first = workers.enter_context(worker_process(environment_))
        await registered(tidemill, spec)
        run = await tidemill.runs.trigger("bench_window", TriggerRequest(run_id=uuid.uuid4().hex))
        await until(lambda: has_begun(folder))
        first.kill()
        workers.enter_context(worker_process(environment_))
        await tidemill.runs.wait(run)
    return found(folder)


async def by_airflows_operator(job: Path, folder: Path) -> tuple[int, int]:
    connection = {"conn_type": "spark", "host": LOCAL["master"]}
    own = {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW_CONN_BENCH": json.dumps(connection),
        "PATH": f"{spark_home() / 'bin'}:{os.environ['PATH']}",
    }
    argv = [str(PYTHON), "-c", OPERATOR, str(job), *arguments(folder)]

    def start() -> subprocess.Popen[bytes]:
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(argv, env=environment(own, find_java()), stdout=log, stderr=log)

    first = start()
    await until(lambda: has_begun(folder) or first.poll() is not None)
    assert first.poll() is None, (folder / "log").read_text()[-3000:]
    os.kill(first.pid, signal.SIGKILL)
    await asyncio.to_thread(first.wait)
    code = await asyncio.to_thread(start().wait)
    assert code == 0, (folder / "log").read_text()[-3000:]
    await until(lambda: not processes_with(str(job)))
    return found(folder)


async def window(client: Client, address: str) -> list[Figure]:
    """A killed worker, on both."""
    with tempfile.TemporaryDirectory() as name:
        ours, theirs = Path(name, "tidemill"), Path(name, "airflow")
        for folder in (ours, theirs):
            folder.mkdir()
            (folder / "job.py").write_text(JOB)
        mine = await by_tidemill(client, address, ours / "job.py", ours)
        other = await by_airflows_operator(theirs / "job.py", theirs)
    return [
        Figure(f"rows after a killed worker, {ROWS} are right (floor: Airflow's operator)", "rows", mine[0], other[0]),
        Figure("applications that have written them", "", mine[1], other[1]),
    ]
