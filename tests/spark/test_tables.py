"""Tables: what a task writes is on a branch of its own, and becomes the table's once (Iceberg)."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kubernetes_cluster
import pytest
import yarn_cluster
from spark_clusters import spark_connect, standalone_cluster
from support import Stack, dag, eventually, stack, worker_environment, worker_process
from tidemill.activities.dag_files import parse_dag_file
from tidemill.activities.names import MAX_STARTS
from tidemill.activities.spark import driver_tables
from tidemill.activities.spark.command import conf_of
from tidemill.activities.spark.modes import MODES
from tidemill.activities.spark.starts import SparkStart
from tidemill.activities.spark.table_publication import TablePublication
from tidemill.activities.worker_context import WorkerContext
from tidemill.model.errors import InvalidInputError
from tidemill.model.run.attempts import TableAttempt, TaskAttempt
from tidemill.model.run.identity import RunIdentity, RunType, TriggeredBy, TriggerRequest
from tidemill.model.run.revisions import ClearRequest
from tidemill.model.spec.tasks import SparkMode, SparkOptions, SparkSubmitTask
from tidemill.model.states import RunState

PLACES = ("local", "connect", "standalone-client", "standalone-cluster", "yarn", "kubernetes", "operator")
BUILD = Path(__file__).parents[2] / "build"
HOME = BUILD / "sparks" / "4.1.4" / "pyspark"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

# What is refused, and what an application is given


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"table": "orders"}, "Write it as catalog.namespace.table"),
        ({"table": "lake.db.t; DROP TABLE lake.db.u"}, "Write it as catalog.namespace.table"),
        ({"table": "lake.db.`it's`"}, "Write it as catalog.namespace.table"),
        ({"replace_where": "day = current_date()"}, "Name the table, as table="),
        ({"table": "lake.db.t", "output": "lake/t"}, "Leave one out"),
        ({"table": "lake.db.t", "application": "a.jar"}, "Write the table from Python"),
    ],
)
def test_what_cannot_be_published_is_refused(fields: dict[str, Any], told: str) -> None:
    task = {"kind": "spark_submit", "task_id": "load", "application": "load.py", **fields}
    with pytest.raises(InvalidInputError, match=told):
        dag("tables", [task])


def started(tmp_path: Path, options: SparkOptions, number: int = 1) -> SparkStart:
    task = SparkSubmitTask(task_id="load", application="load.py", table="lake.db.t", replace_where="day = 1")
    place = WorkerContext(home=tmp_path)
    run = RunIdentity(dag_id="d", run_id="r", run_type=RunType.MANUAL, triggered_by=TriggeredBy.CLI, run_after=NOW)
    attempt = TaskAttempt(run=run, task=task, try_number=1, execution="e")
    return SparkStart(
        attempt, place, options, MODES[options.mode], place.attempt_folder(attempt), task.written(), number
    )


def test_each_start_writes_to_a_branch_of_its_own_and_signs_it(tmp_path: Path) -> None:
    first, second = (conf_of(started(tmp_path, SparkOptions(), number)) for number in (1, 2))
    assert first["spark.wap.branch"] != second["spark.wap.branch"]
    signed = {name: value for name, value in first.items() if "snapshot-property" in name}
    assert signed["spark.sql.iceberg.snapshot-property.tidemill.branch"] == first["spark.wap.branch"]
    assert signed["spark.sql.iceberg.snapshot-property.tidemill.task_id"] == "load"


def test_a_driver_names_no_more_than_the_number_of_a_start(tmp_path: Path) -> None:
    work = started(tmp_path, SparkOptions(), 2)
    forged = {"outcome": {"staged_table": {"table": "lake.db.of_others", "branch": "main", "family": ""}}}
    for branch, number in (("x_00001", 1), ("main", 2), ("lake.db.of_others_7; DROP", 2)):
        staged = work.ended({**forged, "table": {"table": "lake.db.of_others", "branch": branch}}).staged_table
        assert staged is not None
        assert (staged.table, staged.branch.endswith(f"_{number:05}")) == ("lake.db.t", True)
        assert staged.branch.startswith(staged.family)
    for said in (None, [], "main"):
        staged = work.ended({**forged, "table": said, "staged": said}).staged_table
        assert staged == work.staged_table


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, SparkMode.CLIENT),
        ({"master": "spark://h:7077"}, SparkMode.CLIENT),
        ({"master": "sc://h:15002"}, SparkMode.CONNECT),
        ({"master": "spark://h:7077", "deploy_mode": "cluster"}, SparkMode.CLIENT),
        ({"master": "k8s://https://h:6443", "deploy_mode": "cluster"}, SparkMode.CLIENT),
        ({"master": "yarn", "deploy_mode": "cluster"}, SparkMode.CLIENT),
    ],
)
def test_a_publication_is_never_on_a_cluster_that_has_to_be_followed(
    tmp_path: Path, options: dict[str, Any], mode: SparkMode
) -> None:
    work = started(tmp_path, SparkOptions(**options))
    assert work.staged_table is not None
    question = TableAttempt(attempt=work.attempt, staged=work.staged_table)
    publication = TablePublication.of_branch(work, question, MODES)
    assert publication.mode is MODES[mode]
    assert publication.options.deploy_mode is None
    assert "spark.wap.branch" not in conf_of(publication), "else it would write to the branch itself"
    plan = publication.plan()["publish"]
    assert plan["branch"] == plan["signed"][driver_tables.SIGNED] == work.staged_table.branch
    assert publication.folder.path != work.folder.path
    withdrawal = TablePublication.of_branch(work, question.model_copy(update={"withdraws": True}), MODES)
    assert withdrawal.plan()["publish"]["withdraws"]
    assert withdrawal.number > MAX_STARTS, "what publications have on a server is ended first"


CATCHES_ALL = """
from pyspark.sql import SparkSession
try:
    spark = SparkSession.builder.getOrCreate()
except BaseException:
    pass
print("goes on")
"""


@pytest.mark.spark
async def test_a_script_does_not_go_on_where_its_branch_cannot_be_made(
    server: str, spark_home: Path, tmp_path: Path
) -> None:
    """It would write to the table itself."""
    (tmp_path / "script.py").write_text(CATCHES_ALL)
    task = {"kind": "spark_submit", "task_id": "load", "application": str(tmp_path / "script.py")}
    spec = dag("no_branch", [{**task, "table": "spark_catalog.default.nowhere", "spark": {"master": "local[1]"}}])
    async with stack(server, spark_home) as made:
        details = await made.run_once(spec)
        assert details.state is RunState.FAILED
        assert "TableMissingError: there is no Iceberg table spark_catalog.default" in (details.tasks[0].error or "")
        assert "goes on" not in made.log_of("no_branch", details.run.run_id, "load")


# On a real Iceberg


@pytest.fixture(scope="module")
def iceberg() -> Path:
    """The jar of Iceberg."""
    if not (BUILD / "tables" / ".ready").exists() or not (BUILD / "sparks" / ".ready").exists():
        pytest.skip("Iceberg and the Spark that it works with are not here: make tables")
    [jar] = (BUILD / "tables").glob("iceberg-*.jar")
    return jar


@pytest.fixture(scope="module")
def found(iceberg: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the cases of `table_cases.py` have come to."""
    folder = tmp_path_factory.mktemp("tables")
    argv = [sys.executable, "-P", str(Path(__file__).with_name("table_cases.py"))]
    env = {**os.environ, "SPARK_HOME": str(HOME), "PYTHONPATH": str(HOME.parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    argv += [str(driver_tables.__file__), str(iceberg), str(folder)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads((folder / "found.json").read_text()))


WITHDRAWN = "TableMissingError: the publication of a_x_1_1 to"
ONE, TWO = ["2026-01-01", 1], ["2026-01-02", 2]
CASES: dict[str, Any] = {
    "published_once": {"before": [], "after": [ONE, ["2026-01-01", 2]], "branches": ["main"]},
    "a_run_that_is_run_again_replaces_its_rows": [["2026-01-01", 2]],
    "an_interval_that_has_become_empty_is_published": [TWO],
    "two_days_side_by_side": {"rows": [ONE, TWO, ["2026-01-03", 3]], "branches": ["main"]},
    "one_day_twice_at_a_time": {"failure": "TableChangedError: others have written rows of", "rows": [ONE]},
    "without_replace_where_at_a_time": {"failure": "TableChangedError: others have written to", "rows": [ONE]},
    "a_zombie_of_an_earlier_start": {
        "gone": "TableMissingError: ",
        "back": "TableMissingError: ",
        "rows": [["2026-01-01", 2]],
    },
    "a_publication_that_has_got_lost": {"failure": "TableChangedError: ", "rows": [["2026-01-01", 2]]},
    "a_publication_that_was_given_up_and_commits": {"rows": [1, 1, 2, 3, 4, 5], "branches": ["main"]},
    "a_publication_that_is_withdrawn": {
        "withdrawn": [WITHDRAWN] * 2,
        "late": "TableMissingError: lake.db.",
        "done": ["none"] * 6,
        "rows": [["2026-01-01", 2]],
    },
    "two_publications_at_once": [ONE, TWO, ["2026-01-09", 9]],
    "rows_that_are_not_the_runs": {"failure": "RowsOutsideError: ", "rows": []},
    "rows_without_a_day": {"failure": "RowsOutsideError: ", "rows": []},
    "a_row_of_others_is_changed": {
        "failure": "RowsOutsideError: others have written to",
        "rows": [TWO, ["2026-01-03", 3]],
    },
    "files_with_rows_of_others": {
        "failure": "RowsOutsideError: others have written to",
        "rows": [["2026-01-01", 0], ["2026-01-02", 1], ["2026-01-03", 2], ["2026-01-09", 9]],
    },
    "a_late_begin": {"late": "TableChangedError: a later start", "rows": [ONE, ["2026-01-01", 2]]},
    "a_publication_that_is_asked_for_again_much_later": [["2026-01-01", 2]],
    "a_branch_that_was_made_anew": {"failure": "TableMissingError: ", "rows": [["2026-01-01", 100]]},
    "main_is_taken_back": {"failure": "TableChangedError: main of", "rows": [ONE]},
    "a_table_that_is_replaced": {"published": "TableMissingError: ", "next": "TableMissingError: "},
    "a_condition_with_a_comment": [ONE, TWO, ["2026-01-03", 3]],
    "nothing_written": [],
    "a_branch_that_is_gone": "TableMissingError: ",
    "no_such_table": "TableMissingError: there is no Iceberg table lake.db.nowhere",
    "names_in_quotes": [ONE],
    "without_extensions": "TableMissingError: Spark cannot make branches of",
}
"""By the case of `table_cases.py`, what it comes to; of failures, how they begin."""


def is_as_expected(told: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return {*told} == {*expected} and all(is_as_expected(told[name], expected[name]) for name in expected)
    if isinstance(expected, list) and all(isinstance(one, str) for one in expected):
        return len(told) == len(expected) and all(map(is_as_expected, told, expected))
    return bool(told.startswith(expected) if isinstance(expected, str) else told == expected)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_what_becomes_of_a_branch(found: dict[str, Any], case: str) -> None:
    assert is_as_expected(found[case], CASES[case]), found[case]


DAG_FILE = """
import json, time
from pathlib import Path
from tidemill import DAG, spark_sql, spark_submit, task

PLACE = json.loads(Path(__file__).with_name("place.json").read_text())
MINE = {"table": "lake.db.orders", "replace_where": "day = date'{{ ds }}'", "spark": PLACE}

with DAG("tables_MODE", schedule=None, max_active_runs=4):
    make = spark_sql("make", "CREATE TABLE IF NOT EXISTS lake.db.orders (day date, value int) USING iceberg "
                     "PARTITIONED BY (day)", spark=PLACE)
    script = spark_submit("script", "script.py", application_args=["{{ ds }}"], **MINE)
    sql = spark_sql("sql", "INSERT INTO lake.db.orders SELECT day, value + 10 FROM lake.db.orders "
                    "WHERE day = date'{{ ds }}'", spark=PLACE, table="lake.db.orders")
    make >> script >> sql

with DAG("at_once_MODE", schedule=None, max_active_runs=4):
    @task.pyspark(**MINE)
    def write(spark, ds="", run_id=""):
        here = Path(__file__).parent
        spark.sql(f"INSERT INTO lake.db.orders VALUES (date'{ds}', 1)")
        (here / f"began_{ds}").touch()
        while len([*here.glob("began_*")]) < 2:
            time.sleep(0.2)
    write()
"""
READ_PLACE = 'json.loads(Path(__file__).with_name("place.json").read_text())'
SCRIPT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "3").getOrCreate()
spark.sql(f"INSERT INTO lake.db.orders VALUES (date'{sys.argv[1]}', 1)")
spark.newSession().sql(f"INSERT INTO lake.db.orders VALUES (date'{sys.argv[1]}', 2)")
spark.stop()
"""


@pytest.fixture(params=["local"])
async def lake(
    iceberg: Path,
    server: str,
    spark_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Stack]:
    """Workers whose Spark is the one of Iceberg, with the DAG file and an empty warehouse in *tmp_path*."""
    monkeypatch.setenv("SPARK_HOME", str(HOME))
    conf = {
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(tmp_path / "warehouse"),
    }
    place = {"master": "local[1]", "driver_memory": "600m", "jars": [str(iceberg)], "conf": conf}
    (tmp_path / "place.json").write_text(json.dumps(place))
    (tmp_path / "dags.py").write_text(DAG_FILE)
    (tmp_path / "script.py").write_text(SCRIPT)
    async with AsyncExitStack() as servers:
        if request.param == "connect":
            (tmp_path / "spark-defaults.conf").write_text(
                "".join(f"{name} {value}\n" for name, value in {**conf, "spark.jars": iceberg}.items())
            )
            monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
            url, _ = servers.enter_context(spark_connect(tmp_path / "server", spark_home))
            (tmp_path / "dags.py").write_text(DAG_FILE.replace(READ_PLACE, repr({"master": url})))
        if request.param not in ("local", "connect"):
            cluster = on_cluster(request.param, servers, tmp_path, spark_home, iceberg, monkeypatch)
            cluster["conf"] |= conf
            (tmp_path / "dags.py").write_text(DAG_FILE.replace(READ_PLACE, repr(cluster)))
        file = tmp_path / "dags.py"
        file.write_text(file.read_text().replace("_MODE", f"_{tmp_path.name}"))
        made = await servers.enter_async_context(stack(server, spark_home, no_remote_activities=True))
        for spec in parse_dag_file(tmp_path / "dags.py").dags:
            await made.tidemill.dags.register(spec)
        yield made


def on_cluster(
    mode: str, servers: AsyncExitStack, folder: Path, home: Path, iceberg: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The options of a cluster of that mode, which is started, and ends with *servers*; its Spark is Iceberg's."""
    if mode.startswith("standalone"):
        standalone = servers.enter_context(standalone_cluster(folder / "cluster", home / "cache"))
        return standalone.options(deploy_mode=mode.removeprefix("standalone-"), jars=[str(iceberg)])
    jars = [f"local://{iceberg}"]
    if mode == "yarn":
        if (reason := yarn_cluster.missing()) is not None:
            pytest.skip(reason)
        with pytest.MonkeyPatch.context() as of_cluster:  # YARN needs libraries of a later Spark than Iceberg's
            of_cluster.delenv("SPARK_HOME")
            yarn = servers.enter_context(yarn_cluster.yarn_cluster(folder / "yarn", [home]))
        monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.conf))
        return yarn.options(jars=jars)
    if reason := (kubernetes_cluster.operator_missing if mode == "operator" else kubernetes_cluster.missing)():
        pytest.skip(reason)
    kubernetes = servers.enter_context(kubernetes_cluster.kubernetes_cluster(folder / "kubernetes"))
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.kubeconfig))
    if mode == "operator":
        return servers.enter_context(kubernetes_cluster.spark_operator(kubernetes)).options(
            home.resolve(), image_has_tidemill=True, jars=jars
        )
    return kubernetes.options(home.resolve(), image_has_tidemill=True, jars=jars)


READ = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
place = json.loads(open(sys.argv[1]).read())
conf = {**place["conf"], "spark.jars": place["jars"][0], "spark.ui.enabled": "false"}
session = builder.config(map=conf).getOrCreate()
rows = session.table("lake.db.orders").orderBy("day", "value").collect()
signed = session.sql("SELECT summary['tidemill.run_id'] AS run_id, summary['tidemill.task_id'] AS task_id "
                     "FROM lake.db.orders.snapshots").collect()
print("found", json.dumps({
    "rows": [[str(row.day), row.value] for row in rows],
    "signed": sorted({(row.run_id, row.task_id) for row in signed if row.run_id}),
    "branches": [row.name for row in session.sql("SELECT name FROM lake.db.orders.refs").collect()],
}))
"""


def contents(folder: Path) -> dict[str, Any]:
    """What readers of the table find."""
    env = {**os.environ, "SPARK_HOME": str(HOME), "PYTHONPATH": str(HOME.parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    argv = [sys.executable, "-P", "-c", READ, str(folder / "place.json")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=500, check=True)
    [told] = [line for line in done.stdout.splitlines() if line.startswith("found ")]
    return dict(json.loads(told.removeprefix("found ")))


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("lake", PLACES, indirect=True)
async def test_runs_publish_their_day_and_replace_it_when_they_are_cleared(
    lake: Stack, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with worker_process(worker_environment(lake.address, lake.home, lake.task_queue)):
        asked_for = TriggerRequest(run_id="first", logical_date="2026-01-01T00:00:00Z")
        dag_id = f"tables_{tmp_path.name}"
        run = await lake.tidemill.runs.trigger(dag_id, asked_for)
        details = await lake.finished(dag_id, run.run_id)
        assert details.state is RunState.SUCCESS, [task.error for task in details.tasks]
        once = await asyncio.to_thread(contents, tmp_path)
        history = await lake.tidemill.client.get_workflow_handle(details.run.workflow_id).fetch_history()
        await lake.tidemill.runs.clear(dag_id, run.run_id, ClearRequest(tasks=("script", "sql")))
        details = await eventually(
            lambda: lake.tidemill.runs.describe(dag_id, run.run_id),
            lambda found: found.state.finished and [task.try_number for task in found.tasks] == [1, 2, 2],
            within=300,
        )
        assert details.state is RunState.SUCCESS, [task.error for task in details.tasks]
    assert once["rows"] == [["2026-01-01", value] for value in (1, 2, 11, 12)]
    assert once["signed"] == [["first", "script"], ["first", "sql"]]
    assert once["branches"] == ["main"]
    asked = [event.activity_task_scheduled_event_attributes for event in history.events]
    queues = [each.task_queue.name for each in asked if each.activity_type.name == "tidemill.publish_table"]
    waits = ["-spark"] if request.node.callspec.params["lake"] == "connect" else ["-spark", "-drivers"]
    assert queues == [lake.task_queue + suffix for suffix in waits * 2], "ends never wait behind publications"
    again = await asyncio.to_thread(contents, tmp_path)
    assert (again["rows"], again["branches"]) == (once["rows"], once["branches"])


@pytest.mark.spark
@pytest.mark.long
async def test_runs_side_by_side_publish_though_a_worker_is_killed(lake: Stack, tmp_path: Path) -> None:
    env = worker_environment(lake.address, lake.home, lake.task_queue)
    first_dag, dag_id = (f"{name}_{tmp_path.name}" for name in ("tables", "at_once"))
    publishing = f"attempts/dag_id={dag_id}/**/*-publish/plan.json"
    with worker_process(env) as first:
        made = await lake.tidemill.runs.trigger(first_dag, TriggerRequest(logical_date="2025-12-31T00:00:00Z"))
        await lake.finished(first_dag, made.run_id)
        days = ("2026-01-01", "2026-01-02")
        runs = [
            await lake.tidemill.runs.trigger(dag_id, TriggerRequest(run_id=day, logical_date=f"{day}T00:00:00Z"))
            for day in days
        ]
        await eventually(lambda: asyncio.to_thread(lambda: [*lake.home.glob(publishing)]), bool)
        first.send_signal(signal.SIGKILL)
        first.wait()
    with worker_process(env):
        for run in runs:
            details = await lake.finished(dag_id, run.run_id)
            assert details.state is RunState.SUCCESS, details.tasks[0].error
            assert details.tasks[0].try_number == 1
    found = await asyncio.to_thread(contents, tmp_path)
    assert [run_id for run_id, task_id in found["signed"] if task_id == "write"] == [*days]
    assert found["rows"] == [["2025-12-31", value] for value in (1, 2, 11, 12)] + [[day, 1] for day in days]
    assert found["branches"] == ["main"]
