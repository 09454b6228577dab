"""Whether everything that a user may import is typed completely, by pyright's verifier: `make types`.

The public face is what `from tidemill import ...` gives, with all its members, and the modules of `MODULES`.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MODULES = ("tidemill.worker.client", "tidemill.worker.plugin")
PYRIGHT = "pyright[nodejs]==1.1.414"


def public_face() -> set[str]:
    """The full names of what is public, as pyright calls them: by the modules that define them."""
    stub = ast.parse((ROOT / "tidemill" / "__init__.pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {*MODULES, *(f"tidemill.{node.module}.{alias.name}" for node in imports for alias in node.names)}


def verified() -> list[dict[str, Any]]:
    """Every symbol of the package, as the verifier tells of it."""
    wheel = next((ROOT / "build" / "dist").glob("*.whl"), None)
    if wheel is None:
        sys.exit("there is no wheel: run `make dist`")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, f"{wheel}[spark,api]", PYRIGHT], check=True)
        verify = ["-m", "pyright", "--verifytypes", "tidemill", "--ignoreexternal", "--outputjson"]
        env = {
            **os.environ,
            "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",
        }  # by it, pyright finds Python
        told = subprocess.run([python, *verify], env=env, capture_output=True, text=True, check=False)
    symbols: list[dict[str, Any]] = json.loads(told.stdout)["typeCompleteness"]["symbols"]
    return symbols


def is_part_of(name: str, face: set[str]) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:n]) in face for n in range(len(parts) + 1))


def main() -> None:
    face = public_face()
    symbols = [symbol for symbol in verified() if is_part_of(symbol["name"], face)]
    if len(symbols) < len(face):
        sys.exit(f"pyright tells of {len(symbols)} symbols only: the public face has {len(face)} names")
    incomplete = [symbol for symbol in symbols if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]]
    for symbol in incomplete:
        print(symbol["name"], *(found["message"] for found in symbol["diagnostics"]), sep="\n  ")
    print(f"{len(symbols) - len(incomplete)} of {len(symbols)} public symbols are typed completely")
    if incomplete:
        sys.exit(1)


if __name__ == "__main__":
    main()
