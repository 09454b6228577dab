"""Where the tests of Airflow's people come from: fetched, run, and never committed."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from tidemill.api.static_ui import VERSION

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "build" / "peers"
PLAYWRIGHT = ("@playwright/test@1.62.0", "dayjs@1.11.19")


def source_of_airflow() -> Path:
    """Return the source distribution of the pinned release of `apache-airflow-core`, unpacked: fetched once.

    Skips the test where there is no package index.
    """
    place = PLACE / f"apache_airflow_core-{VERSION}"
    if not place.is_dir():
        PLACE.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(PLACE)]
        done = subprocess.run(
            [*command, f"apache-airflow-core=={VERSION}"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"Airflow's sources are not here: {done.stderr.strip()[-200:]}")
        with tarfile.open(PLACE / f"{place.name}.tar.gz") as packed:
            packed.extractall(PLACE, filter="data")
    return place


def install_playwright(place: Path) -> None:
    """Install Playwright's test runner beside the tests in *place*, once. Skips where npm or its registry is not."""
    if (place / "node_modules" / "@playwright" / "test").is_dir():
        return
    try:
        done = subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--no-save", "--no-package-lock", "--ignore-scripts",
             "--prefix", str(PLACE / "npm"), *PLAYWRIGHT],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("npm is not installed")
    if done.returncode != 0:
        pytest.skip(f"Playwright is not here: {done.stderr.strip()[-200:]}")
    (place / "node_modules").unlink(missing_ok=True)
    (place / "node_modules").symlink_to(PLACE / "npm" / "node_modules")
