"""Declarative pipelines as tasks: brought up to date by Spark's own command, below the worker or on Connect."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from spark_clusters import options_for
from support import Stack, dag, eventually, stack
from tidemill.activities.dag_files import parse_dag_file
from tidemill.activities.spark.driver import failure
from tidemill.activities.spark.driver_pipelines import (
    FLOW,
    DatasetNotRefreshedError,
    check_datasets,
    datasets,
    in_words,
    sql_flows,
)
from tidemill.model.asset.events import AssetEvent
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.revisions import ClearRequest
from tidemill.model.spec.tasks import SparkPipelinesTask
from tidemill.model.states import RunState

from tidemill import DAG, AssetAlias, EmptyOperator, SparkPipelinesOperator, spark_pipeline


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
        **dict.fromkeys(("output", "table", "replace_where", "session")),
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


def test_how_far_the_flows_have_come_is_told_in_few_words() -> None:
    flows = {"lake.orders": "completed", **{f"lake.{name}": "running" for name in "abcde"}, "lake.late": "queued"}
    assert in_words(flows) == "1 completed, 5 running, 1 queued (lake.a, lake.b, lake.c and 2 more)"
    assert in_words({"lake.orders": "completed"}) == "1 completed"


@pytest.mark.parametrize(
    ("message", "flow"),
    [
        ("Flow lake.sales.orders is RUNNING.", ("lake.sales.orders", "RUNNING")),
        ("Flow 'lake.sales.orders' is EXCLUDED.", ("lake.sales.orders", "EXCLUDED")),
        ("Flow lake.sales.orders has COMPLETED.", ("lake.sales.orders", "COMPLETED")),
        ("Flow 'lake.sales.daily orders' is EXCLUDED.", ("lake.sales.daily orders", "EXCLUDED")),
    ],
)
def test_a_flow_has_one_name_however_its_event_writes_it(message: str, flow: tuple[str, str]) -> None:
    found = FLOW.match(message)
    assert found is not None
    assert found.groups() == flow


async def triggering_events(spark: Stack, dag_id: str) -> list[AssetEvent]:
    runs = await spark.tidemill.runs.list(dag_id)
    details = [await spark.tidemill.runs.describe(dag_id, run.run_id) for run in runs]
    return [event for found in details for event in found.run.asset_events]


@pytest.mark.parametrize(
    ("flow", "dataset"),
    [
        ("lake.sales.orders", "lake.sales.orders"),
        ("lake.sales.backfill", "lake.sales.orders"),
        ("lake.sales.news", "lake.other.all"),
        ("whole", "lake.other.all"),
    ],
)
def test_the_dataset_of_a_flow_is_the_one_that_it_writes(flow: str, dataset: str) -> None:
    targets = {"backfill": "orders", "sales.news": "other.all", "whole": "lake.other.all"}
    assert datasets({flow: "completed", "lake.sales.failed": "failed"}, targets) == [dataset]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("create flow news as insert into orders by name select 1", [("news", "orders")]),
        ("CREATE FLOW a.b COMMENT 'as is' AS\nINSERT INTO TABLE x.t BY NAME SELECT 1", [("a.b", "x.t")]),
        ("CREATE FLOW f AS AUTO CDC INTO t FROM stream(s) KEYS (id)", [("f", "t")]),
        ("CREATE FLOW `my-f` COMMENT 'it''s' AS INSERT INTO `my-db`.`t` BY NAME SELECT 1", [("`my-f`", "`my-db`.`t`")]),
        (
            "-- CREATE FLOW f AS INSERT INTO old\n/* CREATE FLOW g AS\nINSERT INTO old */ "
            "CREATE FLOW f COMMENT '--' AS INSERT INTO t",
            [("f", "t")],
        ),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", []),
    ],
)
def test_flows_of_sql_files_have_names_of_their_own(sql: str, found: list[tuple[str, str]]) -> None:
    assert sql_flows(sql) == found


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["local", pytest.param("connect", marks=pytest.mark.thorough)])
async def test_a_pipeline_is_brought_up_to_date(
    spark: Stack, tmp_path: Path, request: pytest.FixtureRequest, mode: str
) -> None:
    mark, options = uuid.uuid4().hex[:8], options_for(request, mode)
    if mode == "local":
        options["conf"] = {**options["conf"], "spark.sql.warehouse.dir": str(tmp_path / "warehouse")}
    alias = AssetAlias(f"sales_{mark}")
    task = {
        "kind": "spark_pipelines",
        "task_id": "sales",
        "pipeline_spec": "{{ params.spec }}",
        "spark": options,
        "outlets": [alias.leaf.model_dump()],
    }
    with DAG(f"reads_pipeline_{mode}", schedule=alias) as reader:
        EmptyOperator(task_id="x")
    await spark.tidemill.dags.register(reader.spec())
    spec = str(written(tmp_path, mark, orders=ORDERS, totals=TOTALS))
    details = await spark.run_once(dag(f"pipeline_{mode}", [task], params={"spec": spec}))
    assert details.state is RunState.SUCCESS, details.tasks[0].error
    flows = await spark.result_of(details, "sales")
    names = [f"spark_catalog.default.{name}_{mark}" for name in ("orders", "totals")]
    assert flows == dict.fromkeys(names, "completed")
    heard = await eventually(
        lambda: triggering_events(spark, reader.dag_id), lambda found: {event.name for event in found} == {*names}
    )
    assert {event.aliases for event in heard} == {(alias.name,)}
    if mode == "local":
        assert {path.name for path in (tmp_path / "warehouse").iterdir()} == {f"orders_{mark}", f"totals_{mark}"}


def test_each_dataset_is_a_task_after_those_that_it_reads() -> None:
    with DAG("by_dataset") as made:
        tasks = spark_pipeline(
            "spark-pipeline.yml", {"lake.orders": [], "totals": ["lake.orders"]}, conn_id="connect", retries=2
        )
        tasks["totals"] >> EmptyOperator(task_id="after")
    by_id = {task.task_id: task for task in made.spec().tasks}
    assert {task_id: task.upstream for task_id, task in by_id.items()} == {
        "lake_orders": (), "totals": ("lake_orders",), "after": ("totals",),
    }  # fmt: skip
    orders = by_id["lake_orders"]
    assert isinstance(orders, SparkPipelinesTask)
    assert (orders.refresh, orders.datasets) == (("lake.orders",), ("lake.orders", "totals"))
    assert isinstance(by_id["totals"], SparkPipelinesTask)
    assert by_id["totals"].datasets == (), "one task compares"
    assert (orders.retries, orders.spark.conn_id) == (2, "connect")


@pytest.mark.parametrize(
    ("datasets", "options", "problem"),
    [
        ({"a": ["b"]}, {}, "'a' reads 'b', which is none of them: a. Add it"),
        ({"a": [], "b": "a"}, {}, "'b' reads 'a', which is no list"),
        ({"a": None}, {}, "'a' reads None, which is no list"),
        ({}, {}, "datasets: {} names none"),
        (["a"], {}, r"datasets: \['a'\] names none"),
        ({"a": []}, {"full_refresh": "a"}, "full_refresh: each task of spark_pipeline refreshes its dataset"),
        ({"a": []}, {"task_id": "x"}, "task_id: each task of spark_pipeline"),
    ],
)
def test_datasets_that_make_no_dag_are_refused(datasets: Any, options: dict[str, Any], problem: str) -> None:
    with DAG("by_dataset"), pytest.raises(InvalidInputError, match=problem):
        spark_pipeline("spark-pipeline.yml", datasets, **options)


@pytest.mark.parametrize(
    ("known", "missing"),
    [
        ((), None),
        (("orders", "sales.totals"), None),
        (("ORDERS", "`lake`.`sales`.totals"), None),
        (("orders",), "lake.sales.totals"),
        (("sales.orders", "als"), "lake.sales.totals"),
        (("orders", "totals", "lake.archive.orders"), None),
        (("orders", "totals"), "lake.sales.orders and lake.archive.orders"),
    ],
)
def test_a_dataset_that_no_task_refreshes_fails_the_task(known: tuple[str, ...], missing: str | None) -> None:
    flows = {"lake.sales.orders": "completed", "lake.sales.backfill": "excluded", "lake.sales.totals": "excluded"}
    if "totals" in known:
        flows["lake.archive.orders"] = "excluded"
    if missing is None:
        check_datasets(flows, {"backfill": "orders"}, known)
        return
    with pytest.raises(DatasetNotRefreshedError, match=f"the pipeline writes {missing}"):
        check_datasets(flows, {"backfill": "orders"}, known)


BY_DATASET = """
from tidemill import DAG, spark_pipeline

with DAG("sales_by_dataset"):
    tasks = spark_pipeline(
        "spark-pipeline.yml", {{"orders_{mark}": [], "totals_{mark}": ["orders_{mark}"]}}, master={master!r}
    )
"""
VIEW = "CREATE TEMPORARY VIEW seen_{mark} AS SELECT * FROM orders_{mark}"


@pytest.mark.spark
@pytest.mark.thorough
async def test_a_dag_from_a_pipeline_refreshes_each_dataset_by_a_task_of_its_own(
    spark: Stack, tmp_path: Path, connect: tuple[str, str]
) -> None:
    mark = uuid.uuid4().hex[:8]
    written(tmp_path, mark, totals=TOTALS, orders=ORDERS, view=VIEW)
    file = tmp_path / "dags.py"
    file.write_text(BY_DATASET.format(master=connect[0], mark=mark))
    parsed = parse_dag_file(file)
    assert parsed.error is None, parsed.error
    [spec] = parsed.dags
    orders, totals = (f"{name}_{mark}" for name in ("orders", "totals"))
    assert {task.task_id: task.upstream for task in spec.tasks} == {orders: (), totals: (orders,)}
    details = await spark.run_once(spec)
    assert details.state is RunState.SUCCESS, [task.error for task in details.tasks]
    for name in (orders, totals):
        assert await spark.result_of(details, name, "datasets") == [f"spark_catalog.default.{name}"]

    await spark.tidemill.runs.clear(spec.dag_id, details.run.run_id, ClearRequest(tasks=(totals,)))
    again = await eventually(
        lambda: spark.tidemill.runs.describe(spec.dag_id, details.run.run_id),
        lambda found: found.state is RunState.SUCCESS and {task.try_number for task in found.tasks} == {1, 2},
    )
    assert {task.task_id: task.try_number for task in again.tasks} == {orders: 1, totals: 2}

    (tmp_path / "transformations" / "more.sql").write_text(f"CREATE MATERIALIZED VIEW more_{mark} AS SELECT 1 AS n")
    [failed, _] = (await spark.run_once(spec)).tasks
    assert failed.attempts[0].failure is not None
    assert not failed.attempts[0].failure.retryable
    assert f"the pipeline writes spark_catalog.default.more_{mark}, which no task" in str(failed.error)


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


def test_no_name_of_a_users_exception_takes_its_retries() -> None:
    class OwnError(Exception):
        is_final = True

    assert "retryable" not in failure(OwnError("mine"))
    assert failure(DatasetNotRefreshedError("more"))["retryable"] is False
