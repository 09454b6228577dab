"""The topology of docker-compose.yml without containers: a server, several workers, a Spark cluster."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from support import dag, eventually, processes_with, stack, temporal_server, worker_environment, worker_process
from tidemill.activities.supervision import stop
from tidemill.model.states import RunState
from tidemill.worker.dev import free_port, start_supervised

ROOT = Path(__file__).parents[2]
APP = ROOT / "tests" / "dags" / "spark_apps" / "count.py"


@contextmanager
def spark_cluster(folder: Path) -> Iterator[tuple[str, int]]:
    """A standalone master and a worker on loopback. Yields the master's URL and its UI's port."""
    port, ui_port = free_port(), free_port()
    loopback = ["--host", "127.0.0.1"]
    url = f"spark://127.0.0.1:{port}"
    master = ["master", *loopback, "--port", str(port), "--webui-port", str(ui_port)]
    worker = ["worker", *loopback, "--webui-port", "0", "--cores", "2", "--memory", "2g"]
    with ExitStack() as started:
        for name, command in (("master", master), ("worker", [*worker, url])):
            place = folder / name
            place.mkdir(parents=True)
            launch = [sys.executable, "-P", "-m", "tidemill.worker.spark_daemon", *command]
            process = start_supervised(place, launch, place / "log")
            started.callback(stop, process)
        yield url, ui_port


def page(ui_port: int) -> str:
    with urlopen(f"http://127.0.0.1:{ui_port}/json/") as answer:
        return str(answer.read().decode())


@pytest.mark.spark
async def test_workers_of_one_queue_share_a_spark_cluster(spark_home: Path, tmp_path: Path) -> None:
    """Two workers and a cluster; one worker is killed while its application runs, the other takes over."""
    conf = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.cores.max": 1}

    def application(task_id: str, how: str, n: int, **fields: Any) -> dict[str, Any]:
        return {"kind": "spark_submit", "task_id": task_id, "application": str(APP), "application_args": [how, str(n)],
                "spark": {"conf": conf, "driver_memory": "1g", "executor_memory": "512m"}, **fields}  # fmt: skip

    spec = dag("cluster", [application("one", "slow", 6), application("two", "plain", 50, upstream=["one"])])
    with temporal_server(tmp_path / "temporal") as address, spark_cluster(tmp_path / "spark") as (master, ui_port):
        await eventually(lambda: asyncio.to_thread(reachable, ui_port), lambda told: '"state" : "ALIVE"' in told)
        async with stack(address, spark_home, no_remote_activities=True) as made:
            env = {**worker_environment(address, spark_home, made.task_queue), "TIDEMILL_SPARK_MASTER": master}
            with worker_process(env) as first:
                await made.tidemill.register(spec)
                run = await made.tidemill.trigger("cluster")
                mark = str(spark_home / "attempts")
                await eventually(
                    lambda: made.tidemill.run("cluster", run.run_id),
                    lambda found: (found.tasks[0].progress or {}).get("tasks_done", 0) >= 1,
                    within=200,
                )
                with worker_process(env):
                    first.kill()
                    first.wait()
                    await eventually(
                        lambda: asyncio.to_thread(processes_with, mark), lambda found: not found, within=30
                    )
                    details = await made.finished("cluster", run.run_id)
        assert details.state is RunState.SUCCESS, [task.error for task in details.tasks]
        assert [task.try_number for task in details.tasks] == [1, 1]
        applications = await asyncio.to_thread(page, ui_port)
        assert applications.count("cluster.two") == 1


def reachable(ui_port: int) -> str:
    try:
        return page(ui_port)
    except OSError:
        return ""


def test_the_compose_file_is_what_a_compose_client_accepts() -> None:
    client = [["docker", "compose"], ["docker-compose"]]
    usable = next((c for c in client if shutil.which(c[0]) and _answers([*c, "version"])), None)
    if usable is None:
        pytest.skip("no compose client is installed; the structure is checked by the next test")
    done = subprocess.run([*usable, "-f", str(ROOT / "docker-compose.yml"), "config"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _answers(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


def test_the_compose_file_wires_everything_to_something_that_is_there() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    services = compose["services"]
    assert {"temporal", "postgresql", "temporal-ui", "spark-master", "spark-worker", "tidemill-worker"} <= set(services)
    for name, service in services.items():
        assert set(service.get("depends_on", {})) <= set(services), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in compose.get("volumes", {}) or source.startswith("."), f"{name}: {volume}"
        if "build" in service:
            assert (ROOT / "Dockerfile").is_file()
    worker = services["tidemill-worker"]["environment"]
    assert worker["TEMPORAL_ADDRESS"] == "temporal:7233"
    assert worker["TIDEMILL_SPARK_MASTER"].startswith("spark://spark-master:")
    assert os.path.normpath(services["tidemill-worker"]["volumes"][0].split(":")[0]) == "dags"
