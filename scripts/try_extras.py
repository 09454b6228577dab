"""Installs the built wheel with each extra in an environment of its own, and imports what it is for: `make extras`."""

import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMPORTS = {
    "": "tidemill",
    "all": "pyspark, s3fs, gcsfs, fastapi",
    "api": "tidemill.api.app",
    "demo": "matplotlib, pyspark",
    "dev-server": "tidemill.worker.app.dev",
    "gcs": "gcsfs",
    "openlineage": "openlineage.client",
    "otel": "opentelemetry.sdk, tidemill.worker.app.otel",
    "plots": "matplotlib",
    "postgresql": "psycopg",
    "s3": "s3fs",
    "spark": "pyspark.sql.connect.session",
    "store": "tidemill.activities.secret_store",
    "airflow": "airflow.sdk",
}
"""By extra, what can be imported with it. Those that a checkout installs for its tests and pages are left out."""
FOR_US = ("docs", "test", "test-airflow")


def main() -> None:
    wheel = next((ROOT / "build" / "dist").glob("*.whl"), None)
    if wheel is None:
        sys.exit("there is no wheel: run `make dist`")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    unknown = {*extras} - {*IMPORTS} - {*FOR_US}
    if unknown:
        sys.exit(f"nobody says what {', '.join(sorted(unknown))} is for: add it to IMPORTS")
    wanted = sys.argv[1:] or [*IMPORTS]
    failed = [extra for extra in wanted if not works(wheel, extra)]
    if failed:
        sys.exit(f"not in order: {', '.join(failed)}")


def works(wheel: Path, extra: str) -> bool:
    """Whether the wheel can be installed with *extra*, its command runs, and what the extra is for is there."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        target = f"{wheel}[{extra}]" if extra else str(wheel)
        steps = [
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", target],
            [python, "-m", "pip", "check", "--disable-pip-version-check"],
            [python, "-c", f"import {IMPORTS[extra]}"],
            [str(Path(folder) / "bin" / "tidemill"), "--version"],
        ]
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True, check=False, cwd=folder)
            if done.returncode:
                print(f"{extra or 'no extra'}: {' '.join(step[1:])}\n{done.stdout}{done.stderr}")
                return False
    print(f"{extra or 'no extra'}: installed, checked, imported")
    return True


if __name__ == "__main__":
    main()
