"""Real Spark clusters on loopback, of pip's pyspark: a standalone master with a worker, and a Connect server."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx
import pyarrow.parquet
import pytest
from psutil import Process
from support import dag
from tidemill.activities.processes.supervised import start_supervised, stop
from tidemill.activities.spark.archive import fast_start
from tidemill.activities.spark.command import environment
from tidemill.activities.worker_context import find_java
from tidemill.model.run.views import RunDetails
from tidemill.model.spec.dag import DagSpec
from tidemill.worker.app.dev import free_port
from tidemill.worker.spark.connect_server import arguments
from tidemill.worker.spark_daemon import command

APPS = Path(__file__).parent / "dags" / "spark_apps"
DAEMON = [sys.executable, "-P", "-m", "tidemill.worker.spark_daemon"]
ON_DAY = {"logical_date": "2024-03-04T00:00:00Z"}


@dataclass(frozen=True)
class Standalone:
    """A standalone cluster: where it is, and what its master's own lists say."""

    master: str
    rest_url: str
    ui: str
    java_options: str

    def listed(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{self.ui}/json/", timeout=60).json()
        return found

    def applications(self, name: str) -> list[dict[str, Any]]:
        """Every application, running or ended, whose name contains *name*."""
        listed = self.listed()
        return [app for app in [*listed["activeapps"], *listed["completedapps"]] if name in app["name"]]

    def drivers(self, *, active: bool) -> list[str]:
        return [driver["id"] for driver in self.listed()["activedrivers" if active else "completeddrivers"]]

    def options(self, **more: Any) -> dict[str, Any]:
        return {
            "master": self.master,
            "rest_url": self.rest_url,
            "driver_memory": "600m",
            "executor_memory": "600m",
            "total_executor_cores": 1,
            "conf": {
                "spark.master.ui.port": self.ui.rpartition(":")[2],
                "spark.sql.shuffle.partitions": 2,
                "spark.driver.host": "127.0.0.1",
                "spark.driver.extraJavaOptions": self.java_options,
                "spark.executor.extraJavaOptions": self.java_options,
            },
            **more,
        }


@contextmanager
def standalone_cluster(folder: Path, cache: Path) -> Iterator[Standalone]:
    """A master that takes drivers, and a worker with eight cores; both end with the block."""
    # One after the other: the worker takes whatever port is free, also one that the master is about to take.
    with standalone_master(folder, cache) as made, standalone_worker(folder / "worker", made):
        yield made


@contextmanager
def standalone_master(folder: Path, cache: Path) -> Iterator[Standalone]:
    """A master that takes drivers, and has no workers yet."""
    (folder / "master").mkdir(parents=True, exist_ok=True)
    java = find_java()
    assert java is not None
    port, rest, ui = free_port(), free_port(), free_port()
    options = f"-Dspark.master.rest.enabled=true -Dspark.master.rest.port={rest} -Dspark.master.rest.host=127.0.0.1"
    env = {**environment({}, java), "SPARK_MASTER_OPTS": options, "SPARK_LOCAL_IP": "127.0.0.1"}
    argv = [*DAEMON, "master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(ui)]
    quick = fast_start(cache.parent, java, small=True)
    made = Standalone(f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{rest}", f"http://127.0.0.1:{ui}", quick)
    process = start_supervised(folder / "master", argv, folder / "master.log", env)
    try:
        wait_for(lambda: made.listed()["aliveworkers"] == 0, folder)
        yield made
    finally:
        stop(process)


@contextmanager
def standalone_worker(folder: Path, cluster: Standalone) -> Iterator[Process]:
    """A worker more with eight cores: its JVM. All that it has started ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    env = {**environment({}, find_java()), "SPARK_WORKER_DIR": str(folder / "work"), "SPARK_LOCAL_IP": "127.0.0.1"}
    argv = [*DAEMON, "worker", "--host", "127.0.0.1", "--webui-port", str(free_port())]
    before = cluster.listed()["aliveworkers"]
    process = start_supervised(
        folder, [*argv, "--cores", "8", "--memory", "8g", cluster.master], folder.with_suffix(".log"), env
    )
    try:
        wait_for(lambda: cluster.listed()["aliveworkers"] > before, folder.parent)
        [jvm] = Process(process.pid).children()
        yield jvm
    finally:
        stop(process)


@contextmanager
def spark_connect(folder: Path, home: Path, port: int | None = None) -> Iterator[tuple[str, str]]:
    """A Connect server at *port* or a free one; its URL and that of its UI."""
    folder.mkdir(parents=True, exist_ok=True)
    java = find_java()
    assert java is not None
    port, ui = port or free_port(), free_port()
    argv = command("connect", arguments(home, java, port, ui, 2))
    process = start_supervised(folder, argv, folder / "server.log", environment({}, java))
    try:
        wait_for(lambda: httpx.get(f"http://127.0.0.1:{ui}/connect/").status_code == 200, folder)
        yield f"sc://127.0.0.1:{port}", f"http://127.0.0.1:{ui}"
    finally:
        stop(process)


def wait_for(look: Any, folder: Path, within: float = 90) -> None:
    deadline = time.monotonic() + within
    while True:
        try:
            if look():
                return
        except (httpx.HTTPError, ValueError):
            pass
        assert time.monotonic() < deadline, f"Spark did not start: see the logs in {folder}"
        time.sleep(0.2)


def options_for(request: pytest.FixtureRequest, mode: str) -> dict[str, Any]:
    if mode == "local":
        return {"master": "local[2]", "driver_memory": "1g", "conf": {"spark.sql.shuffle.partitions": 2}}
    if mode in ("kubernetes", "operator"):
        return cast(
            dict[str, Any],
            request.getfixturevalue(mode).options(request.getfixturevalue("spark_home").resolve()),
        )
    if mode == "yarn":
        return cast(dict[str, Any], request.getfixturevalue("yarn").options())
    if mode == "connect":
        return {"master": request.getfixturevalue("connect")[0]}
    cluster: Standalone = request.getfixturevalue("standalone")
    return cluster.options(deploy_mode=mode.removeprefix("standalone-"))


def writing(dag_id: str, spark: dict[str, Any], folder: Path, seconds: float = 0, **fields: Any) -> DagSpec:
    """A DAG of one application that writes 40 rows to a folder of the lake."""
    application = {
        "kind": "spark_submit",
        "task_id": "write",
        "application": str(APPS / "write.py"),
        "application_args": ["40", str(seconds), str(folder / "notes")],
        "output": str(folder / "lake" / "numbers" / "day={{ ds }}"),
        "spark": spark,
        **fields,
    }
    return dag(dag_id, [application])


def rows(folder: Path, day: str = "2024-03-04") -> int:
    return int(pyarrow.parquet.read_table(folder / "lake" / "numbers" / f"day={day}").num_rows)


def told(details: RunDetails) -> list[str | None]:
    return [task.error for task in details.tasks]
