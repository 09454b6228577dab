"""tidemill as a user starts it on one machine, over a folder of Airflow's DAG files."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from cryptography.fernet import Fernet
from support import worker_environment
from tidemill.worker.app.dev import free_port

DAGS = Path(__file__).with_name("dags")


@contextmanager
def tidemill_dev(folder: Path, airflow_python: Path) -> Iterator[httpx.Client]:
    """`tidemill dev` with a store of secrets; yields a client of its API. Ended with the block."""
    with tidemill_dev_over(DAGS, folder, airflow_python) as (client, _):
        yield client


@contextmanager
def tidemill_dev_over(
    dags: Path, folder: Path, airflow_python: Path, **more: str
) -> Iterator[tuple[httpx.Client, dict[str, str]]]:
    """The same over the folder *dags*, with *more* in its environment, which commands of it need: yielded, too."""
    port, api_port = free_port(), free_port()
    tidemill = str(Path(sys.executable).with_name("tidemill"))
    ports = ["--port", str(port), "--ui-port", str(free_port()), "--api-port", str(api_port)]
    # What other tests of this process have set would be variables and connections of this installation, too.
    known = worker_environment(f"127.0.0.1:{port}", folder / "home", "tidemill")
    environment = {
        **{name: value for name, value in known.items() if not name.startswith(("AIRFLOW_CONN_", "AIRFLOW_VAR_"))},
        "TIDEMILL_AIRFLOW_PYTHON": str(airflow_python),
        "TIDEMILL_RUN_IDS_FROM": "run_after",  # as the Airflow that was recorded
        "TIDEMILL_FERNET_KEY": Fernet.generate_key().decode(),
        "TIDEMILL_SECRETS_DATABASE": f"sqlite:///{folder / 'secrets.db'}",
        **more,
    }
    log = folder / "log"
    with log.open("w") as out:
        command = [tidemill, "dev", str(dags), "--no-spark", *ports]
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{api_port}", timeout=60) as client:
            _await_answer(client, process, log)
            yield client, environment
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def _await_answer(client: httpx.Client, process: subprocess.Popen[bytes], log: Path, within: float = 300) -> None:
    deadline = time.monotonic() + within
    while True:
        try:
            if client.get("/api/v2/version").status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.5)
