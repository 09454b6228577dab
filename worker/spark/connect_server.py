"""A warm Spark Connect server for one machine: small Spark tasks share it, and none waits for a JVM to start."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from ...activities import host
from ...activities.processes.supervised import start_supervised, stop
from ...activities.spark.archive import fast_start
from ...activities.spark.command import environment
from ...activities.worker_context import find_java
from ..app.dev import free_port
from ..spark_daemon import command

CONNECTION = "connect"
"""The conn_id by which tasks reach it."""
MEMORY = "1g"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"


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
    argv = command("connect", arguments(home, java, port, ui_port or free_port(), cores or max(1, round(host.cores()))))
    process = start_supervised(folder, argv, folder / "server.log", environment({"SPARK_LOCAL_IP": "127.0.0.1"}, java))
    try:
        yield f"sc://127.0.0.1:{port}"
    finally:
        await asyncio.to_thread(stop, process)


def arguments(home: Path, java: Path, port: int, ui_port: int, cores: int) -> list[str]:
    """The arguments of a server for this machine alone: as many cores as it has, started quickly where it can be."""
    options = fast_start(home, java, small=True)
    more = {"spark.sql.shuffle.partitions": str(cores), **({JAVA_OPTIONS: options} if options else {})}
    return server_arguments("127.0.0.1", port, ui_port, f"local[{cores}]", MEMORY, more)


def server_arguments(
    host: str,
    port: int,
    ui_port: int,
    master: str,
    memory: str,
    conf: Mapping[str, str],
) -> list[str]:
    """The arguments of spark-submit for a server that takes clients at *host*; *conf* goes before what is set here."""
    known = {
        "spark.connect.grpc.binding.address": host,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.port": str(ui_port),
        # One task's many small jobs do not hold up another's only one.
        "spark.scheduler.mode": "FAIR",
    }
    if master.startswith("local"):
        known |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    flags = [part for key, value in {**known, **conf}.items() for part in ("--conf", f"{key}={value}")]
    return ["--master", master, "--driver-memory", memory, "--name", "tidemill connect", *flags]
