"""docker-compose.yml, as far as it can be checked without containers. Its topology runs in tests/spark."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from tidemill.worker.app.process import plugin_for
from tidemill.worker.settings.reading import Settings

ROOT = Path(__file__).parents[2]


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
    connections = json.loads(worker["TIDEMILL_SPARK_CONNECTIONS"])
    for options in connections.values():
        assert options["master"].split("://")[1].split(":")[0] in services
    assert worker["TIDEMILL_SPARK_MASTER"].startswith("spark://spark-master:")
    assert os.path.normpath(services["tidemill-worker"]["volumes"][0].split(":")[0]) == "dags"


def test_settings_reach_spark_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    for name, value in compose["services"]["tidemill-worker"]["environment"].items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("TIDEMILL_SPARK_MEMORY_MB", "4096")
    place = plugin_for(Settings()).place
    assert place.spark_connections["cluster"].mode == "standalone-cluster"
    assert place.spark_connections["connect"].mode == "connect"
    assert place.driver_room.megabytes == 4096
    assert place.max_drivers == 2
