"""The home of a worker is its owner's."""

from __future__ import annotations

from pathlib import Path

import pytest
from tidemill.model.errors import InvalidInputError
from tidemill.worker.cli.web import token_file
from tidemill.worker.settings.home import make_home, make_web_home
from tidemill.worker.settings.reading import Settings


@pytest.mark.parametrize(("run_as", "mode"), [(None, 0o700), ("nobody", 0o711)])
def test_a_new_home_is_its_owners(tmp_path: Path, run_as: str | None, mode: int) -> None:
    settings = Settings(home=tmp_path / "a" / "home", run_as=run_as)
    make_home(settings)
    assert settings.home.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize(("run_as", "mode"), [(None, 0o777), ("nobody", 0o711)])
def test_nobody_else_writes_to_a_home_whose_tasks_are_other_users(
    tmp_path: Path, run_as: str | None, mode: int
) -> None:
    """An emptyDir of Kubernetes is everybody's: a task could put its own folders in the place of the worker's."""
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)
    make_home(Settings(home=home, run_as=run_as))
    assert home.stat().st_mode & 0o777 == mode


def test_a_home_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match=r"TIDEMILL_HOME = .*: cannot be made: Not a directory\. Name"):
        make_home(Settings(home=tmp_path / "file" / "home"))
    make_web_home(Settings(api_home=tmp_path / "file" / "web"))  # what it keeps is told of as lost when it starts


def test_what_the_web_keeps_is_apart_where_it_has_a_home_of_its_own(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", api_home=tmp_path / "web")
    make_web_home(settings)
    assert settings.web_home.stat().st_mode & 0o777 == 0o700
    assert token_file(settings) == tmp_path / "web" / "api_tokens.json"
    assert Settings(home=tmp_path / "home").web_home == tmp_path / "home"


def test_a_home_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    make_home(Settings(home=tmp_path))
    assert tmp_path.stat().st_mode & 0o777 == 0o750
