"""A storm over Spark: days are written in several modes at once, while workers, drivers, executors, the Connect server,
the Spark operator, YARN's ResourceManager and Temporal's server are killed. In the end each day is there once and
exactly, and nothing runs or is left.

Seeded and bounded. `make chaos-spark` runs the long form, in four modes; with `--modes` on Kubernetes and YARN, where
`make clusters` has built them. A short one is part of the tests.
"""

import argparse
import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psutil
import pyarrow.compute
import pyarrow.parquet

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]  # also when run as a program
from kubernetes_cluster import KubernetesCluster, SparkOperator, kubernetes_cluster, spark_operator
from spark_clusters import APPS, Standalone, standalone_cluster
from storm import QUEUE, World, again, connect, settle
from storm import Plan as Storm
from support import dag, processes_with
from tidemill.activities.processes.supervised import start_supervised, stop
from tidemill.activities.spark.archive import build_archive
from tidemill.activities.spark.staging import STAGING
from tidemill.activities.worker_context import find_java
from tidemill.model.states import RunState
from tidemill.worker.app.dev import free_port
from tidemill.worker.client import Tidemill
from yarn_cluster import YarnCluster, yarn_cluster

FIRST = date(2024, 3, 1)
ROWS = 100
MODES = ("local", "standalone-client", "standalone-cluster", "connect")
ON_CLUSTERS = ("kubernetes", "spark-operator", "yarn")
FOLLOWED = ("standalone-cluster", *ON_CLUSTERS)
"""The modes whose drivers go on without their worker: each attempt has one."""
ALONE = ("local", "connect")
"""The modes whose executors end with their driver, and not a moment later."""
SHARES = {"worker": 6, "executor": 5, "driver": 4, "connect": 3, "operator": 2, "server": 1, "resource-manager": 1}
"""How often each kind of process is killed, beside the others."""
DRIVERS = ("SparkSubmit", "DriverWrapper", "ApplicationMaster")
"""What a driver's process runs, or who asks for one."""
WORKERS = 2
RETRIES = 50
"""Who kills a driver spends a try of its task: there has to be one left."""


@dataclass
class Plan:
    """How hard it blows."""

    kills: int = 300
    days: int = 40
    seed: int = 1
    pause: float = 3.0
    modes: tuple[str, ...] = MODES
    settle_within: float = 1800


@dataclass
class Result:
    """What came of it."""

    violations: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    applications: int = 0
    tries: int = 0


class SparkWorld(World):
    """Beside Temporal and the workers, a standalone cluster and a Connect server that is looked after."""

    def __init__(self, folder: Path, plan: Plan, cluster: Standalone) -> None:
        super().__init__(folder, free_port(), Storm(suggest_continue_as_new=2_000))
        self.cluster, self.plan_of_spark = cluster, plan
        self.connect_port = free_port()
        self.home = folder / "home"
        self.connect_service: subprocess.Popen[bytes] | None = None
        self.kubernetes: KubernetesCluster | None = None
        self.operator: SparkOperator | None = None
        self.yarn: YarnCluster | None = None
        self.variables: dict[str, str] = {}
        """Where workers find the clusters."""

    def start_clusters(self, stack: ExitStack) -> None:
        """Start what the modes of the plan need, beside the standalone cluster; it ends with *stack*."""
        modes = {*self.plan_of_spark.modes}
        if modes & {"kubernetes", "spark-operator"}:
            self.kubernetes = stack.enter_context(kubernetes_cluster(self.folder / "kubernetes"))
            self.variables["KUBECONFIG"] = str(self.kubernetes.kubeconfig)
        if "spark-operator" in modes and self.kubernetes is not None:
            self.operator = stack.enter_context(spark_operator(self.kubernetes))
        if "yarn" in modes:
            self.yarn = stack.enter_context(yarn_cluster(self.folder / "yarn", [self.home]))
            self.variables["HADOOP_CONF_DIR"] = str(self.yarn.conf)

    def start_worker(self) -> None:
        env = {
            **os.environ,
            **self.variables,
            "TEMPORAL_ADDRESS": self.address,
            "TIDEMILL_HOME": str(self.home),
            "TIDEMILL_TASK_QUEUE": QUEUE,
            "TIDEMILL_MAX_CONCURRENT_SPARK": "4",
            "TIDEMILL_DRAIN_SECONDS": "0",
        }
        command = [str(Path(sys.executable).with_name("tidemill")), "worker"]
        with (self.folder / "workers.log").open("ab") as log:
            self.workers.append(subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT))

    def replace_the_dead(self) -> None:
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        while len(self.workers) < WORKERS:
            self.start_worker()
        # The command gives up on a server that was killed three times before it answered: whoever runs it does not.
        if self.connect_service is not None and self.connect_service.poll() is not None:
            stop(self.connect_service)
            self.connect_service = None
        if self.connect_service is None and "connect" in self.plan_of_spark.modes:
            self.start_connect()

    def start_connect(self) -> None:
        """Starts a Connect server as users run it: one that is killed is started again."""
        folder = self.folder / "connect"
        folder.mkdir(exist_ok=True)
        argv = [str(Path(sys.executable).with_name("tidemill")), "connect", "--port", str(self.connect_port)]
        argv += ["--memory", "1g", "--master", "local[2]", "--home", str(self.home)]
        self.connect_service = start_supervised(folder, argv, folder / "service.log", dict(os.environ))

    def end(self) -> None:
        super().end()
        if self.connect_service is not None:
            stop(self.connect_service)

    def options(self, mode: str) -> dict[str, Any]:
        if mode == "local":
            return {"master": "local[1]", "driver_memory": "600m", "conf": {"spark.sql.shuffle.partitions": 1}}
        if mode == "connect":
            return {"master": f"sc://127.0.0.1:{self.connect_port}"}
        if mode == "kubernetes" and self.kubernetes is not None:
            return self.kubernetes.options(self.home)
        if mode == "spark-operator" and self.operator is not None:
            return self.operator.options(self.home)
        if mode == "yarn" and self.yarn is not None:
            return self.yarn.options()
        return self.cluster.options(deploy_mode=mode.removeprefix("standalone-"))

    def kill(self, kind: str, chance: random.Random) -> None:
        """Kills a process of that kind, if there is one."""
        if kind == "server":
            self.kill_server()
            self.start_server()
            return
        if kind == "operator":
            if self.operator is not None:
                self.operator.stop()
                self.operator.start()
                self.kills[kind] += 1
            return
        if kind == "resource-manager":
            if self.yarn is not None:
                self.yarn.kill_resource_manager()
                self.yarn.start_resource_manager()
                self.kills[kind] += 1
            return
        if kind == "worker":
            victims: list[Any] = [*self.workers]
        else:
            victims = self._java(kind)
        if victims:
            victim = chance.choice(victims)
            with suppress(psutil.NoSuchProcess):
                victim.send_signal(signal.SIGKILL)
                victim.wait(30)
                self.kills[kind] += 1

    def _java(self, kind: str) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                command = " ".join(process.cmdline())
                mine = any(
                    mark in command for mark in (str(self.folder), self.cluster.master, f".port={self.connect_port}")
                )
                if process.name() == "java" and mine and _kind_of(command) == kind:
                    found.append(process)
        return found


def _kind_of(command: str) -> str | None:
    if "ExecutorBackend" in command:
        return "executor"
    if "SparkConnectServer" in command:
        return "connect"
    return "driver" if any(name in command for name in DRIVERS) else None


async def register(tidemill: Tidemill, world: SparkWorld, plan: Plan) -> None:
    """One DAG for each mode, which catches up on all days."""
    end = FIRST + timedelta(days=plan.days - 1)
    for mode in plan.modes:
        lake, notes = world.folder / "lake" / mode, world.folder / "notes" / mode
        notes.mkdir(parents=True)
        task = {
            "kind": "spark_submit",
            "task_id": "write",
            "application": str(APPS / "write_day.py"),
            "application_args": ["{{ ds }}", str(ROWS), str(notes)],
            "output": f"{lake}/day={{{{ ds }}}}",
            "spark": world.options(mode),
            "retries": RETRIES,
            "retry_delay": 1,
        }
        spec = dag(
            mode, [task], schedule="@daily", start_date=f"{FIRST}T00:00:00Z", end_date=f"{end}T00:00:00Z",
            catchup=True, max_active_runs=2, heartbeat_timeout=20,
        )  # fmt: skip
        await again(lambda spec=spec: tidemill.dags.register(spec))


async def blow(world: SparkWorld, plan: Plan) -> None:
    """Kills one after the other, as long as there is work."""
    chance = random.Random(plan.seed)
    kinds = [kind for kind, share in SHARES.items() for _ in range(share)]
    while sum(world.kills.values()) < plan.kills:
        await asyncio.sleep(plan.pause * (0.3 + chance.random()))
        await asyncio.to_thread(world.kill, chance.choice(kinds), chance)
        world.replace_the_dead()
        last = f"day={FIRST + timedelta(days=plan.days - 1)}"
        if all((world.folder / "lake" / mode / last).exists() for mode in plan.modes):
            return


async def judged(world: SparkWorld, tidemill: Tidemill, plan: Plan, result: Result) -> None:
    """Compares what is there with what has to be."""
    days = [str(FIRST + timedelta(days=n)) for n in range(plan.days)]
    for mode in plan.modes:
        runs = await again(lambda mode=mode: tidemill.runs.list(mode))
        states = Counter(run.state for run in runs)
        if states != {RunState.SUCCESS: plan.days}:
            result.violations.append(f"{mode}: the runs are {dict(states)}")
        for run in runs:
            details = await again(lambda mode=mode, run=run: tidemill.runs.describe(mode, run.run_id))
            result.tries += details.tasks[0].try_number
        for day in days:
            result.violations += wrong_rows(world.folder / "lake" / mode, day)
            noted = (world.folder / "notes" / mode / day).read_text().split("\n")[:-1]
            result.applications += sum(line.startswith("begun") for line in noted)
            twice = [line for line, times in Counter(noted).items() if times > 1]
            if mode in FOLLOWED and twice:
                result.violations.append(f"{mode}, {day}: an attempt had two drivers: {twice}")
        left = [path.name for path in (world.folder / "lake" / mode).glob(f"{STAGING}/*")]
        if mode in ALONE and left:
            result.violations.append(f"{mode}: output of tries is left: {left}")


def wrong_rows(lake: Path, day: str) -> list[str]:
    """What is wrong with the rows of *day*."""
    try:
        found = pyarrow.parquet.read_table(lake / f"day={day}", partitioning=None)
    except (OSError, pyarrow.ArrowInvalid) as error:
        return [f"{lake.name}, {day}: there are no rows: {error}"]
    number = int(re.sub(r".*-0?", "", day))
    have = (found.num_rows, pyarrow.compute.sum(found["id"]).as_py(), pyarrow.compute.sum(found["amount"]).as_py())
    total = ROWS * (ROWS - 1) // 2
    wanted = (ROWS, total, total * number)
    return [] if have == wanted else [f"{lake.name}, {day}: rows, ids and amounts are {have} and not {wanted}"]


async def nothing_is_left(world: SparkWorld, within: float) -> list[str]:
    """What still runs that belongs to an attempt."""
    deadline = time.monotonic() + within
    while True:
        left = [str(process) for process in processes_with(str(world.home / "attempts"))]
        left += world.cluster.drivers(active=True)
        left += [app["id"] for app in world.cluster.applications("") if app["state"] == "RUNNING"]
        if world.kubernetes is not None:
            left += [pod for mode in ON_CLUSTERS for pod in world.kubernetes.running(mode)]
        left += world.yarn.running("") if world.yarn is not None else []
        if not left:
            return []
        if time.monotonic() > deadline:
            return [f"still there: {left}"]
        await asyncio.sleep(1)


async def spark_storm(plan: Plan, folder: Path) -> Result:
    """Runs a storm in *folder* and judges it."""
    result, home = Result(), folder / "home"
    (home / "cache").mkdir(parents=True)
    java = find_java()
    assert java is not None
    build_archive(home, java)
    with ExitStack() as stack:
        cluster = stack.enter_context(standalone_cluster(folder / "standalone", home / "cache"))
        world = SparkWorld(folder, plan, cluster)
        stack.callback(world.end)
        world.start_clusters(stack)
        world.start_server()
        world.replace_the_dead()
        tidemill = await connect(world)
        await register(tidemill, world, plan)
        await blow(world, plan)
        world.replace_the_dead()
        if world.yarn is not None:
            await asyncio.to_thread(world.yarn.until_it_answers, nodes=1)
        await settle(tidemill, plan.modes, plan.settle_within)
        await judged(world, tidemill, plan, result)
        result.violations += await nothing_is_left(world, 60)
        result.kills = world.kills
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    defaults = Plan()
    for name in ("kills", "days", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(defaults, name))
    parser.add_argument("--modes", nargs="+", choices=(*MODES, *ON_CLUSTERS), default=list(MODES))
    given = parser.parse_args()
    plan = Plan(kills=given.kills, days=given.days, seed=given.seed, modes=tuple(given.modes))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="spark-storm-") as folder:
        result = asyncio.run(spark_storm(plan, Path(folder)))
    kills = ", ".join(f"{count} {kind}" for kind, count in result.kills.most_common())
    print(f"{sum(result.kills.values())} kills ({kills}) in {time.monotonic() - began:.0f} s")
    print(f"{len(plan.modes) * plan.days} days, {result.tries} tries, {result.applications} applications begun")
    for violation in result.violations:
        print("VIOLATION", violation)
    print(f"violations: {len(result.violations)}")
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
