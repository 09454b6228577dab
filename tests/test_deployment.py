"""The image, and the manifests for Kubernetes, against Kubernetes' own schemas and tidemill's own settings."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tidemill.worker.settings.reading import OTHERS, PREFIX, Settings

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "deploy" / "kubernetes"
VERSIONS = ("1.31", "1.34")


def manifests() -> Iterator[Any]:
    for path in sorted(FOLDER.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] not in ("Kustomization", "Component"):
                yield pytest.param(document, id=f"{document['kind']} {document['metadata']['name']}")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", [*manifests()])
def test_manifests_are_what_kubernetes_defines(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_a_mistake_would_be_found() -> None:
    [worker] = [p.values[0] for p in manifests() if p.id == "Deployment tidemill-worker"]
    broken = {**worker, "spec": {**worker["spec"], "replica": 2}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)


def test_every_file_is_applied() -> None:
    named = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    assert {*named} == {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}


def test_settings_exist_and_workers_have_time_to_drain() -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields} | {PREFIX + name for name in OTHERS}
    found = [p.values[0] for p in manifests()]
    names: list[str] = []
    for manifest in found:
        names += manifest.get("data", {}) if manifest["kind"] == "ConfigMap" else []
        if manifest["kind"] == "Deployment":
            pod = manifest["spec"]["template"]["spec"]
            names += [variable["name"] for variable in pod["containers"][0]["env"]]
            values = {v["name"]: v["value"] for v in pod["containers"][0]["env"] if "value" in v}
            if "TIDEMILL_DRAIN_SECONDS" in values:
                assert pod["terminationGracePeriodSeconds"] > int(values["TIDEMILL_DRAIN_SECONDS"])
            assert pod["securityContext"]["runAsNonRoot"]
            assert pod["enableServiceLinks"] is False, "a Service's variables begin as our settings do"
    assert {name for name in names if name.startswith(PREFIX)} <= known


def test_no_pod_has_rights_that_it_does_not_use() -> None:
    """Each has an account of its own, without a token; the rights that Spark needs are a component that is left out."""
    base = [
        d
        for path in FOLDER.glob("*.yaml")
        for d in yaml.safe_load_all(path.read_text())
        if d["kind"] != "Kustomization"
    ]
    accounts = {d["metadata"]["name"]: d for d in base if d["kind"] == "ServiceAccount"}
    used = [d["spec"]["template"]["spec"]["serviceAccountName"] for d in base if d["kind"] == "Deployment"]
    assert sorted(used) == sorted(accounts)
    assert all(account["automountServiceAccountToken"] is False for account in accounts.values())
    assert not [d for d in base if d["kind"] in ("Role", "RoleBinding")]
    selected = [d["spec"]["podSelector"]["matchLabels"] for d in base if d["kind"] == "NetworkPolicy"]
    labels = [d["spec"]["template"]["metadata"]["labels"] for d in base if d["kind"] == "Deployment"]
    assert all(any(chosen.items() <= label.items() for chosen in selected) for label in labels)


@pytest.mark.parametrize("component", ["spark", "run-as"])
def test_what_components_change_is_there(component: str) -> None:
    """Each path that a patch names exists in the manifest that it is for."""
    written = yaml.safe_load((FOLDER / component / "kustomization.yaml").read_text())
    found = {(p.values[0]["kind"], p.values[0]["metadata"]["name"]): p.values[0] for p in manifests()}
    for patch in written["patches"]:
        target = found[patch["target"]["kind"], patch["target"]["name"]]
        for change in yaml.safe_load(patch["patch"]):
            place: Any = target
            *above, last = change["path"].strip("/").split("/")
            for part in above if change["op"] == "add" else [*above, last]:
                place = place[int(part) if isinstance(place, list) else part.replace("~1", "/")]
            if change["path"].endswith("capabilities"):
                assert change["value"]["drop"] == ["ALL"]


def test_the_image_installs_nothing_without_a_hash() -> None:
    """A lock with hashes makes pip ask for one of everything: what is named beside it cannot be installed."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    [installs] = re.findall(r"^RUN pip install (.*--requirement .*)$", dockerfile, re.MULTILINE)
    assert installs.split() == ["--no-cache-dir", "--requirement", "requirements.lock"]
    lock = (ROOT / "requirements.lock").read_text()
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    for requirement in build:  # the image builds the package without an environment of its own
        name = re.split(r"[<>=\[]", requirement)[0]
        assert re.search(rf"^{name}==\S+ (;.*)?\\\n +--hash=sha256:", lock, re.MULTILINE), name


@pytest.mark.parametrize(
    "command", re.findall(r"^RUN pip install (.+?)(?: &&|$)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
)
def test_pip_takes_the_commands_of_the_image(command: str) -> None:
    """Tried without an index: this environment has what the lock names, so that pip has nothing to fetch."""
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--disable-pip-version-check"]
    tried = subprocess.run([*pip, *command.split()], cwd=ROOT, capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stderr


UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_of_systemd_name_commands_and_settings_that_there_are(unit: Path) -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields} | {PREFIX + name for name in OTHERS}
    lines = [line.partition("=")[::2] for line in unit.read_text().splitlines() if "=" in line and line[0] != "#"]
    assert {value.partition("=")[0] for name, value in lines if name == "Environment"} <= known
    [(_, command)] = [line for line in lines if line[0] == "ExecStart"]
    shown = subprocess.run(
        [sys.executable, "-m", "tidemill.worker", *command.split()[1:], "--help"], capture_output=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    if (patience := dict(lines).get("TimeoutStopSec")) is not None:
        assert float(patience) > Settings.model_fields["drain_seconds"].default


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_units_are_what_systemd_defines(unit: Path, tmp_path: Path) -> None:
    """With a command that is here, and without the users that a host makes."""
    text = unit.read_text().replace("/opt/tidemill/bin/tidemill", sys.executable)
    (tmp_path / unit.name).write_text(re.sub(r"(?m)^User=.*\n", "", text))
    told = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / unit.name)],
        capture_output=True,
        text=True,
        check=False,
    )
    about = [line for line in told.stderr.splitlines() if unit.name in line]
    assert not about, about
