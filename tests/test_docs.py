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
import yaml
from click import Context
from tidemill.model.authoring.dags import collect
from tidemill.model.spec.dag import read_dag
from tidemill.worker.cli import app
from tidemill.worker.settings.reading import Settings, read_settings
from typer.main import get_command
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
            for line in text.replace("\\\n", " ").splitlines():
                if line.startswith("tidemill "):
                    yield pytest.param(line.split("#")[0], id=line.split("#")[0].strip())


@pytest.mark.parametrize("line", [*commands()])
def test_commands_exist_with_their_options(line: str) -> None:
    """Parsed by the command line itself, up to the point where it would act: `--help` comes first."""
    done = CliRunner().invoke(app, [*shlex.split(line)[1:], "--help"])
    assert done.exit_code == 0, done.output


def test_commands_that_the_text_names_are_there() -> None:
    """Of a command in the middle of a sentence: its words up to the first that is an argument or an option."""
    wrong = []
    for page in PAGES:
        for words in re.findall(r"`tidemill ([^`]*)`", page.read_text()):
            found: Any = get_command(app)
            for word in words.split():
                if not hasattr(found, "list_commands"):
                    break
                if word.startswith("-"):
                    break
                if word not in found.list_commands(Context(found)):
                    wrong.append((page.name, words))
                    break
                _, found, _ = found.resolve_command(Context(found), [word])
    assert wrong == []


def test_commands_stand_in_blocks_that_are_run() -> None:
    """Blocks without a language are for output: nothing in them is run or parsed."""
    begins = re.compile(r"^(\$ )?(tidemill|pip|docker|kubectl|make|temporal) ", re.MULTILINE)
    for page in PAGES:
        fences = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
        assert not [text for language, text in fences if not language and begins.search(text)], page
        assert not re.search(
            r"^    (tidemill|pip) ",
            re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE),
            re.MULTILINE,
        ), page


@pytest.mark.parametrize("text", [*blocks("toml")])
def test_settings_files_are_read(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tidemill.toml").write_text(text)
    monkeypatch.setenv("TIDEMILL_CONFIG", str(tmp_path / "tidemill.toml"))
    assert read_settings().model_fields_set


@pytest.mark.parametrize("text", [*blocks("yaml")])
def test_manifests_set_what_there_is(text: str) -> None:
    assert yaml.safe_load(text)
    known = {f"TIDEMILL_{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"TIDEMILL_\w+", text)) <= known


@pytest.mark.parametrize("page", [path.name for path in ROOT.glob("*.md")])
def test_links_of_the_pages_at_the_top_lead_somewhere(page: str) -> None:
    """Those of docs/ are checked where the site is built."""
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", (ROOT / page).read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        found = ROOT / (target or page)
        assert found.exists(), f"{page}: {target}"
        if anchor and found.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, f"{page}: {target}#{anchor}"


def test_every_field_of_a_dag_is_described() -> None:
    page = (ROOT / "docs" / "reference" / "dag.md").read_text()
    without = [
        (section.splitlines()[0], row)
        for section in page.split("\n## ")[1:]
        for row in re.findall(r"^\| `(\w+)` \|.*\|\s*\|$", section, re.MULTILINE)
    ]
    assert [each for each in without if each[0] != "CalendarDelta"] == []  # its fields are relativedelta's
    settings = (ROOT / "docs" / "reference" / "settings.md").read_text()
    rows = [line for line in settings.splitlines() if line.startswith("| `TIDEMILL_")]
    assert len(rows) == len(Settings.model_fields)
    assert all(re.fullmatch(r"\|[^|]*\|[^|]*\| .+ \|", row) for row in rows)


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
