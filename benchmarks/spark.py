"""What tidemill adds to a Spark job in each mode, what a warm start saves, how soon a killed worker is made up for."""

import asyncio
import contextlib
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from figures import Figure
from tidemill.activities.dag_files import parse_dag_file
from tidemill.activities.spark.archive import build_archive, fast_start
from tidemill.activities.spark.command import environment, spark_home
from tidemill.activities.spark.modes import MODES
from tidemill.activities.spark.standalone import Standalone as Rest
from tidemill.activities.spark.starts import SparkStart
from tidemill.activities.worker_context import WorkerContext, find_java
from tidemill.examples import tpch
from tidemill.model.run.attempts import TaskAttempt
from tidemill.model.run.identity import TriggerRequest
from tidemill.model.spec.dag import read_dag
from tidemill.model.states import RunState
from tidemill.worker.client import Tidemill
from tidemill.worker.service.connection import NoWorkerError

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from spark_clusters import Standalone, spark_connect, standalone_cluster
from support import worker_environment, worker_process

ROUNDS = 3
SMALL_TASKS = 20
LOCAL = {"master": "local[2]", "driver_memory": "1g"}
JOB = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(1000).selectExpr("sum(id)").collect()
if len(sys.argv) > 2:
    Path(sys.argv[1]).open("a").write("begun\\n")
    import time
    time.sleep(float(sys.argv[2]))
spark.stop()
"""
SMALL = """
from tidemill import DAG, task
with DAG("bench_small", max_active_tasks=1) as dag:
    @task.pyspark(conn_id="connect")
    def small(spark, n):
        return spark.range(n).count()
    previous = None
    for i in range({n}):
        made = small.override(task_id=f"t{{i}}")(i)
        if previous is not None:
            previous >> made
        previous = made
"""


async def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    found = await asyncio.to_thread(work)  # the worker goes on meanwhile
    if asyncio.iscoroutine(found):
        await found
    return time.perf_counter() - start


class SparkBench:
    """One machine's Spark, measured with and without tidemill in turn."""

    def __init__(self, tidemill: Tidemill, address: str, folder: Path) -> None:
        self.tidemill = tidemill
        self.address = address
        self.folder = folder
        self.job = folder / "job.py"
        self.job.write_text(JOB)
        java = find_java()
        assert java is not None
        self.java = java

    def dag_of(self, dag_id: str, spark: dict[str, Any], *arguments: str) -> Any:
        task = {
            "kind": "spark_submit", "task_id": "job", "application": str(self.job),
            "application_args": list(arguments), "spark": spark,
        }  # fmt: skip
        return read_dag({"dag_id": dag_id, "tasks": [task], "heartbeat_timeout": 5})

    async def by_tidemill(self, dag_id: str) -> None:
        run = await self.tidemill.runs.trigger(dag_id, TriggerRequest(run_id=uuid.uuid4().hex))
        await self.tidemill.runs.wait(run)

    def by_hand(self, spark: dict[str, Any], java_options: str) -> None:
        """spark-submit of the same script, with the same options."""
        argv = [str(spark_home() / "bin" / "spark-submit"), "--master", spark["master"]]
        for name, flag in (("driver_memory", "--driver-memory"), ("executor_memory", "--executor-memory")):
            argv += [flag, spark[name]] if name in spark else []
        argv += ["--total-executor-cores", "1"] if "total_executor_cores" in spark else []
        conf = {"spark.driver.host": "127.0.0.1", "spark.ui.port": "0", **spark.get("conf", {})}
        conf.setdefault("spark.driver.extraJavaOptions", java_options)
        for key, value in conf.items():
            argv += ["--conf", f"{key}={value}"] if value else []
        done = subprocess.run([*argv, str(self.job)], env=environment({}, self.java), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()[-2000:]

    def by_hand_on_cluster(self, spark: dict[str, Any]) -> None:
        """The same request to the master, and its state asked for every second."""
        run = {
            "dag_id": "by_hand", "run_id": uuid.uuid4().hex, "run_type": "manual", "triggered_by": "client",
            "run_after": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        [task] = self.dag_of("by_hand", spark).tasks
        attempt = TaskAttempt.model_validate({"run": run, "task": task.model_dump(), "try_number": 1})
        rest = Rest(SparkStart.of(attempt, WorkerContext(home=self.folder), MODES))
        request = rest.request()
        request["appArgs"] = [*request["appArgs"][:-3], str(self.job)]  # without tidemill's own side of the driver
        url = f"{spark['rest_url']}/v1/submissions"
        driver = httpx.post(f"{url}/create", json=request).json()["submissionId"]
        while httpx.get(f"{url}/status/{driver}").json()["driverState"] in ("SUBMITTED", "RUNNING"):
            time.sleep(1)

    async def overhead(self, cluster: Standalone) -> list[Figure]:
        """A trivial job as a task, and by hand, in turn."""
        quick = fast_start(self.tidemill_home, self.java, small=True)
        figures = []
        for mode, spark, by_hand in (
            ("local", LOCAL, lambda: self.by_hand(LOCAL, quick)),
            ("standalone, client", cluster.options(), lambda: self.by_hand(cluster.options(), "")),
            (
                "standalone, cluster",
                cluster.options(deploy_mode="cluster"),
                lambda: self.by_hand_on_cluster(cluster.options(deploy_mode="cluster")),
            ),
        ):
            dag_id = f"bench_spark_{mode.replace(', ', '_')}"
            await self.tidemill.dags.register(self.dag_of(dag_id, spark))
            hand, ours = [], []
            for _ in range(ROUNDS):
                hand.append(await timed(by_hand))
                ours.append(await timed(lambda: self.by_tidemill(dag_id)))  # noqa: B023
            figures.append(Figure(f"Spark job, {mode}: wall", "s", median(ours), median(hand)))
        return figures

    @property
    def tidemill_home(self) -> Path:
        return self.folder / "home"

    async def quick_starts(self) -> list[Figure]:
        """spark-submit by hand as Spark comes, with what makes it start quickly, and without Java's second compiler."""
        quick = fast_start(self.tidemill_home, self.java, small=True)
        alone = f"{quick} -XX:TieredStopAtLevel=1"
        rounds = [
            [await self.cost_by_hand(options) for options in ("", quick, alone)]
            for _ in range(ROUNDS)
        ]  # fmt: skip
        wall, processor = (
            [median(costs[kind] for costs in column) for column in zip(*rounds, strict=True)] for kind in (0, 1)
        )
        return [
            Figure("local job with the archive (floor: without)", "s", wall[1], wall[0]),
            Figure("the same with TieredStopAtLevel=1 (floor: without)", "s", wall[2], wall[1]),
            Figure("the same in processor time", "s", processor[2], processor[1]),
        ]

    async def cost_by_hand(self, options: str) -> tuple[float, float]:
        """Seconds and processor seconds of spark-submit by hand."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall = await timed(lambda: self.by_hand(LOCAL, options))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    async def small_tasks(self) -> Figure:
        """One small task after the other on a warm Connect server, and the same question by a client that stays."""
        from pyspark.sql.connect.session import SparkSession

        file = self.folder / "small.py"
        file.write_text(SMALL.format(n=SMALL_TASKS))
        [spec] = parse_dag_file(file).dags
        await self.tidemill.dags.register(spec)
        await self.by_tidemill("bench_small")  # warms the fork server and the JVM

        def by_hand() -> None:
            for i in range(SMALL_TASKS):
                session = SparkSession.builder.remote(self.connect).create()
                session.range(i).count()
                session.stop()

        by_hand()
        ours, hand = [], []
        for _ in range(ROUNDS):
            ours.append(await timed(lambda: self.by_tidemill("bench_small")))
            hand.append(await timed(by_hand))
        each = median(ours) / SMALL_TASKS, median(hand) / SMALL_TASKS
        return Figure("small task on Spark Connect, one after the other: each", "s", *each)

    async def recovery(self, cluster: Standalone) -> list[Figure]:
        """From SIGKILL of the worker to the driver that the next worker has started, or follows."""
        figures = []
        for mode, spark in (("local", LOCAL), ("standalone, cluster", cluster.options(deploy_mode="cluster"))):
            queue = f"bench-{uuid.uuid4().hex[:8]}"
            tidemill = Tidemill(self.tidemill.client, queue)
            env = worker_environment(self.address, self.tidemill_home, queue)
            notes, dag_id = self.folder / f"notes {mode}", f"bench_killed_{mode.replace(', ', '_')}"
            with worker_process(env) as first:
                await registered(tidemill, self.dag_of(dag_id, spark, str(notes), "60"))
                run = await tidemill.runs.trigger(dag_id)
                await until(notes.exists)
                with worker_process(env):
                    await asyncio.sleep(15)  # so that it polls
                    first.kill()
                    start = time.perf_counter()

                    async def taken_up(run_id: str = run.run_id, dag_id: str = dag_id) -> bool:
                        [task] = (await tidemill.runs.describe(dag_id, run_id)).tasks  # noqa: B023
                        again = notes.read_text().count("begun") == 2  # noqa: B023
                        return again or ("2. time" in task.why and bool(task.progress))

                    await until(taken_up)
                    figures.append(Figure(f"killed worker, {mode}: until taken up", "s", time.perf_counter() - start))
                    await self.tidemill.client.get_workflow_handle(run.workflow_id).cancel()
                    await tidemill.runs.wait(run)
        return figures

    connect = ""


async def registered(tidemill: Tidemill, spec: Any) -> None:
    """Registers *spec*, however long the worker takes to start."""
    while True:
        try:
            await tidemill.dags.register(spec)
            return
        except NoWorkerError:
            continue


async def until(look: Callable[[], Any], within: float = 120) -> None:
    deadline = time.monotonic() + within
    while True:
        with contextlib.suppress(NoWorkerError):  # a question that went to the worker that was killed
            found = look()
            if await found if asyncio.iscoroutine(found) else found:
                return
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


async def spark(address: str) -> list[Figure]:
    """All of it, with clusters and workers of its own."""
    from temporalio.client import Client
    from temporalio.worker import Worker
    from tidemill.model.spec.tasks import SparkOptions
    from tidemill.worker.plugin import TidemillPlugin

    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name)
        home = folder / "home"
        java = find_java()
        assert java is not None
        build_archive(home, java)
        cluster = running.enter_context(standalone_cluster(folder / "standalone", home / "cache"))
        connect, _ = running.enter_context(spark_connect(folder / "connect", home))
        place = WorkerContext(home=home, spark_connections={"connect": SparkOptions(master=connect)})
        client = await Client.connect(address, plugins=[TidemillPlugin(worker_context=place)])
        queue = f"bench-{uuid.uuid4().hex[:8]}"
        async with Worker(client, task_queue=queue):
            bench = SparkBench(Tidemill(client, queue), address, folder)
            bench.connect = connect
            return [
                *await bench.overhead(cluster),
                *await bench.quick_starts(),
                await bench.small_tasks(),
                *await bench.recovery(cluster),
            ]


async def tpch_at_scale_1(tidemill: Tidemill) -> list[Figure]:
    """The example at the scale of the published answers: it fails unless every answer is the published one."""
    [spec] = parse_dag_file(Path(next(iter(tpch.__path__))) / "tpch.py").dags
    with tempfile.TemporaryDirectory() as folder:
        await tidemill.dags.register(spec)
        start = time.perf_counter()
        request = TriggerRequest(run_id=uuid.uuid4().hex, conf={"lake": folder, "scale_factor": 1})
        run = await tidemill.runs.trigger("tpch", request)
        await tidemill.runs.wait(run)
        details = await tidemill.runs.describe("tpch", run.run_id)
        assert details.state is RunState.SUCCESS, [task.error for task in details.tasks]
        return [Figure("TPC-H at scale 1, six answers as published: total", "s", time.perf_counter() - start)]
