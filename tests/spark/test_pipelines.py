"""Declarative pipelines as tasks: brought up to date by Spark's own command, below the worker or on Connect."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from spark_clusters import options_for
from support import Stack, dag, stack
from tidemill.model.errors import InvalidInputError
from tidemill.model.spec.tasks import SparkPipelinesTask
from tidemill.model.states import RunState

from tidemill import DAG, SparkPipelinesOperator


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"pipeline_command": "init"}, "pipeline_command"),
        ({"output": "lake/day=1"}, "published by Spark. Leave them out"),
        ({"full_refresh_all": True, "refresh": ["orders"]}, "refresh and full_refresh_all are both given"),
        ({"pipeline_command": "dry-run", "full_refresh_all": True}, "a dry-run brings nothing up to date"),
        ({"spark": {"master": "yarn", "deploy_mode": "cluster"}}, "Use client mode, or a Connect server"),
    ],
)
def test_what_cannot_be_run_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        dag("pipelines", [{"kind": "spark_pipelines", "task_id": "sales", **fields}])


def test_datasets_are_chosen_by_names_lists_and_templates() -> None:
    with DAG("pipelines") as made:
        SparkPipelinesOperator("a", refresh="orders, totals", full_refresh=["{{ params.anew }}"], num_executors=2)
    [task] = made.spec().tasks
    assert isinstance(task, SparkPipelinesTask)
    assert (task.refresh, task.full_refresh) == (("orders, totals",), ("{{ params.anew }}",))
    assert task.written() | {"env": {}} == {
        **dict.fromkeys(("output", "table", "replace_where")),
        "env": {},
        "pipeline_spec": "spark-pipeline.yml",
        "refresh": ("orders, totals",),
        "full_refresh": ("{{ params.anew }}",),
    }


PIPELINE = """
name: sales
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""
ORDERS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

@dp.materialized_view
def orders_{mark}():
    return SparkSession.active().range(10)
"""
TOTALS = "CREATE MATERIALIZED VIEW totals_{mark} AS SELECT count(*) AS n FROM orders_{mark}"
FAILS = "CREATE MATERIALIZED VIEW fails_{mark} AS SELECT raise_error('no such order') AS n FROM orders_{mark}"


def written(folder: Path, mark: str, **files: str) -> Path:
    """The specification of a pipeline of *files* in *folder*."""
    (folder / "transformations").mkdir()
    for name, text in files.items():
        place = folder / "transformations" / f"{name}.{'py' if text.startswith(ORDERS[:6]) else 'sql'}"
        place.write_text(text.format(mark=mark))
    spec = folder / "spark-pipeline.yml"
    spec.write_text(PIPELINE.format(storage=(folder / "storage").as_uri()))
    return spec


@pytest.fixture
async def spark(server: str, spark_home: Path) -> Any:
    async with stack(server, spark_home) as made:
        yield made


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["local", pytest.param("connect", marks=pytest.mark.thorough)])
async def test_a_pipeline_is_brought_up_to_date(
    spark: Stack, tmp_path: Path, request: pytest.FixtureRequest, mode: str
) -> None:
    mark, options = uuid.uuid4().hex[:8], options_for(request, mode)
    if mode == "local":
        options["conf"] = {**options["conf"], "spark.sql.warehouse.dir": str(tmp_path / "warehouse")}
    task = {"kind": "spark_pipelines", "task_id": "sales", "pipeline_spec": "{{ params.spec }}", "spark": options}
    spec = str(written(tmp_path, mark, orders=ORDERS, totals=TOTALS))
    details = await spark.run_once(dag(f"pipeline_{mode}", [task], params={"spec": spec}))
    assert details.state is RunState.SUCCESS, details.tasks[0].error
    flows = await spark.result_of(details, "sales")
    assert flows == {f"spark_catalog.default.{name}_{mark}": "completed" for name in ("orders", "totals")}
    if mode == "local":
        assert {path.name for path in (tmp_path / "warehouse").iterdir()} == {f"orders_{mark}", f"totals_{mark}"}


@pytest.mark.spark
@pytest.mark.thorough
async def test_a_flow_that_fails_fails_the_task_with_its_reason(
    spark: Stack, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    mark, options = uuid.uuid4().hex[:8], options_for(request, "local")
    options["conf"] = {**options["conf"], "spark.sql.warehouse.dir": str(tmp_path / "warehouse")}
    spec = str(written(tmp_path, mark, orders=ORDERS, fails=FAILS))
    task = {"kind": "spark_pipelines", "task_id": "sales", "pipeline_spec": spec, "spark": options}
    dry = {**task, "task_id": "looked_at", "pipeline_command": "dry-run"}
    details = await spark.run_once(dag("pipeline_fails", [dry, {**task, "upstream": ["looked_at"]}]))
    looked_at, failed = details.tasks
    assert (looked_at.error, details.state) == (None, RunState.FAILED)
    assert "no such order" in (failed.error or "")
    assert f"Flow spark_catalog.default.orders_{mark} has COMPLETED" in spark.log_of(
        "pipeline_fails", details.run.run_id, "sales"
    )
