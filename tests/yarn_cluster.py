"""A real YARN on loopback: a ResourceManager and a NodeManager, whose containers see nothing of a worker's disk.

Their jars come from Maven by `make clusters`.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import psutil
from tidemill.activities.processes.supervised import start_supervised, stop
from tidemill.activities.spark.command import spark_home
from tidemill.activities.worker_context import find_java
from tidemill.worker.app.dev import free_port

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "build" / "yarn"
YARN = "org.apache.hadoop.yarn.server"


def missing() -> str | None:
    """Why there can be no such cluster here."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "needs root and the right to mount"
    if not (PLACE / ".ready").exists():
        return "YARN's jars are not here: make clusters"
    return None


@dataclass
class YarnCluster:
    """Where it is, and what clients are to know."""

    url: str
    conf: Path
    """For HADOOP_CONF_DIR."""
    _resource_manager: subprocess.Popen[bytes] | None = None

    def start_resource_manager(self) -> None:
        """Start it, with what it has kept of an earlier one."""
        work = self.conf.parent / f"resource_manager-{uuid.uuid4().hex[:8]}"
        work.mkdir()
        argv = java_command(self.conf, "resourcemanager.ResourceManager")
        self._resource_manager = start_supervised(work, argv, self.conf.parent / "log", dict(os.environ))

    def kill_resource_manager(self) -> None:
        """End it as by SIGKILL. Containers go on."""
        if self._resource_manager is not None:
            for process in psutil.Process(self._resource_manager.pid).children(recursive=True):
                process.kill()
            stop(self._resource_manager)
            self._resource_manager = None

    def until_it_answers(self, *, nodes: int) -> None:
        """Wait until the ResourceManager has so many nodes."""
        deadline = time.monotonic() + 180
        while True:
            with contextlib.suppress(httpx.HTTPError, KeyError, ValueError):
                metrics = httpx.get(f"{self.url}/ws/v1/cluster/metrics").json()["clusterMetrics"]
                if metrics["activeNodes"] >= nodes:
                    return
            log = self.conf.parent / "log"
            assert time.monotonic() < deadline, f"YARN did not start:\n{log.read_text()[-3000:]}"
            time.sleep(0.2)

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
    conf = folder / "conf"
    conf.mkdir(parents=True)
    resource_manager = {f"yarn.resourcemanager.{name}": f"127.0.0.1:{free_port()}" for name in ADDRESSES}
    write(conf / "core-site.xml", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": folder / "tmp"})
    write(conf / "yarn-site.xml", {**resource_manager, **settings(folder, gathers_logs=gathers_logs)})
    write(conf / "capacity-scheduler.xml", QUEUES)
    cluster = YarnCluster(f"http://{resource_manager['yarn.resourcemanager.webapp.address']}", conf)
    with ExitStack() as stack:
        stack.callback(cluster.kill_resource_manager)
        cluster.start_resource_manager()
        (folder / "node").mkdir()
        node = start_supervised(folder / "node", node_manager(conf, hidden), folder / "log", dict(os.environ))
        stack.callback(stop, node)
        cluster.until_it_answers(nodes=1)
        yield cluster


ADDRESSES = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
QUEUES: dict[str, object] = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": 100,
    "yarn.scheduler.capacity.root.default.maximum-capacity": 100,
    "yarn.scheduler.capacity.root.default.state": "RUNNING",
    "yarn.scheduler.capacity.root.default.acl_submit_applications": "*",
    "yarn.scheduler.capacity.root.default.acl_administer_queue": "*",
    "yarn.scheduler.capacity.node-locality-delay": -1,
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",  # drivers may have all of it; by default a tenth
}


def settings(folder: Path, *, gathers_logs: bool) -> dict[str, object]:
    """What both processes, and clients, are to know of the cluster beside its addresses."""
    return {
        "yarn.resourcemanager.hostname": "127.0.0.1",
        "yarn.resourcemanager.recovery.enabled": "true",
        "yarn.resourcemanager.store.class": f"{YARN}.resourcemanager.recovery.FileSystemRMStateStore",
        "yarn.resourcemanager.fs.state-store.uri": (folder / "state").as_uri(),
        "yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms": 1000,
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": 100,
        "yarn.resourcemanager.connect.retry-interval.ms": 500,
        "yarn.scheduler.minimum-allocation-mb": 256,
        "yarn.nodemanager.hostname": "localhost",
        "yarn.nodemanager.webapp.address": "localhost:0",
        "yarn.nodemanager.localizer.address": "localhost:0",
        "yarn.nodemanager.local-dirs": folder / "local",
        "yarn.nodemanager.log-dirs": folder / "logs",
        "yarn.nodemanager.resource.memory-mb": 8192,
        "yarn.nodemanager.resource.cpu-vcores": 16,
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.enable": "false",  # a disk that is nearly full is no matter of the tests
        "yarn.nodemanager.delete.debug-delay-sec": 0 if gathers_logs else 600,
        "yarn.log-aggregation-enable": str(gathers_logs).lower(),
        "yarn.nodemanager.remote-app-log-dir": folder / "aggregated",
    }


def write(path: Path, content: Mapping[str, object]) -> None:
    """Write *content* as Hadoop has its settings."""
    configuration = ElementTree.Element("configuration")
    for name, value in content.items():
        made = ElementTree.SubElement(configuration, "property")
        ElementTree.SubElement(made, "name").text = name
        ElementTree.SubElement(made, "value").text = str(value)
    ElementTree.ElementTree(configuration).write(path)


def java_command(conf: Path, program: str) -> list[str]:
    """What runs one of YARN's programs."""
    java = find_java()
    assert java is not None
    classes = f"{conf}:{PLACE}/lib/*:{spark_home()}/jars/*"
    return [str(java), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classes, f"{YARN}.{program}"]


def node_manager(conf: Path, hidden: Sequence[Path]) -> list[str]:
    """What runs the NodeManager: in a mount namespace, which its containers share."""
    seen = ("build",)  # its own classes, and where `tidemill` is imported from, which the checkout's folders are not
    folders = [path for path in sorted(ROOT.iterdir()) if path.is_dir() and path.name[0] != "."]
    checkout = [path for path in folders if path.name not in seen]
    mounts = " && ".join(f"mount -t tmpfs none {shlex.quote(str(path))}" for path in [*hidden, *checkout])
    command = shlex.join(java_command(conf, "nodemanager.NodeManager"))
    return ["unshare", "--mount", "bash", "-c", f"{mounts} && cd {shlex.quote(str(conf.parent))} && exec {command}"]
