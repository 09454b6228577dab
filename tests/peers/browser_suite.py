"""Airflow's end-to-end tests of its user interface, as they come, against `tidemill dev` over Airflow's examples."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from run_examples import example_files
from side_by_side.installation import tidemill_dev_over
from sources import install_playwright, source_of_airflow
from tidemill.api.auth.tokens import Role, create_token

CONFIGURATION = Path(__file__).with_name("playwright")
SOME_DAG = "example_bash_operator"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LONGEST = 5_400
"""Seconds that all of them may take."""
FIRST = ("task-instances", "xcoms")
"""Specs that take it that nobody has unpaused the DAGs, or left results, before them."""


@contextmanager
def served_examples(folder: Path, airflow_python: Path) -> Iterator[tuple[str, str]]:
    """An installation over the example DAGs, paused as Airflow's are. Yields its address, and an admin's token."""
    dags = folder / "dags"
    for place in {path.parent for path in example_files()}:
        shutil.copytree(place, dags / place.parent.name, ignore=shutil.ignore_patterns("__pycache__"))
    tokens = folder / "api_tokens.json"
    token = create_token(tokens, "admin", Role.ADMIN, ())
    settings = {
        "TIDEMILL_API_TOKENS": str(tokens),
        "TIDEMILL_DAGS_ARE_PAUSED_AT_CREATION": "true",
        "TIDEMILL_INSTANCE_NAME": "",
    }
    with tidemill_dev_over(dags, folder, airflow_python, **settings) as (client, environment):
        client.headers["Authorization"] = f"Bearer {token}"
        _await_dag(client, SOME_DAG)
        # Airflow's own installation is set up by commands, which leave events.
        subprocess.run(
            [str(Path(sys.executable).with_name("tidemill")), "dags", "pause", SOME_DAG],
            env=environment,
            check=True,
            timeout=60,
        )
        yield str(client.base_url).rstrip("/"), token


def _await_dag(client: httpx.Client, dag_id: str) -> None:
    until = time.monotonic() + 300
    while client.get(f"/api/v2/dags/{dag_id}").status_code != 200:
        assert time.monotonic() < until, f"{dag_id} is not there"
        time.sleep(1)


def run_browser_suite(
    url: str, token: str, results: Path, specs: Sequence[str] = (), *, but: Sequence[str] = ()
) -> dict[str, str]:
    """Run the *specs*, by default all of them, but for those of *but*. Return how each test has ended.

    That is passed, failed or skipped. Tests are named by their file and title: `pools.spec.ts › create a pool`.
    """
    place = source_of_airflow() / "src" / "airflow" / "ui"
    install_playwright(place)
    for file in CONFIGURATION.glob("*.ts"):
        shutil.copy(file, place)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "CI"},
        "AIRFLOW_UI_BASE_URL": url,
        "PEERS_TOKEN": token,
        "PEERS_CHROMIUM": str(CHROMIUM),
        "PEERS_RESULTS": str(results),
    }
    command = [str(place / "node_modules" / ".bin" / "playwright"), "test", "--config", "tidemill.config.ts", *specs]
    if but:
        command += ["--grep-invert", "|".join(f"{name}.spec" for name in but)]
    subprocess.run(command, cwd=place, env=environment, check=False, timeout=LONGEST)
    return dict(_ended(json.loads(results.read_text())))


def _ended(report: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for suite in report.get("suites", ()):
        for spec in _specs(suite):
            status = spec["tests"][0]["status"]
            yield (
                f"{suite['file']} › {spec['title']}",
                "passed" if spec["ok"] and status != "skipped" else ("skipped" if status == "skipped" else "failed"),
            )


def _specs(suite: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from suite.get("specs", ())
    for below in suite.get("suites", ()):
        yield from _specs(below)
