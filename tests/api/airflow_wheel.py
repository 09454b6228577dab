"""The wheel whose user interface and whose API definitions tests are held against: fetched once, never committed."""

import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tidemill.api.static_ui import VERSION, WHEEL

CACHE = Path(__file__).parents[2] / "build" / "airflow"
OPENAPI = "airflow/api_fastapi/core_api/openapi/"


@cache
def airflow_wheel() -> Path:
    """The wheel; skips the test, with the reason, where there is no package index."""
    place = CACHE / WHEEL
    if not place.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(CACHE)]
        done = subprocess.run(
            [*command, f"apache-airflow-core=={VERSION}"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"{WHEEL} cannot be fetched: {done.stderr.strip()[-200:]}")
    return place


@cache
def definitions() -> tuple[dict[str, Any], dict[str, Any]]:
    """Airflow's two OpenAPI definitions: of its public API, and of its user interface's own."""
    with zipfile.ZipFile(airflow_wheel()) as wheel:
        texts = [wheel.read(OPENAPI + name) for name in ("v2-rest-api-generated.yaml", "_private_ui.yaml")]
    public, private = (yaml.load(text, Loader=yaml.CSafeLoader) for text in texts)
    return public, private
