"""What a release is made of: its files, its version, its pages."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
BIN = ROOT / ".venv-release" / "bin"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel, sdist and bill of materials, made as `make dist` makes them, from a copy of what is versioned."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    build = [str(BIN / "python"), "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    bill = ["requirements", "--output-reproducible", "--of", "JSON", "-o", str(out / "tidemill.cdx.json")]
    subprocess.run([BIN / "cyclonedx-py", *bill, str(ROOT / "requirements.lock")], check=True, capture_output=True)
    return out


@pytest.mark.thorough
def test_wheel_and_sdist_pass_the_index_checks(built: Path) -> None:
    packages = [*built.glob("*.whl"), *built.glob("*.tar.gz")]
    assert len(packages) == 2
    done = subprocess.run([BIN / "twine", "check", "--strict", *packages], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    names = zipfile.ZipFile(next(built.glob("*.whl"))).namelist()
    assert "tidemill/py.typed" in names
    assert not [name for name in names if name.split("/")[0] in ("tests", "benchmarks", "scripts", "docs")]
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_bill_of_materials_names_what_is_locked(built: Path) -> None:
    bill = json.loads((built / "tidemill.cdx.json").read_text())
    named = {(part["name"], part["version"]) for part in bill["components"]}
    locked = set(re.findall(r"^([\w.-]+)==([\w.+-]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert named == locked


def test_the_version_is_one(built: Path) -> None:
    version = PROJECT["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert next(heading for heading in headings if heading != "Unreleased") == version
    assert f"newTag: {version} " in (ROOT / "deploy" / "kubernetes" / "kustomization.yaml").read_text()
    assert next(built.glob("*.whl")).name == f"tidemill-{version}-py3-none-any.whl"


def test_of_every_extra_it_is_said_what_it_is_for() -> None:
    """`make extras` installs each of them by itself."""
    sys.path.insert(0, str(ROOT / "scripts"))
    script = import_module("try_extras")
    assert {*PROJECT["optional-dependencies"]} == {*script.IMPORTS, *script.FOR_US} - {""}


def test_issue_forms_and_checks_before_commits_can_be_read() -> None:
    forms = [*(ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")]
    assert len(forms) == 4
    for form in forms:
        found = yaml.safe_load(form.read_text())
        if form.name != "config.yml":
            assert {"name", "description", "body"} <= found.keys()
            assert all({"type", "attributes"} <= part.keys() for part in found["body"])
    [repository] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["entry"] for hook in repository["hooks"]] == ["make check"]
