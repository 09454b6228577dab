"""The TPC-H example: generated, loaded, asked in parallel on a warm Connect server, and checked."""

import os
from pathlib import Path

import pytest
from spark_clusters import told
from support import stack
from tidemill.activities.dag_files import parse_dag_file
from tidemill.activities.worker_context import WorkerContext
from tidemill.examples import tpch
from tidemill.model.spec.tasks import SparkOptions
from tidemill.model.states import RunState

pytestmark = [pytest.mark.spark, pytest.mark.long]
DAG_FILE = Path(os.path.realpath(Path(next(iter(tpch.__path__))) / "tpch.py"))


async def test_a_small_tpch(server: str, spark_home: Path, connect: tuple[str, str], tmp_path: Path) -> None:
    parsed = parse_dag_file(DAG_FILE)
    assert parsed.error is None
    place = WorkerContext(home=spark_home, spark_connections={"default": SparkOptions(master=connect[0])})
    async with stack(server, spark_home, place=place) as here:
        details = await here.run_once(parsed.dags[0], conf={"lake": str(tmp_path / "lake")})
        assert details.state is RunState.SUCCESS, told(details)
    assert {path.name for path in (tmp_path / "lake" / "tables").iterdir()} >= {"lineitem", "orders", "customer"}
