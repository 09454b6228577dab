"""A real YARN on loopback: a ResourceManager and a NodeManager, whose containers see nothing of a worker's disk.

Their jars come from Maven and are compiled with a small program by `make clusters`.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tidemill.activities.processes.supervised import start_supervised, stop
from tidemill.activities.spark.command import spark_home
from tidemill.activities.worker_context import find_java

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "build" / "yarn"


def missing() -> str | None:
    """Why there can be no such cluster here."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "needs root and the right to mount"
    if not (PLACE / ".ready").exists():
        return "YARN's jars are not here: make clusters"
    return None


@dataclass(frozen=True)
class YarnCluster:
    """Where it is, and what clients are to know."""

    url: str
    conf: Path
    """For HADOOP_CONF_DIR."""

    def applications(self, name: str) -> list[dict[str, Any]]:
        """The applications of that name, ended or not."""
        found = httpx.get(f"{self.url}/ws/v1/cluster/apps").json()["apps"] or {}
        return [app for app in found.get("app", []) if app["name"].startswith(name)]

    def running(self, name: str) -> list[str]:
        """The ids of those that have not ended."""
        ended = ("FINISHED", "FAILED", "KILLED")
        return [app["id"] for app in self.applications(name) if app["state"] not in ended]

    def options(self, **more: Any) -> dict[str, Any]:
        """A task's options."""
        return {
            "master": "yarn",
            "deploy_mode": "cluster",
            "driver_memory": "512m",
            "executor_memory": "512m",
            "num_executors": 1,
            "conf": {
                "spark.yarn.jars": f"local:{spark_home()}/jars/*",  # else all of them are zipped and sent
                "spark.yarn.stagingDir": str(self.conf.parent / "staging"),
                "spark.yarn.appMasterEnv.PYSPARK_PYTHON": sys.executable,
                "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
                "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
                "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
                "spark.sql.shuffle.partitions": 2,
            },
            **more,
        }


@contextmanager
def yarn_cluster(folder: Path, hidden: Sequence[Path], *, gathers_logs: bool = False) -> Iterator[YarnCluster]:
    """A cluster that ends with the block; in its containers the folders *hidden* are empty, and most of this checkout.

    *gathers_logs*: it has logs moved away from the node when an application ends.
    """
    folder.mkdir(parents=True)
    java = find_java()
    assert java is not None
    seen = ("build",)  # its own classes, and where `tidemill` is imported from, which the checkout's folders are not
    folders = [path for path in sorted(ROOT.iterdir()) if path.is_dir() and path.name[0] != "."]
    checkout = [path for path in folders if path.name not in seen]
    mounts = " && ".join(f"mount -t tmpfs none '{path}'" for path in [*hidden, *checkout])
    classes = f"{PLACE}/classes:{PLACE}/lib/*:{spark_home()}/jars/*"
    begin = f"{mounts} && cd '{folder}' && exec '{java}' -Xmx512m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    begin += f"-Dtest.build.data='{folder}/data' -cp '{classes}' SmallYarn '{folder}' 8192 {str(gathers_logs).lower()}"
    argv = ["unshare", "--mount", "bash", "-c", f"tail -f /dev/null | ({begin})"]
    (folder / "process").mkdir()
    process = start_supervised(folder / "process", argv, folder / "log", dict(os.environ))
    try:
        deadline = time.monotonic() + 180
        while not (folder / "ready").exists():
            assert time.monotonic() < deadline, f"YARN did not start:\n{(folder / 'log').read_text()[-3000:]}"
            time.sleep(0.2)
        yield YarnCluster((folder / "ready").read_text(), folder / "conf")
    finally:
        stop(process)
