"""A warm Spark Connect server for one machine: small Spark tasks share it, and none waits for a JVM to start."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ..activities.processes.supervised import start_supervised, stop
from ..activities.spark.archive import fast_start
from ..activities.spark.command import environment
from ..activities.worker_context import find_java
from .dev import free_port
from .spark_daemon import command

CONNECTION = "connect"
"""The conn_id by which tasks reach it."""
MEMORY = "1g"


@asynccontextmanager
async def connect_server(
    home: Path, *, port: int | None = None, ui_port: int | None = None, cores: int | None = None
) -> AsyncIterator[str]:
    """Runs a server as long as the block. Yields its URL at once; clients wait until it answers."""
    java = find_java()
    if java is None:
        raise FileNotFoundError("Spark needs Java 17 or later. Install it, or set JAVA_HOME")
    port = port or free_port()
    folder = home / "spark_connect"
    folder.mkdir(parents=True, exist_ok=True)
    argv = command("connect", arguments(home, java, port, ui_port or free_port(), cores or os.cpu_count() or 2))
    process = start_supervised(folder, argv, folder / "server.log", environment({"SPARK_LOCAL_IP": "127.0.0.1"}, java))
    try:
        yield f"sc://127.0.0.1:{port}"
    finally:
        await asyncio.to_thread(stop, process)


def arguments(home: Path, java: Path, port: int, ui_port: int, cores: int) -> list[str]:
    """The server's own arguments: loopback only, as many cores as the machine has, started quickly where it can be."""
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.port": str(ui_port),
        "spark.sql.shuffle.partitions": str(cores),
        # One task's many small jobs do not hold up another's only one.
        "spark.scheduler.mode": "FAIR",
    }
    if options := fast_start(home, java, small=True):
        conf["spark.driver.extraJavaOptions"] = options
    flags = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    return ["--master", f"local[{cores}]", "--driver-memory", MEMORY, "--name", "tidemill connect", *flags]
