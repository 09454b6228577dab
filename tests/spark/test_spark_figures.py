"""What the application of a try came to is known after its end: in the tab, by the command line, as metrics."""

import json
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import Stack, dag, stack, told
from tidemill.activities.attempts.beside_log import SPARK, all_beside, is_plain_file, keep_beside, path_beside
from tidemill.activities.masking import Masker
from tidemill.activities.spark import driver, driver_figures
from tidemill.activities.spark.driver_figures import executors_wanted, of_executors, skew_of
from tidemill.model.run.spark_figures import SparkFigures
from tidemill.model.spec.dag import DagSpec
from tidemill.model.states import RunState
from tidemill.worker.cli.web import web_server
from tidemill.worker.service.task_logs import TaskLog
from tidemill.worker.settings.reading import Settings
from tidemill.worker.spark import tries as spark_tries


def executor(name: str, why: str | None = None, heap: int = 0) -> dict[str, Any]:
    peak = {"JVMHeapMemory": heap} if heap else None
    return {"id": name, "isActive": why is None, "removeReason": why, "peakMemoryMetrics": peak}


class Conf(dict[str, str]):
    """What a driver's context says of itself, whose master's page is at a port."""

    @property
    def master(self) -> str:
        return "spark://127.0.0.1:7077,127.0.0.1:7078"

    def getConf(self) -> "Conf":  # noqa: N802 - Spark's name
        return self


def test_a_master_that_answers_slowly_keeps_no_driver_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that asks is the one that sees that the worker is gone."""
    monkeypatch.setattr(driver_figures, "ASK_TIMEOUT", 0.2)
    monkeypatch.setattr(driver_figures, "ASK_EVERY", 0.001)
    over = threading.Event()

    def stuck(*_: Any, **__: Any) -> None:
        over.wait(60)
        raise OSError("nobody has said anything")

    monkeypatch.setattr(urllib.request, "urlopen", stuck)
    before = threading.active_count()
    for _ in range(3):
        assert executors_wanted(Conf()).endswith("its master is slow to answer")
        time.sleep(0.01)
    assert threading.active_count() <= before + 1, "one asks at a time"
    over.set()


def test_an_executor_is_lost_unless_spark_has_let_it_go() -> None:
    listed = [
        executor("driver", heap=900),
        executor("1", heap=500),
        executor("2", "Executor killed by driver."),
        executor("3", "Command exited with code 137\nat some line", heap=700),
        executor("4", "Command exited with code 137"),
        executor("5", "Executor decommission: worker decommissioned"),
    ]
    found = of_executors(listed, is_local=False)
    assert found == {"peak_heap_bytes": 700, "executors_lost": 2, "lost_because": ["Command exited with code 137"]}
    alone = of_executors([executor("driver", heap=900)], is_local=True)
    assert alone == {"peak_heap_bytes": 900, "executors_lost": 0, "lost_because": []}


def test_skew_is_that_of_the_stages_that_took_long() -> None:
    def stage(number: int, tasks: int, took: int) -> dict[str, Any]:
        return {"stageId": number, "numCompleteTasks": tasks, "executorRunTime": took, "name": f"s{number}"}

    times = {1: (100.0, 150.0), 2: (100.0, 900.0), 3: (1.0, 1_000.0)}
    stages = [stage(1, 10, 5_000), stage(2, 10, 4_000), stage(3, 2, 9_000)]
    found = skew_of(stages, lambda one: times[one["stageId"]])
    assert found == {"stage": 2, "name": "s2", "tasks": 10, "median_ms": 100, "slowest_ms": 900}
    assert skew_of([stage(3, 2, 9_000)], lambda _: (1.0, 2.0)) is None
    assert skew_of(stages, lambda _: None) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"tasks": "many"}', '{"skew": 3}'])
def test_what_a_task_has_written_in_their_place_is_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / f"a.log{SPARK}").write_text(text)
    assert TaskLog(Settings(home=tmp_path), "a.log").spark is None


def test_what_a_task_adds_to_them_is_dropped(tmp_path: Path) -> None:
    """However deep or large it is, it neither fails the try nor takes the place of what is the worker's to say."""
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    (tmp_path / "logs").mkdir()
    content = {
        "tasks": 1,
        "try_number": 7,
        "deep": deep,
        "skew": {"stage": 1, "tasks": 4, "median_ms": 1, "slowest_ms": 2, "deep": deep},
    }
    (tmp_path / "logs" / f"a.log{SPARK}").write_text(json.dumps(content))
    figures = TaskLog(Settings(home=tmp_path), "a.log").spark
    assert figures is not None
    skew = {"stage": 1, "name": "", "tasks": 4, "median_ms": 1, "slowest_ms": 2}
    kept = figures.model_dump(mode="json", exclude_none=True)
    assert kept == {"tasks": 1, "lost_because": [], "skew": skew, "is_final": True}


def test_a_link_in_their_place_is_no_file_of_the_try(tmp_path: Path) -> None:
    log = tmp_path / "attempt=1.log"
    for path in (log, path_beside(log, SPARK)):
        path.symlink_to("/proc/self/environ")
    assert not is_plain_file(log)
    assert all_beside(log) == []
    keep_beside(log, SPARK, {"tasks": 1}, Masker())
    assert all_beside(log) == [path_beside(log, SPARK)]
    assert json.loads(path_beside(log, SPARK).read_text()) == {"tasks": 1}


def test_a_driver_without_the_file_runs_its_application_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "FIGURES", "not_there.py")
    figures = driver.Figures(tmp_path, None)
    figures.look(None, is_final=True)
    assert "will not be told" in capsys.readouterr().out
    assert not (tmp_path / "figures.json").exists()


async def test_a_store_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_tries, "READ_TIMEOUT", 0.1)
    released = threading.Event()
    with pytest.raises(OSError, match="has not answered within"):
        await spark_tries.in_a_thread(lambda: released.wait() and None)
    released.set()
    figures = SparkFigures(tasks=1)
    monkeypatch.setattr(spark_tries, "READ_TIMEOUT", 60.0)
    assert await spark_tries.in_a_thread(lambda: figures) is figures


SHUFFLES = """
import sys
import time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = int(spark.conf.get("spark.my.rows"))
pairs = spark.range(0, rows, 1, 4).selectExpr("id", "hex(id) AS text")
pairs.repartition(4, "text").write.mode("overwrite").parquet(sys.argv[1])
if rows > 50_000:
    spark.sql("SELECT * FROM nowhere")
"""


def shuffling(folder: Path) -> DagSpec:
    (folder / "shuffles.py").write_text(SHUFFLES)
    task = {
        "kind": "spark_submit",
        "task_id": "moves",
        "application": str(folder / "shuffles.py"),
        "application_args": [str(folder / "out")],
        "spark": {
            "master": "local[2]",
            "driver_memory": "800m",
            "conf": {"spark.my.rows": "{{ params.rows }}", "spark.sql.adaptive.enabled": False},
        },
    }
    return dag("figured", [task], params={"rows": 50_000})


@pytest.mark.spark
@pytest.mark.thorough
async def test_a_failed_try_stands_beside_the_last_good_run(
    server: str, spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = shuffling(tmp_path)
    async with stack(server, spark_home) as here:
        good = await here.run_once(spec, run_id="good")
        assert good.state is RunState.SUCCESS, good.tasks[0].error
        bad = await here.run_once(spec, run_id="bad", conf={"rows": 500_000})
        assert bad.state is RunState.FAILED
        figures = figures_of(here, "bad")
        assert (figures["output_rows"], figures["is_final"]) == (500_000, True)
        assert figures["shuffle_write_bytes"] == figures["shuffle_read_bytes"] > 2**20
        assert figures["tasks"] == 8
        assert figures["skew"]["tasks"] == 4
        monkeypatch.setenv("TIDEMILL_SPARK_HISTORY_URL", "http://history:18080")
        printed = await told(here, "tasks", "show", "figured", "bad", "moves", "--json")
        [one] = printed["spark"]
        assert one["compared_with"] == "good"
        assert one["times_as_much"]["output_rows"] == 10
        assert one["history"] == f"http://history:18080/history/{figures['application_id']}/"
        text = await told(here, "tasks", "show", "figured", "bad", "moves")
        assert "BESIDE good" in text
        assert "10.0 x" in text
        assert "TABLE_OR_VIEW_NOT_FOUND" in text
        await shown_by_the_web(here)


def figures_of(here: Stack, run_id: str) -> dict[str, Any]:
    """What is kept of the try, as it is kept."""
    [path] = here.home.glob(f"logs/dag_id=figured/run_id={run_id}/task_id=moves/*{SPARK}")
    return dict(json.loads(path.read_text()))


async def shown_by_the_web(here: Stack) -> None:
    settings = Settings(home=here.home, spark_history_url="http://history:18080")
    async with web_server(here.tidemill, settings, "127.0.0.1", 0) as url, httpx.AsyncClient(timeout=60) as client:
        page = (await client.get(f"{url}/tidemill/dags/figured/runs/bad/tasks/moves/spark")).text
        links = (await client.get(f"{url}/api/v2/dags/figured/dagRuns/bad/taskInstances/moves/links")).json()
    application = figures_of(here, "bad")["application_id"]
    assert f'href="http://history:18080/history/{application}/"' in page
    assert "beside good" in page
    assert "10.0 x" in page
    assert links["extra_links"] == {"Spark History": f"http://history:18080/history/{application}/"}


ENDS_HARD = """
import json
import os
import time
from pathlib import Path
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(0, 1_000, 1, 2).write.format("noop").mode("overwrite").save()
told = Path(spark.conf.get("spark.tidemill.result")).with_name("figures.json")
while not told.exists() or json.loads(told.read_text())["tasks"] < 2:
    time.sleep(0.1)
os._exit(9)
"""


@pytest.mark.spark
@pytest.mark.thorough
async def test_of_a_driver_that_dies_the_last_figures_are_kept(server: str, spark_home: Path, tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(ENDS_HARD)
    spark = {"master": "local[1]", "driver_memory": "800m"}
    task = {"kind": "spark_submit", "task_id": "ends", "application": str(tmp_path / "ends.py"), "spark": spark}
    async with stack(server, spark_home) as here:
        details = await here.run_once(dag("figured_dead", [task]), run_id="dead")
        assert details.state is RunState.FAILED
        [path] = here.home.glob(f"logs/dag_id=figured_dead/**/*{SPARK}")
    figures = json.loads(path.read_text())
    assert (figures["is_final"], figures["tasks"]) == (False, 2)
