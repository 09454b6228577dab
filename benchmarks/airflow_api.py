"""The same lists of Airflow's own API server, with the same numbers of DAGs and runs in its database (SQLite)."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
from figures import Figure
from page_times import page_times
from tidemill.activities.processes.supervised import start_supervised, stop
from tidemill.worker.app.dev import free_port

RUNS = 100_000
STARTUP_TIMEOUT = 120.0


def airflow_python() -> Path:
    """The interpreter of AIRFLOW_PYTHON. Ends the benchmark where there is none."""
    found = os.environ.get("AIRFLOW_PYTHON")
    if found is None:
        sys.exit("set AIRFLOW_PYTHON to an interpreter that has apache-airflow 3.3.2")
    return Path(found)


async def airflows(python: Path, place: Path, sizes: tuple[int, ...]) -> list[Figure]:
    """*python*: an interpreter that has apache-airflow-core 3.3.2."""
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(place / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    }
    port = free_port()
    argv = [str(python), "-m", "airflow"]
    await asyncio.to_thread(subprocess.run, [*argv, "db", "migrate"], env=environment, check=True, capture_output=True)
    filling = [str(python), str(Path(__file__).with_name("airflow_fill.py"))]
    figures: list[Figure] = []
    serving = [*argv, "api-server", "--port", str(port), "--host", "127.0.0.1"]
    (place / "airflow").mkdir(exist_ok=True)
    process = start_supervised(place / "airflow", serving, place / "airflow" / "server.log", environment)
    try:
        url = f"http://127.0.0.1:{port}"
        token = await _token(url)
        for n in sizes:
            fill = [*filling, str(n), str(RUNS)]
            await asyncio.to_thread(subprocess.run, fill, env=environment, check=True, capture_output=True)
            headers = {"Authorization": f"Bearer {token}"}
            paths = {"list of 50 DAGs": "/ui/dags?limit=50"}
            figures += await page_times(url, paths, f"{n:,} DAGs, Airflow's own server", headers)
        paths = {
            "runs of all DAGs": "/api/v2/dags/~/dagRuns?limit=50&order_by=-run_after",
            "runs of a DAG": "/api/v2/dags/b_real_00001/dagRuns?limit=50&order_by=-run_after",
        }
        figures += await page_times(url, paths, f"{RUNS:,} runs, Airflow's own server", headers)
    finally:
        await asyncio.to_thread(stop, process)
    return figures


async def _token(url: str) -> str:
    """A session, as soon as the server answers."""
    until = time.monotonic() + STARTUP_TIMEOUT
    async with httpx.AsyncClient(timeout=30) as client:
        while True:
            try:
                return str((await client.get(f"{url}/auth/token")).raise_for_status().json()["access_token"])
            except httpx.HTTPError:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.5)
