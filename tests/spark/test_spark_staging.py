"""What a try has written that is never published is removed with its end, unless it is to be kept."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from spark_clusters import APPS, ON_DAY
from support import dag, eventually, stack
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import DagSpec
from tidemill.model.states import RunState

SLOW = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession
session = SparkSession.builder.getOrCreate()
session.range(3).write.parquet(session.conf.get("spark.tidemill.output"))
Path(sys.argv[1]).touch()
time.sleep(600)
"""
pytestmark = pytest.mark.spark


def writing(dag_id: str, application: Path, lake: Path, *arguments: str) -> DagSpec:
    task = {
        "kind": "spark_submit",
        "task_id": "write",
        "application": str(application),
        "application_args": list(arguments),
        "output": f"{lake}/day={{{{ ds }}}}",
        "retries": 1,
        "retry_delay": 0,
        "spark": {"master": "local[1]", "driver_memory": "600m", "conf": {"spark.sql.shuffle.partitions": 1}},
    }
    return dag(dag_id, [task])


@pytest.mark.parametrize("keeps", [False, True], ids=["removed", "kept"])
async def test_what_failed_tries_have_written_goes_unless_it_is_to_be_kept(
    server: str, spark_home: Path, tmp_path: Path, keeps: bool
) -> None:
    place = WorkerContext(home=spark_home, keeps_failed_output=keeps)
    async with stack(server, spark_home, place=place) as spark:
        details = await spark.run_once(writing(f"staged_{keeps}", APPS / "fail.py", tmp_path), **ON_DAY)
    assert details.state is RunState.FAILED
    assert details.tasks[0].try_number == 2
    left = sorted(path.name.rpartition(".")[0] for path in tmp_path.glob("_tidemill/*"))
    assert left == (["day=2024-03-04"] * 2 if keeps else [])
    assert keeps or not [*tmp_path.iterdir()]


async def test_what_a_cancelled_try_has_written_goes(server: str, spark_home: Path, tmp_path: Path) -> None:
    application, written, lake = tmp_path / "slow.py", tmp_path / "written", tmp_path / "lake"
    application.write_text(SLOW)
    async with stack(server, spark_home) as spark:
        await spark.tidemill.dags.register(writing("staged_cancelled", application, lake, str(written)))
        request: dict[str, Any] = {"run_id": "cancelled", **ON_DAY}
        run = await spark.tidemill.runs.trigger("staged_cancelled", TriggerRequest.model_validate(request))
        await eventually(lambda: asyncio.to_thread(written.exists), bool)
        assert [*lake.glob("_tidemill/*")]
        await spark.tidemill.runs.cancel("staged_cancelled", run.run_id)
        await spark.finished("staged_cancelled", run.run_id)
    assert not [*lake.iterdir()]
