"""Write down what a real Airflow answers to the steps: `.venv-airflow/bin/python -P tests/api/side_by_side/record.py`.

Airflow's own processes, with a database and a folder of this program's, stopped at its end.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from socket import socket
from typing import Any

import httpx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
ROOT = HERE.parents[2]
DATA = ROOT / "tests" / "data" / "airflow"


def free_port() -> int:
    with socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def settings(home: Path, port: int) -> dict[str, str]:
    return {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "AIRFLOW__CORE__DAGS_FOLDER": str(HERE / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API_AUTH__JWT_SECRET": "for this record alone, and of the length that is asked for",
        "AIRFLOW__API__SECRET_KEY": "for this record alone",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
    }


def main() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = settings(home, port)
        airflow = [sys.executable, "-m", "airflow"]
        subprocess.run([*airflow, "db", "migrate"], env=environment, check=True, stdout=subprocess.DEVNULL)
        for part in (
            ["api-server", "--port", str(port), "--workers", "1"],
            ["dag-processor"],
            ["scheduler"],
            ["triggerer"],
        ):
            log = stack.enter_context((home / f"{part[0]}.log").open("w"))
            process = subprocess.Popen(
                [*airflow, *part], env=environment, stdout=log, stderr=log, start_new_session=True
            )
            stack.callback(process.wait)
            stack.callback(os.killpg, process.pid, signal.SIGTERM)
        record(url, home)


def record(url: str, home: Path) -> None:
    from side_by_side.steps import answers

    with httpx.Client(base_url=url, timeout=60) as client:
        while True:
            try:
                token = client.get("/auth/token").json()["access_token"]
                break
            except httpx.ConnectError:
                time.sleep(1)
        client.headers["Authorization"] = f"Bearer {token}"
        found = []
        for answer in answers(client):
            print(answer.method, answer.path, answer.status, flush=True)
            found.append({"method": answer.method, "path": answer.path, "status": answer.status, "body": answer.body})
    keep("api", found, home)
    clients = [str(ROOT / ".venv" / "bin" / "python"), str(HERE / "clients.py"), url, token]
    lines = subprocess.run(clients, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    keep("clients", [json.loads(line) for line in lines], home)


def keep(name: str, found: list[Any], home: Path) -> None:
    from side_by_side.comparing import FOLDER

    text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False)
    for place, shown in ((HERE / "dags", FOLDER), (home, "<home>")):  # nobody is to see where it was recorded
        text = text.replace(str(place), shown)
    (DATA / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
