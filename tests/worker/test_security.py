"""`tidemill doctor --security`: each thing that separates, where it does and where it does not."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import SecretStr
from support import Stack, run_command
from tidemill.model.bundle.data import BundleSettings
from tidemill.model.errors import InvalidInputError
from tidemill.model.spec.owned import OwnedNames
from tidemill.worker.app import security
from tidemill.worker.app.process import network_of
from tidemill.worker.settings.groups import OidcSettings
from tidemill.worker.settings.reading import Settings


def test_tasks_are_other_users_and_elsewhere(tmp_path: Path) -> None:
    assert not security.check_run_as(Settings(home=tmp_path)).ok
    some = security.check_run_as(Settings(home=tmp_path, run_as_users={"a": "nobody"}))
    assert (some.ok, some.found) == (False, "nobody")  # DAGs of no bundle are the worker's user still
    assert security.check_run_as(Settings(home=tmp_path, run_as="nobody")).ok
    place = Path("/run/netns/tasks")
    assert not security.check_network(Settings(home=tmp_path)).ok
    assert not security.check_network(Settings(home=tmp_path, task_network=place)).ok
    assert security.check_network(Settings(home=tmp_path, task_network=place, run_as="nobody")).ok


def test_a_network_that_would_hold_nobody_back_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="it is not there"):
        network_of(Settings(home=tmp_path, task_network=tmp_path / "none"))
    if os.geteuid() == 0:
        with pytest.raises(InvalidInputError, match="tasks that are root leave it as they like"):
            network_of(Settings(home=tmp_path, task_network=tmp_path))
        assert network_of(Settings(home=tmp_path, task_network=tmp_path, run_as="nobody")) == tmp_path


@pytest.mark.parametrize(("mode", "ok"), [(0o700, True), (0o711, True), (0o755, False), (0o770, False)])
def test_a_home_is_its_owners(tmp_path: Path, mode: int, ok: bool) -> None:
    tmp_path.chmod(mode)
    check = security.check_home(Settings(home=tmp_path))
    assert check.ok is ok
    assert (check.remedy is None) is ok


def test_the_web_is_apart_and_asks_who_somebody_is(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert not security.check_web_home(Settings(home=home)).ok
    assert not security.check_web_home(Settings(home=home, api_home=home / "web")).ok
    assert security.check_web_home(Settings(home=home, api_home=tmp_path / "web")).ok
    assert not security.check_people(Settings(home=home)).ok
    oidc = OidcSettings(
        issuer="https://id.example.com", client_id="x", client_secret=SecretStr("y"), default_role="viewer"
    )
    assert security.check_people(Settings(home=home, oidc=oidc)).found == "an OpenID provider"


def test_the_service_and_its_histories() -> None:
    assert not security.check_service({"target_host": "x"}).ok
    assert security.check_service({"tls": object(), "api_key": "k"}).found == "TLS and an API key"
    for codec, ok in ((None, False), (object(), True)):
        client = SimpleNamespace(data_converter=SimpleNamespace(payload_codec=codec))
        assert security.check_payloads(client).ok is ok


def test_each_of_several_bundles_owns_its_names() -> None:
    free = BundleSettings(name="free", path="/a")
    bound = BundleSettings(name="bound", path="/b", owns=OwnedNames(dag_id=("b_",)))
    assert security.check_bundles([free]).ok
    assert security.check_bundles([bound, bound]).ok
    check = security.check_bundles([free, bound])
    assert (check.ok, check.found) == (False, "1 of 2 own prefixes")
    assert check.remedy is not None
    assert check.remedy.startswith("free: ")


def test_the_file_of_secrets_is_its_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEMILL_SECRETS_FILE", raising=False)
    assert security.check_secrets_file() == []
    (tmp_path / "secrets.json").write_text("{}")
    monkeypatch.setenv("TIDEMILL_SECRETS_FILE", str(tmp_path / "secrets.json"))
    for mode, ok in ((0o644, False), (0o600, True)):
        (tmp_path / "secrets.json").chmod(mode)
        assert security.check_secrets_file()[0].ok is ok


async def test_the_command_says_what_is_open(here: Stack) -> None:
    done = run_command(here, "doctor", "--security", "--json")
    assert done.returncode == 1
    found = {check["name"]: check for check in json.loads(done.stdout)}
    assert {"Tasks run as", "Network of tasks", "Home of the web", "Histories", "Bundles"} <= {*found}
    assert all(check["remedy"] for check in found.values() if not check["ok"])
