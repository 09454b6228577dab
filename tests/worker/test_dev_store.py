"""`tidemill dev` keeps variables and connections though nobody sets a key, and commands in its folder find them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tidemill.activities.kept import ARCHIVE, DATABASE, KEY
from tidemill.worker.settings.dev_store import FILE, make_dev_store, use_dev_store


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (KEY, DATABASE, ARCHIVE):
        monkeypatch.setenv(name, "")


def test_a_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    make_dev_store(tmp_path)
    made = os.environ[KEY]
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert os.environ[DATABASE] == f"sqlite:///{tmp_path}/secrets.db"
    os.environ[KEY] = ""
    make_dev_store(tmp_path)
    assert os.environ[KEY] == made


def test_what_somebody_has_set_goes_first(tmp_path: Path) -> None:
    make_dev_store(tmp_path)
    os.environ[KEY], os.environ[DATABASE] = "", "sqlite:////elsewhere.db"
    use_dev_store(tmp_path)
    assert os.environ[DATABASE] == "sqlite:////elsewhere.db"
    os.environ[KEY] = "mine"
    use_dev_store(tmp_path)
    make_dev_store(tmp_path)
    assert os.environ[KEY] == "mine"


def test_commands_of_its_folder_find_the_store(tmp_path: Path) -> None:
    def tidemill(*command: str) -> str:
        environment = {**os.environ, "TIDEMILL_HOME": str(tmp_path / "home")}
        argv = [sys.executable, "-m", "tidemill.worker", *command]
        done = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.stdout.strip() or done.stderr.strip()

    (tmp_path / "home").mkdir()
    assert "tidemill variables new-key" in " ".join(tidemill("variables", "set", "color", "blue").split())
    make_dev_store(tmp_path / "home")
    os.environ[KEY] = os.environ[DATABASE] = ""
    assert tidemill("variables", "set", "color", "blue") == "variable color is kept"
    assert tidemill("variables", "get", "color") == "blue"
    assert len(tidemill("variables", "new-key")) == 44
