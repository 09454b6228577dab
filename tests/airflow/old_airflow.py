"""A real Airflow that has run for a while: metadata database, scheduler, API server."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
from airflow_stack import PYTHON
from tidemill.worker.app.dev import free_port

DAGS = """
from datetime import datetime, timedelta, timezone

from airflow.sdk import DAG, task

start = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0) - timedelta(hours=5)
for dag_id, schedule, catchup in (
    ("moving_caught_up", "0 * * * *", True),
    ("moving_latest", timedelta(hours=1), False),
    ("moving_manual", None, False),
    ("moving_paused", "@daily", False),
):
    paused = dag_id == "moving_paused"
    with DAG(
        dag_id, schedule=schedule, start_date=start, catchup=catchup, max_active_runs=2, is_paused_upon_creation=paused
    ) as dag:

        @task
        def one(): ...

        one()
    globals()[dag_id] = dag
"""
KNOWN = """
from airflow.models import Connection, Pool, Variable
from airflow.utils.session import create_session

with create_session() as session:
    session.add(Variable("plain", "value"))
    session.add(Variable("api_key", "told to nobody"))
    session.add(
        Connection("store", conn_type="http", host="store.example", password="open-sesame", extra='{"timeout": 3}')
    )
    session.add(Pool(pool="few", slots=3, description="of them", include_deferred=True))
"""
COMMAND_TIME = 120
"""Seconds after which a command is taken to hang: it takes some ten on an idle machine."""
KEY = "wZ0ZhA6lZ3hXqgYwG3Y0l1zjGxw8J7Qk1n2m3o4p5q4="


class OldAirflow:
    """An Airflow below a folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.dags = home / "dags"
        self.environment = {
            **os.environ,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__FERNET_KEY": KEY,
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__API__WORKERS": "1",
        }

    @property
    def database(self) -> str:
        return f"sqlite:///{self.home}/airflow.db"

    def run(self, *arguments: str) -> None:
        """A command that can be given again. Its end is waited for within bounds: a scheduler's LocalExecutor
        sometimes waits for ever for a worker process that waits for it."""
        for _ in range(3):
            with suppress(subprocess.TimeoutExpired):
                return self._run_once(*arguments)
        raise AssertionError(f"airflow {' '.join(arguments)} did not end, three times")

    def _run_once(self, *arguments: str) -> None:
        command = [str(PYTHON), "-m", "airflow", *arguments]
        log = self.home / "command.log"
        with log.open("w") as said:
            process = subprocess.Popen(
                command, env=self.environment, cwd=self.home, stdout=said, stderr=said, start_new_session=True
            )
            try:
                status = process.wait(COMMAND_TIME)
            finally:
                # Also what it has left behind: its server of logs, and executor's workers.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        assert status == 0, log.read_text()[-5000:]

    def live(self) -> None:
        """Reads its DAG files, and makes the runs that are due as far as max_active_runs lets it."""
        self.dags.mkdir(parents=True)
        (self.dags / "moving.py").write_text(DAGS)
        self.run("db", "migrate")
        subprocess.run([str(PYTHON), "-c", KNOWN], env=self.environment, check=True, capture_output=True)
        self.run("dag-processor", "--num-runs", "1")
        self.run("scheduler", "--num-runs", "2")

    @contextmanager
    def api(self) -> Iterator[tuple[str, str]]:
        """Its API server's URL, and a token."""
        port = free_port()
        command = [str(PYTHON), "-m", "airflow", "api-server", "--host", "127.0.0.1", "--port", str(port)]
        with (self.home / "api.log").open("w") as log:
            process = subprocess.Popen(
                command, env=self.environment, cwd=self.home, stdout=log, stderr=log, start_new_session=True
            )
        url = f"http://127.0.0.1:{port}"
        try:
            yield url, self._token(url, process)
        finally:
            os.killpg(process.pid, 15)
            process.wait(30)

    def _token(self, url: str, process: subprocess.Popen[bytes]) -> str:
        deadline = time.monotonic() + 120
        while True:
            try:
                answer = httpx.get(f"{url}/auth/token", timeout=5)
                if answer.is_success:
                    return str(answer.json()["access_token"])
            except httpx.HTTPError:
                pass
            log = (self.home / "api.log").read_text()[-3000:]
            assert process.poll() is None, log
            assert time.monotonic() < deadline, log
            time.sleep(0.5)
