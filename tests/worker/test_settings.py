"""Settings: from the environment and a file, with one clear error for what is not one."""

import os
import re
from datetime import timedelta
from pathlib import Path

import pytest
from support import Stack
from temporalio.worker import WorkerConfig
from tidemill.model.errors import InvalidInputError
from tidemill.worker.app.process import plugin_for
from tidemill.worker.cli import app
from tidemill.worker.settings.airflow import INSTEAD, READ, notices_of_environment, of_environment
from tidemill.worker.settings.groups import GROUPS
from tidemill.worker.settings.reading import Settings, read_settings
from typer.testing import CliRunner


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
    assert (settings.task_queue, settings.parallelism, settings.log_url) == (
        "of-the-environment",
        7,
        "s3://logs",
    )
    assert "[core] executor: there are no executors" in caplog.text


def test_a_files_unknown_setting_of_ours_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[tidemill]\nqueue = "etl"\n')
    monkeypatch.setenv("TIDEMILL_CONFIG", str(path))
    with pytest.raises(InvalidInputError, match=r"\[tidemill\] queue: no such setting"):
        read_settings()


def test_a_parallelism_of_0_is_no_limit_as_in_airflow(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text("[core]\nparallelism = 0\n")
    assert read_settings().parallelism is None


@pytest.mark.parametrize(
    ("section", "option", "remedy"),
    [
        ("scheduler", "scheduler_heartbeat_sec", "no effect"),
        ("scheduler", "max_dagruns_to_create_per_loop", "no effect"),
        ("scheduler", "max_dagruns_per_loop_to_schedule", "no effect"),
        ("scheduler", "use_row_level_locking", "no effect"),
        ("scheduler", "num_runs", "no effect"),
        ("scheduler", "catchup_by_default", "catchup"),
        ("dag_processor", "refresh_interval", "tidemill bundles set"),
        ("core", "max_active_runs_per_dag", "max_active_runs"),
        ("scheduler", "scheduler_heartbeat_secs", r"Did you mean \[scheduler\] scheduler_heartbeat_sec\?"),
        ("webserver", "theme", "no counterpart"),
    ],
)
def test_an_option_of_airflows_is_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, section: str, option: str, remedy: str
) -> None:
    (tmp_path / "tidemill.toml").write_text(f"[{section}]\n{option} = 5\n")
    read_settings()
    assert re.search(rf"\[{section}\] {option}: .*{remedy}", caplog.text), caplog.text


def test_dags_are_paused_at_creation_by_airflows_name(tmp_path: Path) -> None:
    (tmp_path / "tidemill.toml").write_text("[core]\ndags_are_paused_at_creation = true\n")
    assert read_settings().dags_are_paused_at_creation


def test_every_counterpart_is_a_setting() -> None:
    assert {field for field, _ in READ.values()} <= Settings.model_fields.keys()
    assert not READ.keys() & INSTEAD.keys()


def test_airflows_variables_are_noticed_and_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CORE__PARALLELISM", "CORE__DAGS_FOLDER", "SCHEDULER__NUM_RUNS", "LOGGING__COLORED_CONSOLE_LOG"):
        monkeypatch.setenv(f"AIRFLOW__{name}", "7")
    monkeypatch.setenv("TIDEMILL_DAGS_FOLDER", "dags")
    settings = read_settings()
    assert settings.parallelism is None
    told = notices_of_environment(of_environment(os.environ), settings.model_fields_set.__contains__)
    assert [line.partition(" ")[0] for line in told] == ["AIRFLOW__CORE__PARALLELISM", "AIRFLOW__SCHEDULER__NUM_RUNS"]
    assert "Set TIDEMILL_PARALLELISM" in told[0]


@pytest.mark.parametrize(("option", "remedy"), [("--num-runs", "--run-duration"), ("--dag-ids", "TIDEMILL_TASK_QUEUE")])
def test_options_of_airflows_scheduler_are_answered(option: str, remedy: str) -> None:
    done = CliRunner().invoke(app, ["worker", option, "3"])
    assert done.exit_code == 1
    assert remedy in done.output


async def test_heartbeats_are_sent_as_often_as_is_set(here: Stack, tmp_path: Path) -> None:
    plugin = plugin_for(Settings(home=tmp_path, heartbeat_seconds=10))
    config = plugin.configure_worker(WorkerConfig(client=here.tidemill.client, activities=[], workflows=[]))
    assert config["max_heartbeat_throttle_interval"] == timedelta(seconds=10)
    assert config["default_heartbeat_throttle_interval"] == timedelta(seconds=10)


def test_every_setting_is_of_a_group_which_the_documentation_has_as_a_heading() -> None:
    assert sorted(name for group in GROUPS for name in group.model_fields) == sorted(Settings.model_fields)


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("TIDEMILL_TASK_ENVIRONMENT", "HOME", '["A", "B"]'),
        ("TIDEMILL_MASKED_NAMES", "{", '["A", "B"]'),
        ("TIDEMILL_RUN_AS_USERS", "ada", '{"name": "value"}'),
        ("TIDEMILL_SPARK_CONF", "['a']", '{"name": "value"}'),
    ],
)
def test_a_list_that_is_no_json_is_refused_with_its_form(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, form: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(InvalidInputError) as refused:
        read_settings()
    assert str(refused.value) == f"{name} = {text!r} is no JSON. Write it as {form}"
