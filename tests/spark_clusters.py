"""Real Spark clusters on loopback, of pip's pyspark: a standalone master with a worker, and a Connect server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tidemill.activities.spark.archive import fast_start
from tidemill.activities.spark.command import SPARK_HOME, environment
from tidemill.activities.supervision import stop
from tidemill.activities.workplace import find_java
from tidemill.worker.connect_server import arguments
from tidemill.worker.dev import free_port, start_supervised
from tidemill.worker.spark_daemon import CLASSES, command


@dataclass(frozen=True)
class Standalone:
    """A standalone cluster: where it is, and what its master's own lists say."""

    master: str
    rest_url: str
    ui: str
    java_options: str

    def listed(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{self.ui}/json/").json()
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
                "spark.sql.shuffle.partitions": 2,
                "spark.driver.host": "127.0.0.1",
                "spark.driver.extraJavaOptions": self.java_options,
                "spark.executor.extraJavaOptions": self.java_options,
            },
            **more,
        }


@contextmanager
def standalone_cluster(folder: Path, cache: Path) -> Iterator[Standalone]:
    """A master that takes drivers, and a worker with two cores; both end with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    java = find_java()
    assert java is not None
    port, rest, ui = free_port(), free_port(), free_port()
    options = [
        "-Dspark.master.rest.enabled=true",
        f"-Dspark.master.rest.port={rest}",
        "-Dspark.master.rest.host=127.0.0.1",
    ]
    env = {**environment({}, java), "SPARK_WORKER_DIR": str(folder / "work"), "SPARK_LOCAL_IP": "127.0.0.1"}
    quick = fast_start(cache.parent, java, small=True)
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    master = [spark_class, *options, CLASSES["master"], "--host", "127.0.0.1"]
    master += ["--port", str(port), "--webui-port", str(ui)]
    worker = [spark_class, CLASSES["worker"], "--host", "127.0.0.1", "--webui-port", str(free_port())]
    worker += ["--cores", "4", "--memory", "4g", f"spark://127.0.0.1:{port}"]
    started = []
    try:
        for name, argv in (("master", master), ("worker", worker)):
            (folder / name).mkdir(exist_ok=True)
            started.append(start_supervised(folder / name, argv, folder / f"{name}.log", env))
        made = Standalone(f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{rest}", f"http://127.0.0.1:{ui}", quick)
        wait_for(lambda: made.listed()["aliveworkers"] == 1, folder)
        yield made
    finally:
        for process in reversed(started):
            stop(process)


@contextmanager
def spark_connect(folder: Path, home: Path) -> Iterator[tuple[str, str]]:
    """A Connect server; its URL and that of its UI."""
    folder.mkdir(parents=True, exist_ok=True)
    java = find_java()
    assert java is not None
    port, ui = free_port(), free_port()
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
        except httpx.HTTPError:
            pass
        assert time.monotonic() < deadline, f"Spark did not start: see the logs in {folder}"
        time.sleep(0.2)
