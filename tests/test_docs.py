"""What the documentation shows works: every block of code, and every command."""

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tidemill.model.authoring.dags import collect
from tidemill.model.spec.dag import read_dag
from tidemill.worker.cli import app
from tidemill.worker.settings import Settings
from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str) -> Iterator[Any]:
    for page in PAGES:
        for n, text in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)):
            yield pytest.param(text, id=f"{page.stem}-{n}")


@pytest.mark.parametrize("text", [*blocks("python")])
def test_python_blocks_run_and_their_dags_are_in_order(text: str) -> None:
    for dag in collect(lambda: exec(compile(text, "block", "exec"), {"__name__": "block"})):
        dag.spec()


@pytest.mark.parametrize("text", [*blocks("json")])
def test_json_blocks_are_dags(text: str) -> None:
    read_dag(json.loads(text))


def commands() -> Iterator[Any]:
    for page in PAGES:
        for text in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            for line in text.splitlines():
                if line.startswith("tidemill "):
                    yield pytest.param(line.split("#")[0], id=line.split("#")[0].strip())


@pytest.mark.parametrize("line", [*commands()])
def test_commands_exist_with_their_options(line: str) -> None:
    """Parsed by the command line itself, up to the point where it would act: `--help` comes first."""
    done = CliRunner().invoke(app, [*shlex.split(line)[1:], "--help"])
    assert done.exit_code == 0, done.output


def test_the_settings_that_are_documented_are_the_ones_there_are() -> None:
    told = set(re.findall(r"^\| `TIDEMILL_(\w+)`", (ROOT / "docs" / "operating.md").read_text(), re.MULTILINE))
    assert told == {name.upper() for name in Settings.model_fields}


def test_the_contract_names_what_is_there_and_is_written_anew() -> None:
    path = ROOT / "scripts" / "write_contract.py"
    spec = importlib.util.spec_from_file_location("write_contract", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert {name: gone for name, row in script.rows().items() if (gone := script.gone(row))} == {}
    assert script.page() == (ROOT / "docs" / "contract.md").read_text(), "run `make docs`"


def test_the_tested_release_of_temporal_is_the_one_that_is_named() -> None:
    temporal = Path(sys.executable).with_name("temporal")
    if not temporal.exists():
        pytest.skip("the Temporal CLI is not beside this Python")
    told = subprocess.run([str(temporal), "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Server (\d+\.\d+)", told)
    assert found is not None, told
    assert f"What is tested is Temporal {found[1]}" in (ROOT / "docs" / "temporal.md").read_text()


def test_the_reference_is_as_the_code_is() -> None:
    script = ROOT / "scripts" / "write_reference.py"
    done = subprocess.run([sys.executable, "-P", str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    mkdocs = Path(sys.executable).with_name("mkdocs")
    command = [str(mkdocs), "build", "--strict", "--site-dir", str(tmp_path / "site")]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "contract" / "index.html").read_text()
    assert 'href="../repository/tests/workflows/test_dag.py.txt"' in page
    assert (tmp_path / "site" / "repository" / "tests" / "workflows" / "test_dag.py.txt").is_file()
