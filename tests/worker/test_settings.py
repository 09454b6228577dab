"""Settings: from the environment and a file, with one clear error for what is not one."""

from pathlib import Path

import pytest
from tidemill.model.errors import InvalidInputError
from tidemill.worker.settings import read_settings


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_misspelt_variable_is_told_with_its_right_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_TASKQUEUE", "etl")
    told = r"TIDEMILL_TASKQUEUE is no setting.*Did you mean TIDEMILL_TASK_QUEUE\?"
    with pytest.raises(InvalidInputError, match=told):
        read_settings()


def test_connections_and_variables_may_have_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_CONN_WAREHOUSE", "postgresql://db")
    monkeypatch.setenv("TIDEMILL_VAR_WHATEVER", "1")
    assert read_settings().task_queue == "tidemill"


def test_a_bad_value_names_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMILL_MAX_CONCURRENT_ACTIVITIES", "many")
    with pytest.raises(InvalidInputError, match=r"max_concurrent_activities = 'many'"):
        read_settings()


def test_a_file_has_own_names_and_airflows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "tidemill.toml").write_text(
        '[tidemill]\ntask_queue = "etl"\n\n[core]\nparallelism = 7\nexecutor = "LocalExecutor"\n'
        '[logging]\nremote_base_log_folder = "s3://logs"\n'
    )
    monkeypatch.setenv("TIDEMILL_TASK_QUEUE", "of-the-environment")
    settings = read_settings()
    assert (settings.task_queue, settings.max_concurrent_activities, settings.log_url) == (
        "of-the-environment",
        7,
        "s3://logs",
    )
    assert "no counterpart of [core] executor" in caplog.text


def test_a_files_unknown_setting_of_ours_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[tidemill]\nqueue = "etl"\n')
    monkeypatch.setenv("TIDEMILL_CONFIG", str(path))
    with pytest.raises(InvalidInputError, match=r"\[tidemill\] queue: no such setting"):
        read_settings()
